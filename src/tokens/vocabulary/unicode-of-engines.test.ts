// Goal: every code point is to us what it is to the engines. Method: their library is asked about each of them, alone and beside marks.
import { nfcNormalizer, Tokenizer as RustTokenizer } from 'tokenizers'
import { expect, it } from 'vitest'
import { randomFrom } from '../../../bench/tokens/texts.js'
import type { CharTables } from './char-classes.js'
import {
  caseOf,
  casesBytes,
  codePointCount,
  fillCharTables,
  large,
  letter,
  little,
  mark,
  nfcRiskBytes,
  number,
  punctuation,
  space,
  symbol,
} from './char-classes.js'
import { toNfc, unclassedRanges } from './unicode-of-engines.js'

/** Planes 4 to 13 and the private ones are empty. */
function* eachCodePoint(): Generator<number> {
  for (let codePoint = 0; codePoint < 0xe_0200; codePoint++) {
    if (codePoint === 0xd800) codePoint = 0xe000
    if (codePoint === 0x4_0000) codePoint = 0xe_0000
    yield codePoint
  }
}

const hexOf = (text: string): string => Array.from(text, (char) => char.codePointAt(0)!.toString(16)).join(' ')

function charTables(): CharTables {
  const [classes, nfcRisk, cases] = [codePointCount, nfcRiskBytes, casesBytes].map((length) => new Uint8Array(length))
  const tables = { classes: classes!, nfcRisk: nfcRisk!, cases: cases! }
  fillCharTables(tables)
  return tables
}

/** What the regular expression of a `Split` finds between two marks. */
function foundBy(pattern: string, text: string): Set<string> {
  const file = {
    version: '1.0',
    added_tokens: [],
    pre_tokenizer: { type: 'Split', pattern: { Regex: `\ue000${pattern}\ue000` }, behavior: 'Isolated', invert: false },
    model: { type: 'BPE', vocab: {}, merges: [] },
  }
  const pieces = RustTokenizer.fromString(JSON.stringify(file)).getPreTokenizer()!.preTokenizeString(text)
  return new Set(pieces.map(([piece]) => Array.from(piece)).flatMap((it) => (it.length === 3 ? [it[1]!] : [])))
}

it.each([
  [letter, String.raw`\p{L}`],
  [number, String.raw`\p{N}`],
  [mark, String.raw`\p{M}`],
  [punctuation, String.raw`\p{P}`],
  [symbol, String.raw`\p{S}`],
  [space, String.raw`\s`],
])('code points of class %i are those of %s', (kind, pattern) => {
  const { classes } = charTables()
  expectClass(pattern, (codePoint) => (classes[codePoint]! & kind) !== 0)
})

it.each([
  [large, String.raw`[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`],
  [little, String.raw`[\p{Ll}\p{Lm}\p{Lo}\p{M}]`],
])('letters of case %i are those of %s', (its, pattern) => {
  const { cases } = charTables()
  expectClass(pattern, (codePoint) => (caseOf(cases, codePoint) & its) !== 0)
})

it('numbers are what engines cut out as digits', () => {
  const { classes } = charTables()
  const file = {
    version: '1.0',
    added_tokens: [],
    pre_tokenizer: { type: 'Digits', individual_digits: true },
    model: { type: 'BPE', vocab: {}, merges: [] },
  }
  const digits = RustTokenizer.fromString(JSON.stringify(file)).getPreTokenizer()!
  // Those that came after version 16 each build of the library has or not, as its compiler does.
  const isNew = (it: number): boolean => unclassedRanges.some(([first, last]) => first <= it && it <= last)
  const differing = [...eachCodePoint()].filter((codePoint) => {
    if (isNew(codePoint)) return false
    const isDigit = digits.preTokenizeString(`a${String.fromCodePoint(codePoint)}a`).length === 3
    return isDigit !== ((classes[codePoint]! & number) !== 0)
  })
  expect(differing.map((it) => it.toString(16))).toEqual([])
})

function expectClass(pattern: string, isInClass: (codePoint: number) => boolean): void {
  const differing: string[] = []
  let page: number[] = []
  const compare = (): void => {
    const found = foundBy(pattern, page.map((it) => `\ue000${String.fromCodePoint(it)}\ue000\ue001`).join(''))
    const isOther = (it: number): boolean => found.has(String.fromCodePoint(it)) !== isInClass(it)
    differing.push(...page.filter(isOther).map((it) => it.toString(16)))
    page = []
  }
  for (const codePoint of eachCodePoint()) {
    if (codePoint === 0xe000 || codePoint === 0xe001) continue
    if (page.push(codePoint) === 0x1000) compare()
  }
  compare()
  expect(differing).toEqual([])
}

const normalizer = nfcNormalizer()
const isMoving = (char: string): boolean =>
  /\p{M}/u.test(char) ||
  char.normalize('NFC') !== char ||
  char.normalize('NFD') !== char ||
  /[\u1100-\u11ff]/.test(char)
const moving = [...eachCodePoint()].map((it) => String.fromCodePoint(it)).filter(isMoving)

it('normalises each character alone, decomposed and beside marks as the engines do', () => {
  const differing: string[] = []
  for (const char of moving) {
    const [first, second = ''] = char.normalize('NFD')
    const texts = [char, `${first}${second}`, `a\u0301${char}`, `a${char}\u0323`, `a${char}\u0301`, `\ufb2c${char}`]
    for (const text of texts) if (toNfc(text) !== normalizer.normalizeString(text)) differing.push(hexOf(text))
  }
  expect(differing).toEqual([])
})

it('normalises random rows of such characters as the engines do', () => {
  const random = randomFrom(9)
  const pool = [...moving, 'a', 'e', ' ', '.', '가', '\u{16d67}', '\u{16d63}', '\u{105d2}']
  for (let run = 0; run < 20_000; run++) {
    const text = Array.from({ length: 2 + random(6) }, () => pool[random(pool.length)]!).join('')
    expect(hexOf(toNfc(text))).toBe(hexOf(normalizer.normalizeString(text)))
  }
})
