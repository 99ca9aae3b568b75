/**
 * Text to ids, exactly as the engine's tokenizer: added tokens first, then pieces, then merges. One per thread; the
 * vocabulary behind it is shared. Holds the caches of pieces and segments, and scratch memory that it reuses.
 */
import type { Step } from '../vocabulary/tokenizer-file.js'
import type { EncoderPlan } from '../vocabulary/plan.js'
import type { Vocabulary } from '../vocabulary/vocabulary.js'
import { findToken, hashBytes, noToken } from '../vocabulary/vocabulary.js'
import { writeSymbols } from '../vocabulary/build-vocabulary.js'
import { space } from '../vocabulary/char-classes.js'
import { hasLongMarkRun } from '../vocabulary/mark-order.js'
import { toNfc } from '../vocabulary/unicode-of-engines.js'
import { AddedTokenFinder } from './added-tokens.js'
import { Boundaries } from './boundaries.js'
import type { CacheCounts } from './ids-cache.js'
import { IdsCache } from './ids-cache.js'
import { LibrarySplitter } from './library-splitter.js'
import { Merger } from './merge.js'
import { codePointAt, lengthAt, nextCl100k, nextDeepseek, nextGpt2, regionDeepseek, regionDigits } from './scan.js'
import type { CasedRules } from './scan-cased.js'
import { isSettled, nextCased } from './scan-cased.js'
import { nextJoined } from './scan-joins.js'

export interface EncoderOptions {
  readonly pieceCacheBytes?: number
  readonly segmentCacheBytes?: number
}

export interface EncoderCounts {
  readonly pieces: CacheCounts
  readonly segments: CacheCounts
}

const pieceBytesMax = 64
const segmentBytesMin = 48
const segmentBytesMax = 16_384
const blank = 0x20
const textStart = 4 // so that a text can be read in words
/** Where a piece ends is settled by two characters behind it (DeepSeek: one that stands with others unless a letter follows), so by 8; twice that. */
const settledBytes = 16
/** What an added token may look at beside itself: a blank at the cut, which it takes from its left, and a character behind, before which it does not stand alone. */
const besideTokenBytes = 5
/** Normalising this many characters takes about 2 ms. */
const normalizedMax = 1 << 17
/** Looking at so many characters takes about 2 ms. */
const scannedMax = 1 << 19
/** After so many bytes the caller is asked whether it goes on; a piece or an added token counts for a few more than it has. */
const bytesPerLook = 2048
const bytesPerStep = 8
const never = (): boolean => false
const utf8 = new TextEncoder()
const utf16 = new TextDecoder('utf-8', { ignoreBOM: true }) // a mark is a character here

export function noEncoderCounts(): EncoderCounts {
  const none = (): CacheCounts => ({ hits: 0, misses: 0, evictions: 0 })
  return { pieces: none(), segments: none() }
}

export function addCounts(sum: EncoderCounts, counted: EncoderCounts | undefined): void {
  if (!counted) return
  for (const cache of ['pieces', 'segments'] as const) {
    sum[cache].hits += counted[cache].hits
    sum[cache].misses += counted[cache].misses
    sum[cache].evictions += counted[cache].evictions
  }
}

export class Encoder {
  readonly plan: EncoderPlan
  /** A text may be cut this many bytes before the end of what is known of it, and not later: an added token may begin there. */
  readonly cutMargin: number
  /** Where the last text may be cut, and how many tokens come before. Valid until the next call. */
  readonly boundaries: Boundaries = new Boundaries()
  readonly #vocabulary: Vocabulary
  readonly #raw: AddedTokenFinder
  readonly #normalized: AddedTokenFinder
  readonly #merger: Merger
  readonly #pieces: IdsCache
  readonly #segments: IdsCache
  readonly #steps: LibrarySplitter | undefined
  /** The text, from byte `textStart`: the byte before is where a word mark may stand. */
  #bytes = new Uint8Array(4096)
  #length = 0
  #ids = new Uint32Array(4096)
  #count = 0
  #longestPiece = 0
  #isOver: () => boolean = never
  #untilLook = 0
  /** What is encoded begins inside a section: no mark stands before it. */
  #isContinued = false

  constructor(plan: EncoderPlan, vocabulary: Vocabulary, options: EncoderOptions = {}) {
    this.plan = plan
    this.#vocabulary = vocabulary
    // Tokens marked `normalized` are looked for after the others, in what those leave. Our normalisers leave them as they are.
    this.#raw = new AddedTokenFinder(
      plan.addedTokens.filter((token) => !token.normalized),
      vocabulary.classes,
    )
    this.#normalized = new AddedTokenFinder(
      plan.addedTokens.filter((token) => token.normalized),
      vocabulary.classes,
    )
    this.#merger = new Merger(vocabulary)
    this.#pieces = new IdsCache(options.pieceCacheBytes ?? 8 << 20, pieceBytesMax)
    this.#segments = new IdsCache(options.segmentCacheBytes ?? 8 << 20, segmentBytesMax)
    this.#steps = plan.split.kind === 'steps' ? new LibrarySplitter(plan.split.steps as readonly Step[]) : undefined
    this.cutMargin = Math.max(settledBytes, this.#raw.lengthMax, this.#normalized.lengthMax) + besideTokenBytes
  }

  get counts(): EncoderCounts {
    return { pieces: this.#pieces.counts, segments: this.#segments.counts }
  }

  /** What its caches counted since the last call; `counts` begin anew. */
  takeCounts(): EncoderCounts {
    return { pieces: this.#pieces.takeCounts(), segments: this.#segments.takeCounts() }
  }

  get cacheBytes(): number {
    return this.#pieces.byteLength + this.#segments.byteLength
  }

  clearCaches(): void {
    this.#pieces.clear()
    this.#segments.clear()
  }

  /** The ids of a text. `addSpecialTokens` puts around it what the tokenizer's template says. */
  encode(text: string, addSpecialTokens = false): Uint32Array {
    this.load(text)
    this.encodeFrom(0)
    return this.takeIds(addSpecialTokens)
  }

  /** Reads a text in; answers its bytes, valid until the next call. They are what `encodeFrom` works on. */
  load(text: string): Uint8Array {
    const room = text.length * 3 + 2 * textStart
    this.#reserveBytes(room)
    this.#length = utf8.encodeInto(text, this.#bytes.subarray(textStart)).written
    this.#isContinued = false
    return this.bytes
  }

  /** Reads in a text whose first `length` bytes are those of `head`. */
  loadAfter(head: Uint8Array, length: number, tail: string): Uint8Array {
    this.#reserveBytes(length + tail.length * 3 + 2 * textStart)
    this.#bytes.set(head.subarray(0, length), textStart)
    this.#length = length + utf8.encodeInto(tail, this.#bytes.subarray(textStart + length)).written
    this.#isContinued = false
    return this.bytes
  }

  /** Reads in the rest of a text, which begins at a boundary; `isContinued` is false for a whole text. */
  loadBytes(bytes: Uint8Array, isContinued: boolean): void {
    this.#reserveBytes(bytes.length + 2 * textStart)
    this.#bytes.set(bytes, textStart)
    this.#length = bytes.length
    this.#isContinued = isContinued
  }

  /** The loaded text. */
  get bytes(): Uint8Array {
    return this.#bytes.subarray(textStart, textStart + this.#length)
  }

  /** Whether a text, given with its bytes, is its own normal form, so that cuts in it are cuts in what is encoded. A long one counts as not, and so does one with more marks in a row than any language has. */
  isStable(text: string, bytes: Uint8Array): boolean {
    if (this.isSurelyStable(text.length, bytes)) return true
    return text.length <= normalizedMax && !hasLongMarkRun(text) && toNfc(text) === text
  }

  /** `isStable` by what a text is made of: of `units` UTF-16 units and these bytes. */
  isSurelyStable(units: number, bytes: Uint8Array): boolean {
    if (!this.plan.isNfc || bytes.length === units) return true // ASCII is
    return units <= scannedMax && !hasNfcRisk(bytes, 0, bytes.length, this.#vocabulary.nfcRisk)
  }

  /**
   * Encodes the loaded text from byte `from` on, which is 0 or a boundary of an earlier text that begins with the same bytes.
   * Stops with false at a piece of more than `pieceMax` bytes, which would hold the caller's thread for too long, and where
   * `isOver` says so, which is asked now and then: how long a text takes cannot be told from its length.
   */
  encodeFrom(from: number, pieceMax: number = Infinity, isOver: () => boolean = never): boolean {
    this.#count = 0
    this.#longestPiece = pieceMax
    this.#isOver = isOver
    this.#untilLook = bytesPerLook
    this.boundaries.clear()
    const room = this.#length - from
    if (this.#ids.length < room) this.#ids = new Uint32Array(Math.max(room, this.#ids.length * 2))
    else if (this.#ids.length > 1 << 20 && room < 1 << 18) this.#ids = new Uint32Array(1 << 18)
    if (from > 0) this.#isContinued = true
    const whole = this.#encodeRange(textStart + from, textStart + this.#length)
    this.#merger.shrink()
    return whole
  }

  /** How many ids `encodeFrom` found. */
  get count(): number {
    return this.#count
  }

  /** The ids of the last `encodeFrom`, as a copy of their own, after `before` ids of `head`. */
  takeIds(addSpecialTokens: boolean, head: Uint32Array = noIds, before: number = head.length): Uint32Array {
    const first = addSpecialTokens ? this.plan.specialsBefore : noIds
    const last = addSpecialTokens ? this.plan.specialsAfter : noIds
    const ids = new Uint32Array(first.length + before + this.#count + last.length)
    ids.set(first)
    ids.set(before === head.length ? head : head.subarray(0, before), first.length)
    ids.set(this.#ids.subarray(0, this.#count), first.length + before)
    ids.set(last, first.length + before + this.#count)
    return ids
  }

  /** Added tokens that are matched in the raw text, and between them the rest. */
  #encodeRange(from: number, end: number): boolean {
    const bytes = this.#bytes
    const { match } = this.#raw
    for (let searched = from; searched < end; ) {
      const found = this.#raw.find(bytes, textStart, from, end, searched)
      const gapEnd = found ? match.from : end
      const { id, to, next } = match
      if (from < gapEnd && !this.#encodeGap(from, gapEnd)) return false
      if (!found) return true
      if (!this.#goesOn(to - from)) return false
      if (gapEnd < to) this.#addToken(id)
      from = to
      searched = next
      if (next === to) this.#markSection(to) // else a rest would not see what begins before it
    }
    return true
  }

  #encodeGap(from: number, end: number): boolean {
    if (!this.plan.isNfc || !hasNfcRisk(this.#bytes, from, end, this.#vocabulary.nfcRisk)) {
      return this.#encodeNormal(this.#bytes, from, end)
    }
    const text = utf16.decode(this.#bytes.subarray(from, end))
    const normal = toNfc(text)
    if (normal === text) return this.#encodeNormal(this.#bytes, from, end)
    const bytes = new Uint8Array(normal.length * 3 + 1)
    const length = utf8.encodeInto(normal, bytes.subarray(1)).written
    return this.#encodeNormal(bytes, 1, 1 + length)
  }

  /** Added tokens that are matched in the normalised text, and sections between them. */
  #encodeNormal(bytes: Uint8Array, from: number, end: number): boolean {
    const { match } = this.#normalized
    const start = from
    for (let searched = from; searched < end; ) {
      const found = this.#normalized.find(bytes, start, from, end, searched)
      const gapEnd = found ? match.from : end
      const { id, to, next } = match
      if (from < gapEnd && !this.#encodeSection(bytes, from, gapEnd)) return false
      if (!found) return true
      if (!this.#goesOn(to - from)) return false
      if (gapEnd < to) this.#addToken(id)
      from = to
      searched = next
      if (bytes === this.#bytes && next === to) this.#markSection(to)
    }
    return true
  }

  #encodeSection(bytes: Uint8Array, from: number, end: number): boolean {
    const length = end - from
    this.#reserveIds(length + 1) // its mark has an id, too
    // The first section is not remembered: it may begin in the middle of one, and only it takes a mark under `first`.
    const isKept = length >= segmentBytesMin && length <= segmentBytesMax && this.#count > 0
    if (!isKept) return this.#encodePieces(bytes, from, end)
    const hash = hashBytes(bytes, from, end)
    const before = this.#count
    const known = this.#segments.read(hash, bytes, from, end, this.#ids, before)
    if (known >= 0) {
      this.#count += known
      return true
    }
    if (!this.#encodePieces(bytes, from, end)) return false
    this.#segments.write(hash, bytes, from, end, this.#ids, before, this.#count - before)
    return true
  }

  #encodePieces(bytes: Uint8Array, from: number, end: number): boolean {
    const { split } = this.plan
    switch (split.kind) {
      case 'gpt2':
        return split.digits === undefined
          ? this.#scanGpt2(bytes, from, end, end)
          : this.#scanDigits(bytes, from, end, split.digits)
      case 'cl100k':
        return this.#scanCl100k(bytes, from, end, split.digitsMax, split.letters)
      case 'cased':
        return this.#scanCased(bytes, from, end, split)
      case 'deepseek':
        return this.#scanDeepseek(bytes, from, end)
      case 'joins':
        return this.#scanJoins(bytes, from, end, split.cutsAtMark)
      case 'steps':
        return this.#scanSteps(bytes, from, end)
    }
  }

  #scanDigits(bytes: Uint8Array, from: number, end: number, digits: 'each' | 'runs'): boolean {
    const { classes } = this.#vocabulary
    while (from < end) {
      const region = regionDigits(bytes, from, end, classes, digits)
      if (!this.#scanGpt2(bytes, from, region, end)) return false
      from = region
    }
    return true
  }

  /** Up to `region`, in a section that goes on to `end`. */
  #scanGpt2(bytes: Uint8Array, from: number, region: number, end: number): boolean {
    const { classes } = this.#vocabulary
    while (from < region) {
      const to = nextGpt2(bytes, from, region, classes)
      if (!this.#encodePiece(bytes, from, to)) return false
      from = to
      this.#markBoundary(bytes, from, end)
    }
    return true
  }

  #scanCl100k(bytes: Uint8Array, from: number, end: number, digitsMax: number, letters: number): boolean {
    const { classes } = this.#vocabulary
    while (from < end) {
      const to = nextCl100k(bytes, from, end, classes, digitsMax, letters)
      if (!this.#encodePiece(bytes, from, to)) return false
      from = to
      this.#markBoundary(bytes, from, end)
    }
    return true
  }

  #scanCased(bytes: Uint8Array, from: number, end: number, rules: CasedRules): boolean {
    const vocabulary = this.#vocabulary
    while (from < end) {
      const to = nextCased(bytes, from, end, vocabulary, rules)
      if (!this.#encodePiece(bytes, from, to)) return false
      from = to
      if (from < end && isSettled(bytes, from, vocabulary.cases)) this.#markBoundary(bytes, from, end)
    }
    return true
  }

  #scanDeepseek(bytes: Uint8Array, from: number, end: number): boolean {
    const { classes } = this.#vocabulary
    while (from < end) {
      const region = regionDeepseek(bytes, from, end, classes)
      while (from < region) {
        const to = nextDeepseek(bytes, from, region, classes)
        if (!this.#encodePiece(bytes, from, to)) return false
        from = to
        this.#markBoundary(bytes, from, end)
      }
    }
    return true
  }

  #scanJoins(bytes: Uint8Array, from: number, end: number, cutsAtMark: boolean): boolean {
    if (includesMark(bytes, from, end)) return this.#scanJoinsSpelled(bytes, from, end, cutsAtMark)
    const { prefix } = this.plan
    const isMarked =
      prefix === 'always' ||
      (prefix === 'unless-marked' && bytes[from] !== blank) ||
      (prefix === 'first' && from === textStart && bytes === this.#bytes && bytes[from] !== blank)
    const isContinued = this.#isContinued && this.#count === 0
    if (!isMarked || isContinued) return this.#scanJoined(bytes, from, end, cutsAtMark)
    const held = bytes[from - 1]!
    bytes[from - 1] = blank
    const to = nextJoined(this.#vocabulary, bytes, from - 1, end, cutsAtMark)
    const isEncoded = this.#encodePiece(bytes, from - 1, to)
    bytes[from - 1] = held // before a boundary is marked: that looks at what really stands before it
    if (!isEncoded) return false
    this.#markBoundary(bytes, to, end)
    return this.#scanJoined(bytes, to, end, cutsAtMark)
  }

  #scanJoined(bytes: Uint8Array, from: number, end: number, cutsAtMark: boolean): boolean {
    while (from < end) {
      const to = nextJoined(this.#vocabulary, bytes, from, end, cutsAtMark)
      if (!this.#encodePiece(bytes, from, to)) return false
      from = to
      this.#markBoundary(bytes, from, end)
    }
    return true
  }

  /** A text that holds the mark itself is spelled with spaces, as the vocabulary is. */
  #scanJoinsSpelled(bytes: Uint8Array, from: number, end: number, cutsAtMark: boolean): boolean {
    const { prefix } = this.plan
    const text = ` ${utf16.decode(bytes.subarray(from, end)).replaceAll('▁', ' ')}`
    const spelled = utf8.encode(text)
    const isFirst = from === textStart && bytes === this.#bytes
    const isContinued = this.#isContinued && this.#count === 0
    const isMarked =
      !isContinued &&
      (prefix === 'always' || ((prefix === 'unless-marked' || (prefix === 'first' && isFirst)) && text[1] !== ' '))
    return this.#scanJoined(spelled, isMarked ? 0 : 1, spelled.length, cutsAtMark)
  }

  #scanSteps(bytes: Uint8Array, from: number, end: number): boolean {
    for (const piece of this.#steps!.split(utf16.decode(bytes.subarray(from, end)))) {
      const spelled = utf8.encode(piece)
      if (!this.#encodePiece(spelled, 0, spelled.length)) return false
    }
    return true
  }

  #encodePiece(bytes: Uint8Array, from: number, to: number): boolean {
    const vocabulary = this.#vocabulary
    const length = to - from
    if (length > this.#longestPiece || !this.#goesOn(length)) return false
    const hash = hashBytes(bytes, from, to)
    const token = findToken(vocabulary, bytes, from, to, hash)
    if (token !== noToken && (vocabulary.isWhole[token] === 1 || this.plan.ignoresMerges)) {
      this.#ids[this.#count++] = token
      return true
    }
    const isKept = length <= pieceBytesMax
    if (isKept) {
      const known = this.#pieces.read(hash, bytes, from, to, this.#ids, this.#count)
      if (known >= 0) {
        this.#count += known
        return true
      }
    }
    const merger = this.#merger
    const count = merger.merge(writeSymbols(vocabulary, this.plan.kind, merger, bytes, from, to))
    const ids = this.#ids
    const at = this.#count
    const { symbols } = merger
    for (let index = 0; index < count; index++) ids[at + index] = symbols[index]!
    this.#count = at + count
    if (isKept) this.#pieces.write(hash, bytes, from, to, ids, at, count)
    return true
  }

  #goesOn(bytes: number): boolean {
    this.#untilLook -= bytes + bytesPerStep
    if (this.#untilLook > 0) return true
    this.#untilLook = bytesPerLook
    return !this.#isOver()
  }

  /**
   * What follows a boundary must not be a run of white space: that is cut by where it ends, which a longer text may change. One
   * blank before something else is no such run; without it a text of words and nothing else would have no boundary at all.
   */
  #markBoundary(bytes: Uint8Array, at: number, end: number): void {
    if (bytes !== this.#bytes || at - textStart < this.boundaries.nextFrom) return
    const next = bytes[at] === blank ? at + 1 : at
    if (next < end && (this.#vocabulary.classes[codePointAt(bytes, next)]! & space) === 0) this.#addBoundary(at)
  }

  /** A section begins here. Where sections take a mark, a rest that begins here would have to know; it is simpler not to cut. */
  #markSection(at: number): void {
    const { prefix } = this.plan
    if (prefix === 'none' || prefix === 'first') this.#addBoundary(at)
  }

  /** A rest does not know what stands before it. */
  #addBoundary(at: number): void {
    if (this.#isTokenAcross(this.#raw, at) || this.#isTokenAcross(this.#normalized, at)) return
    this.boundaries.add(at - textStart, this.#count)
  }

  #isTokenAcross(tokens: AddedTokenFinder, at: number): boolean {
    const bytes = this.#bytes
    return tokens.looksBehind(bytes, at) || tokens.isInside(bytes, textStart, at, textStart + this.#length)
  }

  #reserveBytes(room: number): void {
    if (this.#bytes.length < room) this.#bytes = new Uint8Array(Math.max(room, this.#bytes.length * 2))
    else if (this.#bytes.length > 1 << 22 && room < 1 << 20) this.#bytes = new Uint8Array(1 << 20)
  }

  #addToken(id: number): void {
    this.#reserveIds(1)
    this.#ids[this.#count++] = id
  }

  /** There may be more ids than the text has bytes: where normalising makes it longer, or many short sections take marks. */
  #reserveIds(more: number): void {
    if (this.#count + more <= this.#ids.length) return
    const larger = new Uint32Array((this.#count + more) * 2)
    larger.set(this.#ids.subarray(0, this.#count))
    this.#ids = larger
  }
}

const noIds: Uint32Array = new Uint32Array(0)

function hasNfcRisk(bytes: Uint8Array, from: number, end: number, nfcRisk: Uint8Array): boolean {
  for (let at = from; at < end; ) {
    if (bytes[at]! < 0x80) {
      at++
      continue
    }
    const codePoint = codePointAt(bytes, at)
    if ((nfcRisk[codePoint >>> 3]! & (1 << (codePoint & 7))) !== 0) return true
    at += lengthAt(bytes, at)
  }
  return false
}

/** Whether U+2581 is among the bytes. */
function includesMark(bytes: Uint8Array, from: number, end: number): boolean {
  const section = bytes.subarray(from, end) // a search must not go on behind it: a text may have a section every few bytes
  for (let at = section.indexOf(0xe2); at >= 0; at = section.indexOf(0xe2, at + 1)) {
    if (section[at + 1] === 0x96 && section[at + 2] === 0x81) return true
  }
  return false
}
