// Where a tokenizer without a pre-tokenizer may be cut: nowhere that a merge joins two characters, of whatever planes.
import { expect, it } from 'vitest'
import { buildVocabulary } from './build-vocabulary.js'
import { canJoin } from './vocabulary.js'

const pairs: [string, string][] = [
  ['😀', '😁'],
  ['a😀', 'b'],
  ['é', '▁'],
  ['▁', '字'],
]
const tokens = new Set(pairs.flatMap(([left, right]) => [left, right, left + right]))
const bytes = Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`)
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

it('refuses ids that would need tables larger than any model has', () => {
  const build = (id: number): unknown => buildVocabulary({ type: 'BPE', vocab: { ...vocab, x: id } }, 'sentencepiece')
  for (const id of [2 ** 24, -1, 1.5, Number.NaN]) expect(() => build(id)).toThrow(`the token x has the id ${id}`)
})
