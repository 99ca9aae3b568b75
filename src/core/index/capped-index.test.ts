// Goal: a cap only ever costs credit. Method: the same random steps drive a capped index and plain sets without a cap.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { createPrefixIndex } from './create-prefix-index.js'
import { NaiveIndex } from './naive-index.case.js'
import { driver, range } from './prefix-index.case.js'

const seeds = { seedLo: 5, seedHi: 9 }
const step = fc.record({
  kind: fc.constantFrom('store', 'store', 'store', 'remove', 'clear'),
  rank: fc.nat(3),
  chain: fc.nat(5),
  length: fc.integer({ min: 1, max: 12 }),
})

it.each([
  ['wasm', { implementation: 'wasm' }],
  ['ts', { implementation: 'ts' }],
  ['three shards', { implementation: 'auto', shards: 3 }],
] as const)(
  '%s: never credits more than plain sets would, never holds more than its caps, and counts what went',
  (_name, kind) => {
    fc.assert(
      fc.property(
        fc.array(step, { maxLength: 60 }),
        fc.integer({ min: 4, max: 40 }),
        fc.integer({ min: 8, max: 80 }),
        (steps, perRank, overall) => {
          const capped = driver(createPrefixIndex({ ...seeds, ...kind, maxBlocksPerRank: perRank, maxBlocks: overall }))
          const plain = driver(new NaiveIndex())
          for (const { kind: what, rank, chain, length } of steps) {
            const blocks = range(1000 * chain, 1000 * chain + length - 1)
            for (const it of [capped, plain]) {
              if (what === 'store') it.store(rank, blocks)
              else if (what === 'remove') it.remove(rank, [blocks.at(-1)! + 100])
              else it.clear(rank)
            }
            const prompt = range(1000 * chain, 1000 * chain + 12)
            const [less, all] = [capped.find(prompt), plain.find(prompt)]
            for (const [at, depth] of less.entries()) {
              expect(depth).toBeLessThanOrEqual(all[at]!)
              if (depth < all[at]!) expect(capped.index.stats().evictedBlocks).toBeGreaterThan(0)
            }
            const { heldBlocks } = capped.index.stats()
            expect(heldBlocks).toBeLessThanOrEqual(overall)
            for (let at = 0; at < 4; at++) expect(capped.index.blocksOf(at)).toBeLessThanOrEqual(perRank)
          }
          for (let rank = 0; rank < 4; rank++) capped.clear(rank)
          expect(capped.index.stats()).toMatchObject({ heldBlocks: 0, distinctBlocks: 0 })
        },
      ),
      { numRuns: 150 },
    )
  },
)
