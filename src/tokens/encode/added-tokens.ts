/**
 * Finds added tokens (`<|im_end|>` and the like) in a text: the leftmost, and of those the longest, as the engines do.
 * Works on UTF-8; a table of first bytes keeps ordinary text cheap.
 */
import type { AddedTokenEntry } from '../vocabulary/tokenizer-file.js'
import { space } from '../vocabulary/char-classes.js'
import { codePointAt, lengthAt } from './scan.js'

const encoder = new TextEncoder()

export interface AddedMatch {
  /** Where the match begins, including white space that the token takes from its left. */
  from: number
  to: number
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
  readonly match: AddedMatch = { from: 0, to: 0, id: 0 }
  readonly #byFirst: (readonly Candidate[] | undefined)[] = []
  /** 1 where a token begins with these two bytes, or is the first of them: a tokenizer may have 800 that begin with `<`. */
  readonly #pairs = new Uint8Array(1 << 16)
  /** The first byte of every token, where it is the same, else -1. A text is followed by it, so that a search ends there. */
  readonly onlyFirst: number
  readonly #classes: Uint8Array

  constructor(tokens: readonly AddedTokenEntry[], classes: Uint8Array) {
    const candidates = tokens
      .filter((entry) => entry.content !== '')
      .map((entry) => ({ bytes: encoder.encode(entry.content), entry }))
      .sort((a, b) => b.bytes.length - a.bytes.length) // longest first
    for (const candidate of candidates) {
      const first = candidate.bytes[0]!
      this.#byFirst[first] = [...(this.#byFirst[first] ?? []), candidate]
      if (candidate.bytes.length === 1) this.#pairs.fill(1, first << 8, (first + 1) << 8)
      else this.#pairs[(first << 8) | candidate.bytes[1]!] = 1
    }
    const firsts = new Set(candidates.map((candidate) => candidate.bytes[0]!))
    this.onlyFirst = firsts.size === 1 ? [...firsts][0]! : -1
    this.count = candidates.length
    this.#alone = new Set(candidates.filter(({ entry }) => entry.single_word).map(({ bytes }) => bytes[0]!))
    this.lengthMax = candidates[0]?.bytes.length ?? 0
    this.#classes = classes
  }

  /** Fills `match` with the first token in `bytes[from..end)`; false when there is none. `start` is where the searched text begins. */
  find(bytes: Uint8Array, start: number, from: number, end: number): boolean {
    if (this.count === 0) return false
    for (let at = from; at < end; at++) {
      if (this.onlyFirst >= 0) {
        at = bytes.indexOf(this.onlyFirst, at)
        if (at < 0 || at >= end) return false
      }
      const candidates = this.#byFirst[bytes[at]!]
      if (candidates === undefined || this.#pairs[(bytes[at]! << 8) | (bytes[at + 1] ?? 0)] === 0) continue
      for (const candidate of candidates) {
        if (at + candidate.bytes.length > end || !isAt(candidate.bytes, bytes, at)) continue
        if (candidate.entry.single_word && !standsAlone(bytes, start, at, at + candidate.bytes.length, end)) {
          at += candidate.bytes.length - 1
          break
        }
        this.#take(candidate, bytes, from, at, end)
        return true
      }
    }
    return false
  }

  /** Whether a token at `at`, which is not the start of the text, may depend on the character before it. */
  looksBehind(bytes: Uint8Array, at: number): boolean {
    return this.#alone.has(bytes[at]!) && isAfterWord(bytes, at)
  }

  #take({ bytes: token, entry }: Candidate, bytes: Uint8Array, from: number, at: number, end: number): void {
    let left = at
    let right = at + token.length
    if (entry.lstrip) {
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
    this.match.id = entry.id
  }
}

function standsAlone(bytes: Uint8Array, start: number, at: number, to: number, end: number): boolean {
  return !(at > start && isAfterWord(bytes, at)) && !(to < end && isWord(codePointAt(bytes, to)))
}

function isAfterWord(bytes: Uint8Array, at: number): boolean {
  return isWord(codePointAt(bytes, startBefore(bytes, at)))
}

function isAt(token: Uint8Array, bytes: Uint8Array, at: number): boolean {
  for (let index = 0; index < token.length; index++) if (token[index] !== bytes[at + index]) return false
  return true
}

function startBefore(bytes: Uint8Array, at: number): number {
  let start = at - 1
  while ((bytes[start]! & 0xc0) === 0x80) start--
  return start
}

function isWord(codePoint: number): boolean {
  return /[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]/u.test(String.fromCodePoint(codePoint))
}
