// Goal: short and long pieces merge as the definition says: the lowest rank first, the leftmost of equals, one at a time.
// At full length: left to itself fast-check makes pieces so short that none goes through the heap.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { realTokenizer } from '../real-tokenizers.case.js'
import { buildVocabulary } from '../vocabulary/build-vocabulary.js'
import { findMerge } from '../vocabulary/vocabulary.js'
import { Merger } from './merge.js'

const { vocabulary } = realTokenizer('gpt2')
const { mergeSlots, mergeMask, baseIds } = vocabulary

function mergedNaively(symbols: readonly number[]): number[] {
  const left = [...symbols]
  for (;;) {
    let best = Infinity
    let where = -1
    for (let index = 0; index + 1 < left.length; index++) {
      const at = findMerge(mergeSlots, mergeMask, left[index]!, left[index + 1]!)
      if (at >= 0 && mergeSlots[at + 2]! < best) {
        best = mergeSlots[at + 2]!
        where = index
      }
    }
    if (where < 0) return left
    const at = findMerge(mergeSlots, mergeMask, left[where]!, left[where + 1]!)
    left.splice(where, 2, mergeSlots[at + 3]!)
  }
}

it('merges pieces of every length as the definition does', () => {
  const merger = new Merger(vocabulary)
  const anyByte = fc.constantFrom(...Array.from('etaonishrdlaaee  ', (char) => char.charCodeAt(0)), 0xc3, 0xa9)
  fc.assert(
    fc.property(fc.array(anyByte, { maxLength: 160, size: 'max' }), (bytes) => {
      const symbols = bytes.map((byte) => baseIds[byte]!)
      merger.reserve(symbols.length)
      merger.symbols.set(symbols)
      const count = merger.merge(symbols.length)
      expect([...merger.symbols.subarray(0, count)]).toEqual(mergedNaively(symbols))
    }),
    { numRuns: 300 },
  )
})

it('gives back the room of a long piece, and keeps that of short ones', () => {
  const merger = new Merger(vocabulary)
  for (const [count, kept] of [
    [1000, 1000],
    [1 << 17, 256],
  ] as const) {
    merger.reserve(count)
    merger.shrink()
    expect(merger.symbols.length).toBe(kept)
  }
})

it('merges a long piece by the rank of its merges, however many there are', () => {
  const letters = ['a', 'b', 'ab', 'ba', 'abb']
  const bytes = Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`)
  const vocab = Object.fromEntries([...bytes, ...letters, '▁'].map((token, id) => [token, id]))
  const merges = [
    ['a', 'b'],
    ['ab', 'b'],
    ['b', 'a'],
  ] as const
  const built = buildVocabulary({ type: 'BPE', vocab, merges }, 'sentencepiece')
  if (typeof built === 'string') throw new Error(built)
  const far = built.mergeSlots.map((word, at) => (at % 4 === 2 && word < 3 ? word + ranksBefore : word))
  const text = 'abbbabaabbab'.repeat(9)
  const merged = [built.mergeSlots, far].map((mergeSlots) => {
    const merger = new Merger({ ...built, mergeSlots })
    merger.reserve(text.length)
    for (let at = 0; at < text.length; at++) merger.symbols[at] = vocab[text[at]!]!
    return [...merger.symbols.subarray(0, merger.merge(text.length))]
  })
  expect(merged[1]).toEqual(merged[0])
})

/** As many as a file of the size that we read can list. */
const ranksBefore = 2 ** 26 - 3
