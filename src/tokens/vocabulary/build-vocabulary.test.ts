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
