import fc from 'fast-check'
import { expect, it } from 'vitest'
import { computeBlockHashes, computeFramedBlockHashes, computeSequenceHashes } from './index.js'
import { vectors } from './vectors.case.js'

const upTo = (count: number) => Uint32Array.from({ length: count }, (_, token) => token)
const run = (offset: number, length: number, mmHash = 42n) => ({ mmHash, offset, length })

it.each(vectors.kv_hashing_mm_frames)('frames a $description', (vector) => {
  const runs = vector.mm_runs.map(({ mm_hash, offset, length }) => ({ mmHash: BigInt(mm_hash), offset, length }))
  const hashes = computeFramedBlockHashes(Uint32Array.from(vector.tokens), vector.block_size, runs)
  expect(hashes).toEqual(vector.block_hashes.map(BigInt))
  expect(computeSequenceHashes(hashes)).toEqual(vector.sequence_hashes.map(BigInt))
})

it('agrees with the router on blocks of text, with and without names', () => {
  const anyNames = fc.record({ loraName: fc.constantFrom('', 'a'), cacheNamespace: fc.constantFrom('', 'b') })
  const anyTokens = fc.uint32Array({ maxLength: 100 })
  fc.assert(
    fc.property(anyTokens, fc.integer({ min: 0, max: 20 }), anyNames, (tokens, blockSize, names) => {
      expect(computeFramedBlockHashes(tokens, blockSize, [], names)).toEqual(
        computeBlockHashes(tokens, blockSize, names),
      )
    }),
  )
})

it('changes only the blocks that an image touches: what comes before stays shared', () => {
  const plain = computeFramedBlockHashes(upTo(16), 4, [])
  const spanning = computeFramedBlockHashes(upTo(16), 4, [run(6, 4)])
  expect(spanning.map((hash, block) => hash === plain[block])).toEqual([true, false, false, true])
})

it('counts positions from the start of the image, whatever stands in the placeholders', () => {
  const other = upTo(16).fill(7, 6, 10)
  expect(computeFramedBlockHashes(other, 4, [run(6, 4)])).toEqual(computeFramedBlockHashes(upTo(16), 4, [run(6, 4)]))
  expect(computeFramedBlockHashes(upTo(16), 4, [run(7, 3)])).not.toEqual(
    computeFramedBlockHashes(upTo(16), 4, [run(6, 4)]),
  )
})

it('leaves the tail alone', () => {
  expect(computeFramedBlockHashes(upTo(7), 4, [run(4, 3)])).toHaveLength(1)
})

it.each([
  ['an empty run', [run(0, 0)]],
  ['a run past the end', [run(6, 4)]],
  ['a run before the start', [run(-1, 2)]],
  ['overlapping runs', [run(4, 2), run(0, 5)]],
])('refuses %s', (_says, runs) => {
  expect(() => computeFramedBlockHashes(upTo(8), 4, runs)).toThrow('media runs are not empty, do not overlap')
})
