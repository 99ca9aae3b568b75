/**
 * Which pre-tokenizer classes a code point belongs to, as one byte per code point. Built once per vocabulary by running
 * the Unicode properties over every code point, so that scanning a text is table lookups and no regular expression.
 */
import { littleOfEngines, unclassedRanges } from './unicode-of-engines.js'

export const letter = 1
export const number = 2
export const space = 4 // \p{White_Space}, which is what \s means to the engines' regular expressions
export const newline = 8 // \r and \n only
export const mark = 16
export const punctuation = 32
export const symbol = 64
export const cjk = 128 // the ranges that DeepSeek's pre-tokenizer isolates

export const codePointCount = 0x11_0000

const properties: readonly (readonly [number, RegExp])[] = [
  [letter, /\p{L}+/gu],
  [number, /\p{N}+/gu],
  [space, /\p{White_Space}+/gu],
  [newline, /[\r\n]+/gu],
  [mark, /\p{M}+/gu],
  [punctuation, /\p{P}+/gu],
  [symbol, /\p{S}+/gu],
  [cjk, /[一-龥\u3040-ゟ゠-ヿ]+/gu],
]

/** What patterns that tell large letters from small ones take a character for: one, the other, or whichever they need. */
export const large = 1
export const little = 2
export const either = 3

export interface CharTables {
  /** A byte for each code point. */
  readonly classes: Uint8Array
  /** A bit for each. */
  readonly nfcRisk: Uint8Array
  /** Two bits for each. */
  readonly cases: Uint8Array
}

export const nfcRiskBytes: number = codePointCount / 8
export const casesBytes: number = codePointCount / 4

let known: CharTables | undefined

/** Fills the tables; they are the same for every vocabulary and take 0.4 s, so the first result is kept. */
export function fillCharTables(tables: CharTables): void {
  if (!known) {
    const { classes, nfcRisk, cases } = tables
    fillCharClasses(classes)
    fillNfcRisk(nfcRisk, classes)
    fillCases(cases, classes)
    known = { classes: classes.slice(), nfcRisk: nfcRisk.slice(), cases: cases.slice() }
  }
  tables.classes.set(known.classes)
  tables.nfcRisk.set(known.nfcRisk)
  tables.cases.set(known.cases)
}

export function caseOf(cases: Uint8Array, codePoint: number): number {
  return (cases[codePoint >>> 2]! >>> ((codePoint & 3) << 1)) & 3
}

function fillCases(cases: Uint8Array, classes: Uint8Array): void {
  for (let codePoint = 0; codePoint < codePointCount; codePoint++) {
    const kind = classes[codePoint]!
    if ((kind & (letter | mark)) === 0) continue
    const char = String.fromCodePoint(codePoint)
    const isLittle = /\p{Ll}/u.test(char) || littleOfEngines.has(codePoint)
    const its = /[\p{Lu}\p{Lt}]/u.test(char) ? large : isLittle ? little : either
    cases[codePoint >>> 2]! |= its << ((codePoint & 3) << 1)
  }
}

/** Fills `table[codePoint]`. Works page by page: one string of a million code points would need a flat copy of 4 MB per property. */
function fillCharClasses(table: Uint8Array): void {
  const page = 0x1000
  for (let first = 0; first < codePointCount; first += page) {
    if (first === 0x4_0000) first = 0xe_0000 // nothing is assigned between
    if (first === 0xf_0000) break // private use: in no class
    const codePoints: number[] = []
    for (let codePoint = first; codePoint < first + page; codePoint++) {
      if (codePoint < 0xd800 || codePoint > 0xdfff) codePoints.push(codePoint)
    }
    if (codePoints.length === 0) continue
    const text = String.fromCodePoint(...codePoints)
    const unitsEach = first >= 0x1_0000 ? 2 : 1
    for (const [bit, pattern] of properties) {
      for (const match of text.matchAll(pattern)) {
        const from = match.index / unitsEach
        const to = from + match[0].length / unitsEach
        for (let index = from; index < to; index++) table[codePoints[index]!]! |= bit
      }
    }
  }
  for (const [first, last] of unclassedRanges) table.fill(0, first, last + 1)
}

/**
 * Sets the bit of every code point that NFC changes, or that may join or reorder with its neighbours: a text without any is its own
 * normal form. Errs towards risk: all marks but variation selectors, and the Hangul letters that compose; what engines do not know may be in it or not.
 */
function fillNfcRisk(bits: Uint8Array, classes: Uint8Array): void {
  for (let codePoint = 0x80; codePoint < 0xf_0000; codePoint++) {
    if (codePoint === 0xd800) codePoint = 0xe000
    if (codePoint === 0x4_0000) codePoint = 0xe_0000
    const isMark = (classes[codePoint]! & mark) !== 0 && !isVariationSelector(codePoint)
    if (isMark || isJamo(codePoint) || isChangedByNfc(codePoint)) bits[codePoint >>> 3]! |= 1 << (codePoint & 7)
  }
}

function isVariationSelector(codePoint: number): boolean {
  return (codePoint >= 0xfe00 && codePoint <= 0xfe0f) || (codePoint >= 0xe_0100 && codePoint <= 0xe_01ef)
}

function isJamo(codePoint: number): boolean {
  return (codePoint >= 0x1100 && codePoint <= 0x11ff) || (codePoint >= 0xd7b0 && codePoint <= 0xd7ff)
}

function isChangedByNfc(codePoint: number): boolean {
  const char = String.fromCodePoint(codePoint)
  return char.normalize('NFC') !== char
}
