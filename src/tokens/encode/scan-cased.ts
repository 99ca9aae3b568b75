/**
 * Where the next piece ends for patterns that tell large letters from small ones: gpt-oss and Llama 4 (o200k), Mistral (Tekken).
 * `L` is large and `l` small, and letters without a case and marks are both; `P` is anything but a letter, number or line end:
 *
 *   P?L*l+C?  |  P?L+l*C?  |  \p{N}{1,max}  |   ?[^\s\p{L}\p{N}]+[\r\n/]*  |  \s*[\r\n]+  |  \s+(?!\S)  |  \s+
 *
 * where `C` is a contraction, which only o200k takes. Twins as in `scan.ts`, and read in the same way.
 */
import { caseOf, either, large, letter, little, newline, number, space } from '../vocabulary/char-classes.js'
import { codePointAt, contraction, endOfSpaceOrNewlines, lengthAt, skipNone } from './scan.js'

export interface CasedTables {
  readonly classes: Uint8Array
  readonly cases: Uint8Array
}

export interface CasedRules {
  readonly digitsMax: number
  readonly takesContractions: boolean
}

export function nextCased(
  bytes: Uint8Array,
  at: number,
  end: number,
  { classes, cases }: CasedTables,
  { digitsMax, takesContractions }: CasedRules,
): number {
  const first = codePointAt(bytes, at)
  const kind = classes[first]!
  const second = at + lengthAt(bytes, at)
  const word = endOfWord(bytes, at, second, end, cases, kind)
  if (word > 0) return takesContractions ? endOfContraction(bytes, word, end) : word
  if (kind & number) {
    let to = second
    for (let count = 1; count < digitsMax && to < end; count++) {
      if ((classes[codePointAt(bytes, to)]! & number) === 0) break
      to += lengthAt(bytes, to)
    }
    return to
  }
  const taken = letter | number | space
  const other = first === 0x20 ? second : at
  if (other < end && (classes[codePointAt(bytes, other)]! & taken) === 0) {
    return skipSlashesAndNewlines(bytes, skipNone(bytes, other, end, classes, taken), end)
  }
  return endOfSpaceOrNewlines(bytes, at, end, classes)
}

/** Of a word that begins at `at`, or behind one other character; 0 where there is none. `kind` is what stands at `at`. */
function endOfWord(
  bytes: Uint8Array,
  at: number,
  second: number,
  end: number,
  cases: Uint8Array,
  kind: number,
): number {
  const mayLead = (kind & (letter | number | newline)) === 0
  const isWord = caseOf(cases, codePointAt(bytes, at)) !== 0
  // What ends in a small letter is looked for first, with a character before it and then without.
  if (mayLead && second < end) {
    const small = endInSmall(bytes, second, end, cases)
    if (small > 0) return small
  }
  if (isWord) {
    const small = endInSmall(bytes, at, end, cases)
    if (small > 0) return small
  }
  if (mayLead && second < end) {
    const to = skipCases(bytes, second, end, cases, large)
    if (to > second) return to
  }
  return isWord ? skipCases(bytes, at, end, cases, large) : 0
}

/** `L*l+`: large letters give back only what is both. */
function endInSmall(bytes: Uint8Array, from: number, end: number, cases: Uint8Array): number {
  let afterBoth = 0
  let at = from
  while (at < end) {
    const its = caseOf(cases, codePointAt(bytes, at))
    if ((its & large) === 0) break
    at += lengthAt(bytes, at)
    if (its === either) afterBoth = at
  }
  const to = skipCases(bytes, at, end, cases, little)
  return to > at ? to : afterBoth
}

/** To after the run of letters that can be of this case. */
function skipCases(bytes: Uint8Array, at: number, end: number, cases: Uint8Array, its: number): number {
  while (at < end && (caseOf(cases, codePointAt(bytes, at)) & its) !== 0) at += lengthAt(bytes, at)
  return at
}

function endOfContraction(bytes: Uint8Array, at: number, end: number): number {
  return at < end && bytes[at] === 0x27 ? at + contraction(bytes, at, end, 0x20) : at
}

function skipSlashesAndNewlines(bytes: Uint8Array, at: number, end: number): number {
  while (at < end && (bytes[at] === 0x0a || bytes[at] === 0x0d || bytes[at] === 0x2f)) at++
  return at
}

/**
 * Whether a text may be cut between two pieces, as far as letters tell. Letters that give one back do so for want of a small one behind them,
 * however far: another text may have one there.
 */
export function isSettled(bytes: Uint8Array, at: number, cases: Uint8Array): boolean {
  if (caseOf(cases, codePointAt(bytes, at)) !== large) return true
  let before = at - 1
  while ((bytes[before]! & 0xc0) === 0x80) before--
  return caseOf(cases, codePointAt(bytes, before)) !== either
}
