import fc from 'fast-check'
import { expect, it } from 'vitest'
import { computeBlockHashes, computeSequenceHashes, extendLineage, packLineage, unpackLineage } from './index.js'
import { vectors } from './vectors.case.js'

const local = computeBlockHashes([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], 4)
const sequence = computeSequenceHashes(local)

it.each(vectors.positional_lineage.entries)('packs the block at position $position', ({ position, plh_hex }) => {
  const lineage = packLineage(position, sequence[position]!, sequence[position - 1] ?? 0n)
  expect(lineage.toString(16).padStart(32, '0')).toBe(plh_hex)
})

it('extends block by block to what it packs at once', () => {
  let lineage = packLineage(0, sequence[0]!, 0n)
  for (let position = 1; position < 3; position++) {
    lineage = extendLineage(lineage, local[position]!)
    expect(lineage).toBe(packLineage(position, sequence[position]!, sequence[position - 1]!))
  }
})

it.each([
  [255, 0n, 54],
  [256, 1n, 46],
  [65_535, 1n, 46],
  [65_536, 2n, 38],
  [2 ** 24 - 1, 2n, 38],
])('at position %d has mode %d and keeps %d bits of the parent', (position, mode, parentBits) => {
  const all = 2n ** 64n - 1n
  const lineage = packLineage(position, 5n, all)
  expect(lineage >> 126n).toBe(mode)
  const unpacked = { position, sequenceHash: 5n, parentFragment: BigInt.asUintN(parentBits, all) }
  expect(unpackLineage(lineage)).toEqual(unpacked)
})

it.each([2 ** 24, -1, 0.5])('refuses position %d', (position) => {
  expect(() => packLineage(position, 1n, 1n)).toThrow('a position is an integer below 2^24')
})

it('refuses to unpack what no layout fits', () => {
  expect(() => unpackLineage(3n << 126n)).toThrow('not a lineage hash')
  expect(() => unpackLineage(-1n)).toThrow('not a lineage hash')
})

it('unpacks what it packed', () => {
  const anyHash = fc.bigInt(0n, 2n ** 64n - 1n)
  fc.assert(
    fc.property(fc.nat({ max: 2 ** 24 - 1 }), anyHash, anyHash, (position, hash, parent) => {
      const unpacked = unpackLineage(packLineage(position, hash, parent))
      expect(unpacked).toMatchObject({ position, sequenceHash: hash })
      expect(BigInt.asUintN(38, unpacked.parentFragment)).toBe(BigInt.asUintN(38, parent))
    }),
  )
})
