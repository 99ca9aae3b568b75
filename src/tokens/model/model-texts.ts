/**
 * A model's texts become ids: what of them is remembered is looked up, short rests are encoded on the loop and long ones by a
 * thread. However long a text is, others have their turn of the loop while it is read, searched for and copied.
 */
import { WarmrouteError } from '../../core/protocol/index.js'
import { joinCuts, lastCut } from '../encode/boundaries.js'
import type { EncoderCounts } from '../encode/encoder.js'
import { addCounts, Encoder, noEncoderCounts } from '../encode/encoder.js'
import type { CacheCounts } from '../encode/ids-cache.js'
import { copyInSlices, decodeInSlices, encodeInSlices, joinInSlices, nextTurn } from '../next-turn.js'
import type { TokenPool } from '../pool/pool.js'
import type { EncodeResult, TextBytes } from '../pool/tasks.js'
import type { Lookup, RememberedText } from '../remember/remembered-texts.js'
import { hasSpecials, RememberedTexts } from '../remember/remembered-texts.js'
import type { Rendering } from '../template/rendered-prefixes.js'
import type { Kinship } from '../tokens.js'
import type { EncoderPlan, LibraryPlan } from '../vocabulary/plan.js'
import { viewVocabulary } from '../vocabulary/vocabulary.js'
import type { LoadedModel } from './loaded-model.js'

export interface ModelTextsOptions {
  readonly cacheBytes: number
  /** Longest text, in UTF-16 units. */
  readonly textMax: number
  /** Cold bytes that are encoded on the loop; more go to a thread. */
  readonly loopBytesMax: number
  /** Encoding that has held the loop for so long is left to a thread. */
  readonly loopMsMax: number
  /** Texts of so many UTF-16 units are read and searched for in one turn of the loop; longer ones take several. */
  readonly turnUnitsMax?: number | undefined
  /** A remembered text holds more than before. */
  readonly onGrown?: (text: RememberedText) => void
}

/** How long a thread may take, and who may not want it any more. */
export interface EncodeLimits {
  readonly signal?: AbortSignal | undefined
  readonly deadlineMs?: number | undefined
}

export interface Encoded {
  readonly ids: Uint32Array
  readonly kinship: Kinship | undefined
}

export interface TextCounts {
  readonly encoder: EncoderCounts | undefined
  readonly inThread: EncoderCounts | undefined
  readonly texts: CacheCounts
  readonly cacheBytes: number
  readonly threadCacheBytes: number
  readonly onLoop: number
  readonly inThreads: number
}

type KnownHead = NonNullable<Rendering<RememberedText>['head']>

export const deadlineMsDefault = 5000

const loopPieceMax = 2048
/** Texts that have half the time on the loop: their code is not optimised yet, and what stands between two looks at the clock takes long. */
const firstTexts = 12
/** 3 ms at most, for characters of two and three bytes. */
const turnUnitsMaxDefault = 256 << 10
/** Longer texts are not remembered: one would take the place of all others. */
const rememberedUnitsMax = 2 << 20
const shortBytesMax = 128
/** A text that adds less than this to a remembered one is encoded from there again sooner than it is kept. */
const newBytesMin = 256
const noIds: Uint32Array = new Uint32Array(0)
const utf16 = new TextDecoder('utf-8', { ignoreBOM: true }) // a mark is a character here

export class ModelTexts {
  readonly #plan: EncoderPlan | LibraryPlan
  readonly #loaded: LoadedModel
  readonly #pool: TokenPool
  readonly #encoder: Encoder | undefined
  readonly #texts: RememberedTexts
  readonly #options: ModelTextsOptions
  readonly #turnUnitsMax: number
  readonly #loopBytesMax: number
  readonly #threadCounts: EncoderCounts = noEncoderCounts()
  /** By thread, the one that answered last at the end. */
  readonly #threadBytes = new Map<number, number>()
  #isConfirmed = false
  #onLoop = 0
  #begunOnLoop = 0
  #inThreads = 0

  constructor(plan: EncoderPlan | LibraryPlan, loaded: LoadedModel, pool: TokenPool, options: ModelTextsOptions) {
    const { cacheBytes } = options
    this.#plan = plan
    this.#loaded = loaded
    this.#pool = pool
    this.#options = options
    this.#turnUnitsMax = options.turnUnitsMax ?? turnUnitsMaxDefault
    this.#loopBytesMax = options.loopBytesMax * shareOnLoop(plan)
    this.#encoder =
      plan.kind === 'library' || !loaded.vocabulary
        ? undefined
        : new Encoder(plan, viewVocabulary(loaded.vocabulary), {
            pieceCacheBytes: cacheBytes / 7,
            segmentCacheBytes: cacheBytes / 7,
          })
    this.#texts = new RememberedTexts(this.#encoder ? (cacheBytes * 5) / 7 : cacheBytes, options.onGrown)
  }

  /** Whether the model's steps were compared with an engine's: of what only the library does, and of patterns that nobody knows, there is no recording. */
  get isProven(): boolean {
    return this.unsure === undefined && this.#encoder !== undefined && shareOnLoop(this.#plan) > 0
  }

  /** Why an engine may have another tokenizer. */
  get unsure(): string | undefined {
    return this.#isConfirmed ? undefined : this.#loaded.unsure
  }

  /** An engine has the same tokens. */
  confirm(): void {
    this.#isConfirmed = true
  }

  get counts(): TextCounts {
    return {
      encoder: this.#encoder?.counts,
      inThread: this.#encoder && this.#threadCounts,
      texts: this.#texts.counts,
      cacheBytes: this.#texts.byteLength + (this.#encoder?.cacheBytes ?? 0),
      threadCacheBytes: [...this.#threadBytes.values()].reduce((sum, bytes) => sum + bytes, 0),
      onLoop: this.#onLoop,
      inThreads: this.#inThreads,
    }
  }

  encode(text: string, addSpecialTokens: boolean, limits: EncodeLimits): Encoded | Promise<Encoded> {
    const { textMax } = this.#options
    if (text.length > textMax)
      throw new WarmrouteError('WR_TOKENS_TEXT_TOO_LONG', { length: text.length, lengthMax: textMax })
    const encoder = this.#encoder
    if (!encoder || text.length > this.#turnUnitsMax) return this.#encodeInSteps(text, addSpecialTokens, limits)
    const bytes = encoder.load(text)
    if (!encoder.isStable(text, bytes)) return this.#encodeUnstable(bytes, addSpecialTokens, limits)
    const lookup = this.#texts.find(bytes, this.#isWrapped(addSpecialTokens))
    return this.#encodeLoaded(bytes, lookup, addSpecialTokens, limits)
  }

  /** A text as a thread gave it: a long one is never made a string. */
  encodeBytes(text: TextBytes, addSpecialTokens: boolean, limits: EncodeLimits): Encoded | Promise<Encoded> {
    const { bytes, units } = text
    if (units > this.#turnUnitsMax) return this.#encodeGiven(text, addSpecialTokens, limits)
    return this.encode(utf16.decode(bytes), addSpecialTokens, limits)
  }

  /** A rendered text whose head is remembered: neither made, nor hashed, nor searched for again. */
  encodeRendering(
    { head, tail }: Rendering<RememberedText>,
    addSpecialTokens: boolean,
    limits: EncodeLimits,
  ): Encoded | Promise<Encoded> {
    if (!head) return this.encode(tail, addSpecialTokens, limits)
    const encoder = this.#encoder
    // What is remembered is its own normal form, and ASCII behind it leaves it so.
    const isAfter = !encoder?.plan.isNfc || Buffer.byteLength(tail) === tail.length
    if (!encoder || !isAfter || hasSpecials(head.text) !== this.#isWrapped(addSpecialTokens))
      return this.#encodeWhole(head, tail, addSpecialTokens, limits)
    if (head.length + tail.length > this.#turnUnitsMax) return this.#encodeAfter(head, tail, addSpecialTokens, limits)
    const bytes = encoder.loadAfter(head.text.bytes, head.length, tail)
    return this.#encodeLoaded(bytes, this.#texts.findAfter(head.text, bytes, head.length), addSpecialTokens, limits)
  }

  /** On the loop, in one turn. `bytes` are the encoder's. */
  #encodeLoaded(
    bytes: Uint8Array,
    lookup: Lookup,
    addSpecialTokens: boolean,
    limits: EncodeLimits,
  ): Encoded | Promise<Encoded> {
    const encoder = this.#encoder!
    const { match } = lookup
    if (match && isAll(match, bytes)) return this.#known(match.text)
    const cut = this.#cutIn(lookup)
    const from = cut < 0 ? 0 : match!.text.cuts[cut * 2]!
    if (bytes.length - from > this.#loopBytesMax || !this.#encodeOnLoop(from))
      return this.#encodeInThread(bytes.slice(), lookup, cut, addSpecialTokens, limits)
    this.#onLoop++
    const ids = encoder.takeIds(addSpecialTokens, headIds(lookup, cut))
    const { boundaries } = encoder
    if (bytes.length < shortBytesMax) return { ids, kinship: undefined }
    if (cut >= 0 && bytes.length - match!.common < newBytesMin)
      return { ids, kinship: this.#kin(undefined, match!.text, this.#sharedTokens(match!.text, cut, addSpecialTokens)) }
    const cuts = joinCuts(match?.text.cuts ?? noIds, cut, boundaries.pairs, boundaries.count, 0)
    return this.#remember(bytes.slice(), ids, cuts, lookup, cut, addSpecialTokens)
  }

  /** False where it would take too long, or has. */
  #encodeOnLoop(from: number): boolean {
    const isEarly = this.#begunOnLoop++ < firstTexts
    const endsAt = performance.now() + this.#options.loopMsMax / (isEarly ? 2 : 1)
    return this.#encoder!.encodeFrom(from, loopPieceMax, () => performance.now() > endsAt)
  }

  /** A text that its normaliser changes: cuts in it are not cuts in what is encoded, so nothing of it is remembered. */
  #encodeUnstable(bytes: Uint8Array, addSpecialTokens: boolean, limits: EncodeLimits): Encoded | Promise<Encoded> {
    const encoder = this.#encoder!
    if (bytes.length <= this.#loopBytesMax / 2 && this.#encodeOnLoop(0)) {
      this.#onLoop++
      return { ids: encoder.takeIds(addSpecialTokens), kinship: undefined }
    }
    return this.#encodeForgotten(bytes.slice(), addSpecialTokens, limits)
  }

  // ---- texts that take more than a turn

  async #encodeInSteps(text: string, addSpecialTokens: boolean, limits: EncodeLimits): Promise<Encoded> {
    return this.#encodeLong(await encodeInSlices(text), text.length, addSpecialTokens, limits)
  }

  async #encodeGiven({ bytes, units }: TextBytes, addSpecialTokens: boolean, limits: EncodeLimits): Promise<Encoded> {
    const own = bytes.length === bytes.buffer.byteLength ? bytes : await copyInSlices(bytes)
    return this.#encodeLong(own, units, addSpecialTokens, limits)
  }

  /** `bytes` have their memory for themselves. Whether it is stable is not asked of a string: one as long as this is not normalised to see it. */
  async #encodeLong(
    bytes: Uint8Array,
    units: number,
    addSpecialTokens: boolean,
    limits: EncodeLimits,
  ): Promise<Encoded> {
    if (units > rememberedUnitsMax) return this.#encodeForgotten(bytes, addSpecialTokens, limits)
    if (units > this.#turnUnitsMax) await nextTurn()
    if (this.#encoder?.isSurelyStable(units, bytes) === false)
      return this.#encodeForgotten(bytes, addSpecialTokens, limits)
    const lookup = await this.#texts.findInSlices(bytes, this.#isWrapped(addSpecialTokens))
    return this.#encodeFound(bytes, lookup, addSpecialTokens, limits)
  }

  async #encodeWhole(head: KnownHead, tail: string, addSpecialTokens: boolean, limits: EncodeLimits): Promise<Encoded> {
    const text = await decodeInSlices(head.text.bytes.subarray(0, head.length))
    return this.encode(text + tail, addSpecialTokens, limits)
  }

  async #encodeAfter(head: KnownHead, tail: string, addSpecialTokens: boolean, limits: EncodeLimits): Promise<Encoded> {
    const bytes = await encodeInSlices(tail, head.text.bytes.subarray(0, head.length))
    await nextTurn()
    return this.#encodeFound(bytes, this.#texts.findAfter(head.text, bytes, head.length), addSpecialTokens, limits)
  }

  /** `bytes` have their memory for themselves. The library's texts have no cuts: they are known as a whole or not at all. */
  #encodeFound(
    bytes: Uint8Array,
    lookup: Lookup,
    addSpecialTokens: boolean,
    limits: EncodeLimits,
  ): Encoded | Promise<Encoded> {
    const { match } = lookup
    if (match && isAll(match, bytes)) return this.#known(match.text)
    const cut = this.#cutIn(lookup)
    const from = cut < 0 ? 0 : match!.text.cuts[cut * 2]!
    const rest = this.#encodeRest(bytes.subarray(from), from > 0)
    if (rest) return this.#join(bytes, lookup, cut, rest, addSpecialTokens)
    return this.#encodeInThread(bytes, lookup, cut, addSpecialTokens, limits)
  }

  #encodeRest(bytes: Uint8Array, isContinued: boolean): Pick<EncodeResult, 'ids' | 'cuts'> | undefined {
    const encoder = this.#encoder
    if (!encoder || bytes.length > this.#loopBytesMax) return undefined
    encoder.loadBytes(bytes, isContinued)
    if (!this.#encodeOnLoop(0)) return undefined
    this.#onLoop++
    return { ids: encoder.takeIds(false), cuts: encoder.boundaries.take() }
  }

  async #encodeForgotten(text: Uint8Array, addSpecialTokens: boolean, limits: EncodeLimits): Promise<Encoded> {
    const { ids } = await this.#askThread(text, false, limits)
    return { ids: await this.#around(noIds, ids, addSpecialTokens), kinship: undefined }
  }

  async #encodeInThread(
    bytes: Uint8Array,
    lookup: Lookup,
    cut: number,
    addSpecialTokens: boolean,
    limits: EncodeLimits,
  ): Promise<Encoded> {
    const from = cut < 0 ? 0 : lookup.match!.text.cuts[cut * 2]!
    const given = await copyInSlices(bytes.subarray(from))
    return this.#join(bytes, lookup, cut, await this.#askThread(given, from > 0, limits), addSpecialTokens)
  }

  async #askThread(text: Uint8Array, isContinued: boolean, limits: EncodeLimits): Promise<EncodeResult> {
    this.#inThreads++
    const { key, plan, vocabulary, library } = this.#loaded
    const task = { model: { key, plan, vocabulary, library }, text, isContinued }
    const deadlineMs = limits.deadlineMs ?? deadlineMsDefault
    const transfer = [text.buffer as ArrayBuffer]
    // A pattern that nobody knows sends every text to a thread: a burst of short ones is no reason to refuse any.
    const isSmall = text.length <= this.#options.loopBytesMax
    const result = await this.#pool.run('encode', task, { deadlineMs, signal: limits.signal, transfer, isSmall })
    addCounts(this.#threadCounts, result.counted)
    this.#noteHeld(result.held)
    return result
  }

  /** A thread that was ended holds nothing any more: as many as there can be at a time are believed. */
  #noteHeld({ thread, bytes }: EncodeResult['held']): void {
    this.#threadBytes.delete(thread)
    this.#threadBytes.set(thread, bytes)
    if (this.#threadBytes.size > this.#pool.threads) this.#threadBytes.delete(this.#threadBytes.keys().next().value!)
  }

  // ---- what is known, and what is to be

  /** Of what was found, where what is known ends: the place among its cuts, or -1. */
  #cutIn({ match }: Lookup): number {
    return match && this.#encoder ? lastCut(match.text.cuts, match.common - this.#encoder.cutMargin) : -1
  }

  /** What is known up to the cut, and the rest that was encoded behind it. */
  async #join(
    bytes: Uint8Array,
    lookup: Lookup,
    cut: number,
    rest: Pick<EncodeResult, 'ids' | 'cuts'>,
    addSpecialTokens: boolean,
  ): Promise<Encoded> {
    const known = cut < 0 ? noIds : lookup.match!.text.cuts
    const from = cut < 0 ? 0 : known[cut * 2]!
    const ids = await this.#around(headIds(lookup, cut), rest.ids, addSpecialTokens)
    const cuts = joinCuts(known, cut, rest.cuts, rest.cuts.length / 2, from)
    return this.#remember(bytes, ids, cuts, lookup, cut, addSpecialTokens)
  }

  /** Known ids and new ones, between the tokenizer's special tokens where they are wanted. */
  #around(head: Uint32Array, rest: Uint32Array, addSpecialTokens: boolean): Uint32Array | Promise<Uint32Array> {
    const { specialsBefore, specialsAfter } = this.#plan
    const before = addSpecialTokens ? Uint32Array.from(specialsBefore) : noIds
    const after = addSpecialTokens ? Uint32Array.from(specialsAfter) : noIds
    return before.length + head.length + after.length === 0 ? rest : joinInSlices(before, head, rest, after)
  }

  #remember(
    bytes: Uint8Array,
    ids: Uint32Array,
    cuts: Uint32Array,
    lookup: Lookup,
    cut: number,
    addSpecialTokens: boolean,
  ): Encoded {
    const { specialsBefore, specialsAfter } = this.#plan
    const before = addSpecialTokens ? specialsBefore.length : 0
    const after = addSpecialTokens ? specialsAfter.length : 0
    const own = this.#texts.add({ bytes, ids, specialsBefore: before, specialsAfter: after, cuts }, lookup)
    const near = cut < 0 ? undefined : lookup.match!.text
    return { ids, kinship: this.#kin(own, near, near ? this.#sharedTokens(near, cut, addSpecialTokens) : 0) }
  }

  #known(text: RememberedText): Encoded {
    return { ids: text.ids, kinship: this.#kin(text, undefined, 0) }
  }

  #sharedTokens({ cuts }: RememberedText, cut: number, addSpecialTokens: boolean): number {
    return (addSpecialTokens ? this.#plan.specialsBefore.length : 0) + cuts[cut * 2 + 1]!
  }

  #kin(own: Kinship['own'], near: Kinship['near'], sharedTokens: number): Kinship {
    return { memory: this.#texts, own, near, sharedTokens }
  }

  /** Whether special tokens will stand around a text's ids. */
  #isWrapped(addSpecialTokens: boolean): boolean {
    const { specialsBefore, specialsAfter } = this.#plan
    return addSpecialTokens && specialsBefore.length + specialsAfter.length > 0
  }
}

/**
 * The library cuts a text before any of it is encoded, and nobody looks at a clock meanwhile: a third of the bytes take 2 ms. A pattern of which
 * we do not know how long it takes is for threads alone, which can be ended.
 */
function shareOnLoop(plan: EncoderPlan | LibraryPlan): number {
  if (plan.kind === 'library' || plan.split.kind !== 'steps') return 1
  return plan.split.isLinear ? 1 / 3 : 0
}

function isAll({ text, common }: NonNullable<Lookup['match']>, bytes: Uint8Array): boolean {
  return common === bytes.length && text.bytes.length === bytes.length
}

/** The ids up to a cut of the text that was found. */
function headIds({ match }: Lookup, cut: number): Uint32Array {
  if (cut < 0) return noIds
  const { ids, cuts, specialsBefore } = match!.text
  return ids.subarray(specialsBefore, specialsBefore + cuts[cut * 2 + 1]!)
}
