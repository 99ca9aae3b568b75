// Where a tokenizer without a pre-tokenizer may be cut: nowhere that a merge joins two characters, of whatever planes.
import { Tokenizer as RustTokenizer } from 'tokenizers'
import { expect, it } from 'vitest'
import { Encoder } from '../encode/encoder.js'
import { buildVocabulary } from './build-vocabulary.js'
import { planEncoder } from './plan.js'
import { canJoin, findToken, hashBytes, noToken } from './vocabulary.js'

const pairs: [string, string][] = [
  ['😀', '😁'],
  ['a😀', 'b'],
  ['é', '▁'],
  ['▁', '字'],
]
const tokens = new Set(pairs.flatMap(([left, right]) => [left, right, left + right]))
const bytes = Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`)
const vocabOfBytes: Record<string, number> = { ...Object.fromEntries(bytes.map((token, id) => [token, id])), '▁': 299 }
const vocab = Object.fromEntries([...bytes, ...tokens].map((token, id) => [token, id]))

it('knows every pair of characters that a merge joins', () => {
  const built = buildVocabulary({ type: 'BPE', vocab, merges: pairs }, 'sentencepiece')
  if (typeof built === 'string') throw new Error(built)
  const joins = (left: string, right: string): boolean => canJoin(built, left.codePointAt(0)!, right.codePointAt(0)!)
  const wanted: [string, string][] = [
    ['😀', '😁'],
    ['😀', 'b'],
    ['é', ' '],
    [' ', '字'],
  ]
  expect(wanted.filter(([left, right]) => !joins(left, right))).toEqual([])
  expect(joins('😁', '😀')).toBe(false)
  expect(['😀', '😀😁', 'é▁'].map((token) => built.isWhole[vocab[token]!])).toEqual([1, 1, 1])
})

// A byte's token stands for no character, so no pair of characters could say that a merge joins it to what is beside it.
it.each([
  ['<0x0A>', 'a'],
  ['a', '<0x0A>'],
])('leaves to the library what merges the token of a byte: %s and %s', (left, right) => {
  const more = { ...vocab, a: 1000, [left + right]: 1001 }
  const merges = [...pairs, [left, right] as const]
  expect(buildVocabulary({ type: 'BPE', vocab: more, merges }, 'sentencepiece')).toBe('merges of byte fallback tokens')
})

// Gemma's tabs and line ends are tokens of their own, and none of a byte.
it('needs no token for a byte that is a character of the vocabulary', async () => {
  const { '<0x09>': _tab, '<0x0A>': _lineEnd, ...others } = vocabOfBytes
  const more: Record<string, number> = { ...others, '\t': 300, '\n': 301, '\n\n': 302 }
  const model = { type: 'BPE', byte_fallback: true, vocab: more, merges: ['\n \n'] }
  const replace = { type: 'Replace', pattern: { String: ' ' }, content: '▁' }
  const file = { normalizer: replace, pre_tokenizer: null, post_processor: null, model }
  const plan = planEncoder(file, {})
  const built = buildVocabulary(model, 'sentencepiece')
  if (plan.kind === 'library' || typeof built === 'string') throw new Error('it needs the library')
  const rust = RustTokenizer.fromString(JSON.stringify({ ...file, added_tokens: [] }))
  for (const text of ['\t', 'a\n\n\nb\t\tc', '\n \n'])
    expect([...new Encoder(plan, built).encode(text)]).toEqual(
      (await rust.encode(text, null, { addSpecialTokens: false })).getIds(),
    )
  const { '\t': _token, ...without } = more
  expect(buildVocabulary({ ...model, vocab: without }, 'sentencepiece')).toBe('no token for byte 9')
  const { '▁': _mark, ...unmarked } = more
  expect(buildVocabulary({ ...model, vocab: unmarked }, 'sentencepiece')).toBe('no token for a word mark')
})

it('refuses ids that would need tables larger than any model has', () => {
  const build = (id: number): unknown => buildVocabulary({ type: 'BPE', vocab: { ...vocab, x: id } }, 'sentencepiece')
  for (const id of [2 ** 24, -1, 1.5, Number.NaN]) expect(() => build(id)).toThrow(`the token x has the id ${id}`)
})

it('a pair that is listed twice has the rank of the last, as in the Rust binding', async () => {
  const words = Object.fromEntries(['a', 'b', 'c', 'ab', 'bc'].map((token, at) => [token, 256 + at]))
  const merges = ['a b', 'b c', 'a b']
  const model = { type: 'BPE', byte_fallback: true, vocab: { ...vocabOfBytes, ...words }, merges }
  const replace = { type: 'Replace', pattern: { String: ' ' }, content: '▁' }
  const file = { normalizer: replace, pre_tokenizer: null, post_processor: null, model }
  const plan = planEncoder(file, {})
  const built = buildVocabulary(model, 'sentencepiece')
  if (plan.kind === 'library' || typeof built === 'string') throw new Error('it needs the library')
  const rust = RustTokenizer.fromString(JSON.stringify({ ...file, added_tokens: [] }))
  const ids = (await rust.encode('abc', null, { addSpecialTokens: false })).getIds()
  expect(ids).toEqual([words['a'], words['bc']])
  expect([...new Encoder(plan, built).encode('abc')]).toEqual(ids)
})

// A table without an empty slot would be searched for ever.
it('finds none among as many tokens and merges as fill a table', () => {
  const words = ['▁', ...Array.from({ length: 255 }, (_, at) => `x${String.fromCharCode(0x4e00 + at)}`)]
  const all = Object.fromEntries([...bytes, ...words].map((token, id) => [token, id]))
  const built = buildVocabulary({ type: 'BPE', vocab: all, merges: [] }, 'sentencepiece')
  if (typeof built === 'string') throw new Error(built)
  const none = new TextEncoder().encode('nothing of them')
  for (let to = 1; to < none.length; to++) expect(findToken(built, none, 0, to, hashBytes(none, 0, to))).toBe(noToken)
})
