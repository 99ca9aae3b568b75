/**
 * Where the next piece ends: hand-written twins of the pre-tokenizer regular expressions, over UTF-8 and a class table.
 * Each function reads from `at` and never beyond `end`; it answers a position after `at`. Texts are valid UTF-8 by construction.
 *
 * A piece is settled by its own characters and the one after it, or by the whole run of white space that it lies in. That is
 * what lets a remembered text be cut before a character that is not white space, or before a single blank (`boundaries.ts`).
 */
import { cjk, letter, mark, newline, number, punctuation, space, symbol } from '../vocabulary/char-classes.js'

const apostrophe = 0x27
const blank = 0x20

/** `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+` */
export function nextGpt2(bytes: Uint8Array, at: number, end: number, classes: Uint8Array): number {
  const first = bytes[at]!
  if (first === apostrophe) {
    const length = contraction(bytes, at, end, 0)
    if (length > 0) return at + length
  }
  const start = first === blank && at + 1 < end ? at + 1 : at
  const kind = classes[codePointAt(bytes, start)]! & (letter | number | space)
  if (kind & space) return endOfSpace(bytes, at, end, classes)
  return kind === 0
    ? skipNone(bytes, start + lengthAt(bytes, start), end, classes, letter | number | space)
    : skipAny(bytes, start + lengthAt(bytes, start), end, classes, kind)
}

/**
 * `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,max}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
 * where `letters` is the class that stands for `\p{L}`, or for `[\p{L}\p{M}]` in newer files.
 */
export function nextCl100k(
  bytes: Uint8Array,
  at: number,
  end: number,
  classes: Uint8Array,
  digitsMax: number,
  letters: number,
): number {
  const first = bytes[at]!
  if (first === apostrophe) {
    const length = contraction(bytes, at, end, 0x20)
    if (length > 0) return at + length
  }
  const kind = classes[first < 0x80 ? first : codePointAt(bytes, at)]!
  const second = at + (first < 0x80 ? 1 : lengthAt(bytes, at))
  if (kind & letters) return skipAny(bytes, second, end, classes, letters)
  if (kind & number) {
    let to = second
    for (let count = 1; count < digitsMax && to < end; count++) {
      if ((classes[codePointAt(bytes, to)]! & number) === 0) break
      to += lengthAt(bytes, to)
    }
    return to
  }
  if ((kind & newline) === 0 && second < end && classes[codePointAt(bytes, second)]! & letters) {
    return skipAny(bytes, second, end, classes, letters)
  }
  const other = first === blank ? second : at
  const taken = letters | number | space
  if (other < end && (classes[codePointAt(bytes, other)]! & taken) === 0) {
    const to = skipNone(bytes, other, end, classes, taken)
    return skipNewlines(bytes, to, end)
  }
  return endOfSpaceOrNewlines(bytes, at, end, classes)
}

/** The end of the region at `at` that `Digits` isolates: a number, alone or with those behind it, or all before the next. */
export function regionDigits(
  bytes: Uint8Array,
  at: number,
  end: number,
  classes: Uint8Array,
  digits: 'each' | 'runs',
): number {
  const second = at + lengthAt(bytes, at)
  if ((classes[codePointAt(bytes, at)]! & number) === 0) return skipNone(bytes, second, end, classes, number)
  return digits === 'each' ? second : skipAny(bytes, second, end, classes, number)
}

/**
 * DeepSeek's third split, inside one region of its first two:
 * `[!-~ punctuation][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`.
 * What no alternative takes is left between two matches as a piece of its own.
 */
export function nextDeepseek(bytes: Uint8Array, at: number, end: number, classes: Uint8Array): number {
  const matched = matchDeepseek(bytes, at, end, classes)
  if (matched > at) return matched
  let to = at + lengthAt(bytes, at)
  while (to < end && matchDeepseek(bytes, to, end, classes) === to) to += lengthAt(bytes, to)
  return to
}

/** The end of the region at `at` that DeepSeek's first two splits isolate: up to three digits, a run of CJK, or all before the next of either. */
export function regionDeepseek(bytes: Uint8Array, at: number, end: number, classes: Uint8Array): number {
  const kind = classes[codePointAt(bytes, at)]!
  let to = at + lengthAt(bytes, at)
  if (kind & number) {
    for (let count = 1; count < 3 && to < end; count++) {
      if ((classes[codePointAt(bytes, to)]! & number) === 0) break
      to += lengthAt(bytes, to)
    }
    return to
  }
  return kind & cjk ? skipAny(bytes, to, end, classes, cjk) : skipNone(bytes, to, end, classes, number | cjk)
}

function matchDeepseek(bytes: Uint8Array, at: number, end: number, classes: Uint8Array): number {
  const first = bytes[at]!
  const kind = classes[first < 0x80 ? first : codePointAt(bytes, at)]!
  const second = at + (first < 0x80 ? 1 : lengthAt(bytes, at))
  if (first < 0x80 && kind & (punctuation | symbol) && second < end && isAsciiLetter(bytes[second]!)) {
    let to = second + 1
    while (to < end && isAsciiLetter(bytes[to]!)) to++
    return to
  }
  const word = letter | mark
  if (kind & word && kind & letter) return skipAny(bytes, second, end, classes, word)
  if ((kind & (newline | punctuation | symbol)) === 0) {
    if (second < end && classes[codePointAt(bytes, second)]! & word) return skipAny(bytes, second, end, classes, word)
    if (kind & mark) return second
  }
  const other = first === blank ? second : at
  if (other < end && classes[codePointAt(bytes, other)]! & (punctuation | symbol)) {
    return skipNewlines(bytes, skipAny(bytes, other, end, classes, punctuation | symbol), end)
  }
  return kind & space ? endOfSpaceOrNewlines(bytes, at, end, classes) : at
}

/** Length of a contraction at `at`, or 0. `fold` is 0x20 to ignore case: U+017F folds to `s` as well. */
export function contraction(bytes: Uint8Array, at: number, end: number, fold: number): number {
  if (at + 1 >= end) return 0
  const one = bytes[at + 1]! | fold
  if (one === 0x73 || one === 0x74 || one === 0x6d || one === 0x64) return 2 // s t m d
  if (at + 2 >= end) return 0
  if (fold && bytes[at + 1] === 0xc5 && bytes[at + 2] === 0xbf) return 3
  const two = bytes[at + 2]! | fold
  if ((one === 0x72 || one === 0x76) && two === 0x65) return 3 // re ve
  return one === 0x6c && two === 0x6c ? 3 : 0 // ll
}

/** `\s*[\r\n]+`, else `\s+(?!\S)`, else `\s+`: to after the last newline of the run, or as `endOfSpace` says. */
export function endOfSpaceOrNewlines(bytes: Uint8Array, at: number, end: number, classes: Uint8Array): number {
  const to = skipAny(bytes, at, end, classes, space)
  for (let index = to; index > at; index--) {
    const byte = bytes[index - 1]!
    if (byte === 0x0a || byte === 0x0d) return index
  }
  return leaveOne(bytes, at, to, end)
}

function endOfSpace(bytes: Uint8Array, at: number, end: number, classes: Uint8Array): number {
  return leaveOne(bytes, at, skipAny(bytes, at, end, classes, space), end)
}

/** A run of white space leaves its last character to the word that follows, unless it has no other or nothing follows. */
function leaveOne(bytes: Uint8Array, at: number, to: number, end: number): number {
  if (to === end) return to
  let last = to - 1
  while ((bytes[last]! & 0xc0) === 0x80) last--
  return last > at ? last : to
}

function skipNewlines(bytes: Uint8Array, at: number, end: number): number {
  while (at < end && (bytes[at] === 0x0a || bytes[at] === 0x0d)) at++
  return at
}

/** To after the run of characters that are in one of `kinds`. */
function skipAny(bytes: Uint8Array, at: number, end: number, classes: Uint8Array, kinds: number): number {
  while (at < end) {
    const byte = bytes[at]!
    if (byte < 0x80) {
      if ((classes[byte]! & kinds) === 0) return at
      at++
    } else {
      if ((classes[codePointAt(bytes, at)]! & kinds) === 0) return at
      at += lengthAt(bytes, at)
    }
  }
  return at
}

/** To after the run of characters that are in none of `kinds`. */
export function skipNone(bytes: Uint8Array, at: number, end: number, classes: Uint8Array, kinds: number): number {
  while (at < end) {
    const byte = bytes[at]!
    if (byte < 0x80) {
      if ((classes[byte]! & kinds) !== 0) return at
      at++
    } else {
      if ((classes[codePointAt(bytes, at)]! & kinds) !== 0) return at
      at += lengthAt(bytes, at)
    }
  }
  return at
}

function isAsciiLetter(byte: number): boolean {
  return (byte >= 0x41 && byte <= 0x5a) || (byte >= 0x61 && byte <= 0x7a)
}

export function lengthAt(bytes: Uint8Array, at: number): number {
  const lead = bytes[at]!
  return lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4
}

export function codePointAt(bytes: Uint8Array, at: number): number {
  const lead = bytes[at]!
  if (lead < 0x80) return lead
  const second = bytes[at + 1]! & 0x3f
  if (lead < 0xe0) return ((lead & 0x1f) << 6) | second
  const third = bytes[at + 2]! & 0x3f
  if (lead < 0xf0) return ((lead & 0x0f) << 12) | (second << 6) | third
  return ((lead & 0x07) << 18) | (second << 12) | (third << 6) | (bytes[at + 3]! & 0x3f)
}
