import fc from 'fast-check'
import { expect, it } from 'vitest'
import { RankTable, toHashColumn } from '../protocol/index.js'
import { ActiveSequences } from './active-sequences.js'
import { newLoadColumns } from './load-columns.js'
import { NaiveSequences } from './naive-sequences.case.js'
import { chain, checkTrackerAgainstModel, checkWeights } from './tracker-model.case.js'

// Longer runs: npm run fuzz:sequences.
it.each(['anchor', 'full'] as const)(
  'carries exactly what a recount carries, after every step, with %s decay',
  (decay) => checkTrackerAgainstModel(decay, { numRuns: 300 }),
)

it.each([
  { says: 'two ranks', ranks: 2 },
  { says: 'one rank', ranks: 1 },
])('keeps the weight of every block while runs are cut and merged, on $says', ({ ranks }) =>
  checkWeights(ranks, { numRuns: 300 }),
)

it('finds every run again while hundreds of unrelated prompts come and go', () => {
  // Enough runs for long probe sequences in the table, so that closing a gap wrongly would lose one.
  fc.assert(
    fc.property(fc.array(fc.nat({ max: 255 }), { minLength: 600, maxLength: 900 }), (draws) => {
      const ranks = new RankTable()
      const rank = ranks.intern(1n, 0)
      const real = new ActiveSequences({ ranks })
      const held = new Set<number>()
      for (const draw of draws) {
        if (held.delete(draw)) real.free(`${draw}`, 0)
        else {
          held.add(draw)
          real.book(
            { requestId: `${draw}`, rank, sequenceHashes: toHashColumn([BigInt(draw), BigInt(draw + 1000)]) },
            0,
          )
        }
        expect(real.activeBlocks(rank)).toBe(2 * held.size)
      }
      const loads = newLoadColumns()
      for (let draw = 0; draw < 256; draw++) {
        real.fillLoads(loads, 0, toHashColumn([BigInt(draw), BigInt(draw + 1000)]))
        expect(loads.decodeBlocks[rank]).toBe(2 * held.size + (held.has(draw) ? 0 : 2))
      }
    }),
    { numRuns: 10 },
  )
})

it('answers many queries as the model does while many prompts share long prefixes', () => {
  // Fewer letters, longer words: deep trees with many cuts, where both ways of raising depths are taken.
  const word = fc.array(
    fc.nat({ max: 9 }).map((it) => (it === 9 ? 1 : 0)),
    { minLength: 1, maxLength: 40 },
  )
  fc.assert(
    fc.property(
      fc.array(fc.tuple(word, fc.nat({ max: 19 })), { maxLength: 60 }),
      fc.array(word),
      (prompts, queries) => {
        const ranks = new RankTable()
        for (let rank = 0; rank < 20; rank++) ranks.intern(BigInt(rank), 0)
        const real = new ActiveSequences({ ranks })
        const model = new NaiveSequences()
        for (const [index, [prompt, rank]] of prompts.entries()) {
          real.book({ requestId: `${index}`, rank, sequenceHashes: toHashColumn(chain(prompt)) }, 0)
          model.book(`${index}`, rank, chain(prompt).map(String), 0)
        }
        const loads = newLoadColumns()
        for (const query of [...queries, ...prompts.map(([prompt]) => prompt)]) {
          const hashes = chain(query)
          real.fillLoads(loads, 0, toHashColumn(hashes))
          for (const rank of model.ranks.keys())
            expect(loads.decodeBlocks[rank]).toBe(
              model.activeBlocks(rank) + hashes.length - model.depth(rank, hashes.map(String)),
            )
        }
      },
    ),
    { numRuns: 60 },
  )
})

it('has an order-free sum of fractions: freeing everything in any order leaves exactly nothing', () => {
  const life = fc.record({
    prompt: fc.array(fc.nat({ max: 2 }), { maxLength: 9 }),
    fraction: fc.double({ min: 0, max: 1, noNaN: true }),
  })
  fc.assert(
    fc.property(fc.array(life, { maxLength: 12 }), fc.infiniteStream(fc.nat()), (lives, draws) => {
      const ranks = new RankTable()
      const rank = ranks.intern(1n, 0)
      const real = new ActiveSequences({ ranks })
      for (const [index, { prompt, fraction }] of lives.entries()) {
        real.book({ requestId: `${index}`, rank, sequenceHashes: toHashColumn(chain(prompt)) }, 0)
        real.addOutputBlock(`${index}`, 0, fraction)
      }
      const left = lives.map((_, index) => `${index}`)
      while (left.length > 0) {
        const [id] = left.splice(draws.next().value! % left.length, 1)
        real.free(id!, 0)
        expect(real.activeBlocks(rank)).toBeGreaterThanOrEqual(0)
      }
      expect(real.activeBlocks(rank)).toBe(0)
      real.book({ requestId: 'z', rank, sequenceHashes: toHashColumn([1n]) }, 0)
      expect(real.activeBlocks(rank)).toBe(1)
    }),
  )
})
