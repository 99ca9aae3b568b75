// Goal: every code point is to us what it is to the engines. Method: their library is asked about each of them, alone and beside marks.
import { nfcNormalizer, Tokenizer as RustTokenizer } from 'tokenizers'
import { expect, it } from 'vitest'
import { randomFrom } from '../../../bench/tokens/texts.js'
import { codePointCount, fillCharTables, letter, mark, number, punctuation, space, symbol } from './char-classes.js'
import { toNfc } from './unicode-of-engines.js'

/** Planes 4 to 13 and the private ones are empty. */
function* eachCodePoint(): Generator<number> {
  for (let codePoint = 0; codePoint < 0xe_0200; codePoint++) {
    if (codePoint === 0xd800) codePoint = 0xe000
    if (codePoint === 0x4_0000) codePoint = 0xe_0000
    yield codePoint
  }
}

const hexOf = (text: string): string => Array.from(text, (char) => char.codePointAt(0)!.toString(16)).join(' ')

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
  const classes = new Uint8Array(codePointCount)
  fillCharTables(classes, new Uint8Array(codePointCount / 8))
  const differing: string[] = []
  let page: number[] = []
  const compare = (): void => {
    const found = foundBy(pattern, page.map((it) => `\ue000${String.fromCodePoint(it)}\ue000\ue001`).join(''))
    const isOther = (it: number): boolean => found.has(String.fromCodePoint(it)) !== ((classes[it]! & kind) !== 0)
    differing.push(...page.filter(isOther).map((it) => it.toString(16)))
    page = []
  }
  for (const codePoint of eachCodePoint()) {
    if (codePoint === 0xe000 || codePoint === 0xe001) continue
    if (page.push(codePoint) === 0x1000) compare()
  }
  compare()
  expect(differing).toEqual([])
})

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
