/**
 * Finds added tokens (`<|im_end|>` and the like) in a text: the leftmost, and of those the longest, as the engines do.
 * Works on UTF-8; a table of first bytes keeps ordinary text cheap.
 */
import type { AddedTokenEntry } from '../vocabulary/tokenizer-file.js'
import { space } from '../vocabulary/char-classes.js'
import { codePointAt, lengthAt } from './scan.js'

const encoder = new TextEncoder()

export interface AddedMatch {
  /** Where the match begins, including white space that the token takes from its left; `to` where the one before has taken all of it, and it is none. */
  from: number
  to: number
  /** Where the search for the next goes on: one may begin with white space that this one took. */
  next: number
  id: number
}

interface Candidate {
  readonly bytes: Uint8Array
  readonly entry: AddedTokenEntry
}

export class AddedTokenFinder {
  /** Longest token, in bytes. */
  readonly lengthMax: number
  readonly count: number
  /** First bytes of those that have to stand alone. */
  readonly #alone: ReadonlySet<number>
  /** The longest of those, in bytes. */
  readonly #aloneMax: number
  readonly match: AddedMatch = { from: 0, to: 0, next: 0, id: 0 }
  /** 1 for the first byte of a token. */
  readonly #firsts = new Uint8Array(256)
  /** A tree of the tokens' bytes, from `node * 256 + byte` to the next node: a tokenizer may have 800 that begin alike. */
  readonly #edges = new Map<number, number>()
  /** The token that ends at a node. */
  readonly #ends: (Candidate | undefined)[] = [undefined]
  /** The first byte of every token, where it is the same, else -1. */
  readonly #onlyFirst: number
  readonly #classes: Uint8Array
  /** Whether a token begins with white space. */
  readonly #isSpaced: boolean

  /** No two of them are written alike, and none is empty. */
  constructor(tokens: readonly AddedTokenEntry[], classes: Uint8Array) {
    const candidates = tokens.map((entry) => ({ bytes: encoder.encode(entry.content), entry }))
    for (const candidate of candidates) this.#plant(candidate)
    const firsts = new Set(candidates.map((candidate) => candidate.bytes[0]!))
    this.#onlyFirst = firsts.size === 1 ? [...firsts][0]! : -1
    this.count = candidates.length
    const alone = candidates.filter(({ entry }) => entry.single_word)
    this.#alone = new Set(alone.map(({ bytes }) => bytes[0]!))
    this.#aloneMax = longestOf(alone)
    this.lengthMax = longestOf(candidates)
    this.#classes = classes
    this.#isSpaced = candidates.some(({ bytes }) => (classes[codePointAt(bytes, 0)]! & space) !== 0)
  }

  /**
   * Fills `match` with the first token in `bytes[searched..end)`; false when there is none. `start` is where the searched text begins,
   * `from` where the token before ends, with what it took.
   */
  find(bytes: Uint8Array, start: number, from: number, end: number, searched: number): boolean {
    if (this.count === 0) return false
    const onlyFirst = this.#onlyFirst
    const rest = onlyFirst < 0 ? bytes : bytes.subarray(searched, end) // a search must not go on behind it
    for (let at = searched; at < end; at++) {
      if (onlyFirst >= 0) {
        const found = rest.indexOf(onlyFirst, at - searched)
        if (found < 0) return false
        at = searched + found
      }
      if (this.#firsts[bytes[at]!] === 0) continue
      const candidate = this.#longestAt(bytes, at, end)
      if (candidate === undefined) continue
      if (candidate.entry.single_word && !standsAlone(bytes, start, at, at + candidate.bytes.length, end)) {
        at += candidate.bytes.length - 1
        continue
      }
      this.#take(candidate, bytes, from, at, end)
      return true
    }
    return false
  }

  /** Whether a token at `at`, which is not the start of the text, may depend on the character before it. */
  looksBehind(bytes: Uint8Array, at: number): boolean {
    return this.#alone.has(bytes[at]!) && isAfterWord(bytes, at)
  }

  /** Whether `at` lies inside of a token that has to stand alone: where it does not, what is inside of it is none either, and a rest would not know. */
  isInside(bytes: Uint8Array, start: number, at: number, end: number): boolean {
    for (let from = Math.max(start, at - this.#aloneMax + 1); from < at; from++) {
      let node: number | undefined = this.#alone.has(bytes[from]!) ? 0 : undefined
      for (let index = from; node !== undefined && index < end; index++) {
        node = this.#edges.get(node * 256 + bytes[index]!)
        if (node !== undefined && index >= at && this.#ends[node]?.entry.single_word) return true
      }
    }
    return false
  }

  #plant(candidate: Candidate): void {
    let node = 0
    for (const byte of candidate.bytes) {
      const edge = node * 256 + byte
      node = this.#edges.get(edge) ?? this.#ends.push(undefined) - 1
      this.#edges.set(edge, node)
    }
    this.#ends[node] = candidate
    this.#firsts[candidate.bytes[0]!] = 1
  }

  #longestAt(bytes: Uint8Array, at: number, end: number): Candidate | undefined {
    let longest: Candidate | undefined
    let node: number | undefined = 0
    for (let index = at; index < end; index++) {
      node = this.#edges.get(node * 256 + bytes[index]!)
      if (node === undefined) break
      longest = this.#ends[node] ?? longest
    }
    return longest
  }

  #take({ bytes: token, entry }: Candidate, bytes: Uint8Array, from: number, at: number, end: number): void {
    let left = at
    let right = at + token.length
    if (entry.lstrip) {
      left = Math.max(left, from)
      while (left > from) {
        const before = startBefore(bytes, left)
        if ((this.#classes[codePointAt(bytes, before)]! & space) === 0) break
        left = before
      }
    }
    if (entry.rstrip) {
      while (right < end && this.#classes[codePointAt(bytes, right)]! & space) right += lengthAt(bytes, right)
    }
    this.match.from = left
    this.match.to = right
    this.match.next = this.#isSpaced ? at + token.length : right
    this.match.id = entry.id
  }
}

function longestOf(candidates: readonly Candidate[]): number {
  return candidates.reduce((longest, { bytes }) => Math.max(longest, bytes.length), 0)
}

function standsAlone(bytes: Uint8Array, start: number, at: number, to: number, end: number): boolean {
  return !(at > start && isAfterWord(bytes, at)) && !(to < end && isWord(codePointAt(bytes, to)))
}

function isAfterWord(bytes: Uint8Array, at: number): boolean {
  return isWord(codePointAt(bytes, startBefore(bytes, at)))
}

function startBefore(bytes: Uint8Array, at: number): number {
  let start = at - 1
  while ((bytes[start]! & 0xc0) === 0x80) start--
  return start
}

function isWord(codePoint: number): boolean {
  return /[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]/u.test(String.fromCodePoint(codePoint))
}
