/** The lower tiers against plain lists of facts, and the helpers that drive them. */
import fc from 'fast-check'
import { expect } from 'vitest'
import { hashAt, newHashColumn, RankTable, setHashAt, toHashColumn } from '../protocol/index.js'
import { cacheOwner } from './cache-owner.case.js'
import { LowerTier } from './lower-tier.js'
import { type Continuation, NaiveTier, naiveTierWalk } from './naive-tiers.case.js'
import { TierOwners } from './tier-owners.js'
import { TierWalk } from './tier-walk.js'

const rankCount = 4

export function ranksOfFour(): RankTable {
  const ranks = new RankTable()
  for (let rank = 0; rank < rankCount; rank++) ranks.intern(BigInt(rank), 0)
  return ranks
}

export function newTier(blocksMax = 1000): LowerTier {
  return new LowerTier({ seed: 7, blocksMax })
}

/** Hits per rank for continuations `(position, last)`; an undefined one is not seeded by the device. */
export function walk(
  tiers: LowerTier[],
  from: (Continuation | undefined)[],
  query: bigint[],
  owners?: TierOwners,
): number[][] {
  const depths = new Uint32Array(rankCount)
  const last = newHashColumn(rankCount)
  for (const [rank, it] of from.entries()) {
    depths[rank] = it?.position ?? 0
    setHashAt(last, rank, it?.last ?? 0n)
  }
  const walker = new TierWalk()
  walker.seed(depths, last, rankCount)
  return tiers.map((tier) => {
    const hits = new Uint32Array(rankCount)
    walker.extend(tier, owners ?? new TierOwners(ranksOfFour()), toHashColumn(query), query.length, hits)
    return [...hits]
  })
}
export const at = (position: number, last: bigint): Continuation => ({ position, last })

// Goal: tables, lists and the shared walk answer what plain lists of facts answer, whatever order blocks come, clash and go.
// Method: the same random steps drive both; after each, every rank walks three tiers from random device depths.
type Step =
  | { kind: 'store'; tier: number; owner: number; parent: number | null; locals: number[]; names: number }
  | { kind: 'remove'; tier: number; owner: number; hashes: number[] }
  | { kind: 'clear'; tier: number; owner: number }
  | { kind: 'project'; rank: number }

const small = fc.nat(5)
const tierAndOwner = { tier: fc.nat(2), owner: fc.nat(rankCount) } // the last owner is a cache owner
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('store' as const),
      ...tierAndOwner,
      parent: fc.option(small),
      locals: fc.array(small, { maxLength: 4 }),
      names: fc.nat(3), // mostly 0: names follow content; otherwise they clash
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('remove' as const),
      ...tierAndOwner,
      hashes: fc.array(small, { maxLength: 3 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('clear' as const), ...tierAndOwner }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('project' as const), rank: fc.nat(rankCount - 1) }) },
)
const anyQuery = fc.record({
  blocks: fc.array(small, { minLength: 1, maxLength: 6 }),
  device: fc.array(fc.record({ position: fc.nat(3), last: small }), { minLength: rankCount, maxLength: rankCount }),
})

export function checkTiersAgainstFacts(parameters: { numRuns: number; seed?: number }): void {
  fc.assert(
    fc.property(
      fc.array(anyStep, { maxLength: 40 }),
      fc.array(anyQuery, { minLength: 1, maxLength: 4 }),
      (steps, queries) => {
        const owners = new TierOwners(ranksOfFour())
        const shared = owners.intern(cacheOwner(1), () => false)!
        const number = (owner: number) => (owner < rankCount ? owners.ofRank(owner) : shared)
        let projectedTo = -1
        const real = [newTier(), newTier(), newTier()]
        const model = [new NaiveTier(), new NaiveTier(), new NaiveTier()]
        for (const step of steps) {
          if (step.kind === 'project') {
            projectedTo = step.rank
            owners.project([[cacheOwner(1), { workerId: BigInt(step.rank), dpRank: 0 }]])
          } else applyStep(real[step.tier]!, model[step.tier]!, number(step.owner), step)
          for (const { blocks, device } of queries) {
            const from = device.map((it) => (it.position > 0 ? at(it.position, BigInt(it.last)) : undefined))
            const query = blocks.map(BigInt)
            const answers = walk(real, from, query, owners)
            for (let rank = 0; rank < rankCount; rank++) {
              const own = [number(rank), ...(projectedTo === rank ? [shared] : [])]
              const expected = naiveTierWalk(model, own, from[rank] ?? { position: 0, last: null }, query)
              expect(answers.map((it) => it[rank])).toEqual(expected)
            }
          }
        }
        for (const tier of real) {
          for (let owner = 0; owner <= rankCount; owner++) tier.clearOwner(number(owner))
          expect([tier.heldBlocks, tier.distinctBlocks]).toEqual([0, 0])
        }
      },
    ),
    parameters,
  )
}

function applyStep(real: LowerTier, model: NaiveTier, owner: number, step: Exclude<Step, { kind: 'project' }>): void {
  switch (step.kind) {
    case 'store': {
      const locals = step.locals.map(BigInt)
      const children = step.locals.map((it, index) => BigInt(step.names === 0 ? it : (it + step.names + index) % 6))
      const parent = step.parent === null ? undefined : BigInt(step.parent)
      const fitted = real.store(
        owner,
        parent !== undefined,
        Number(parent ?? 0),
        0,
        toHashColumn(children),
        toHashColumn(locals),
      )
      const blocks = locals.map((local, index) => ({ local, child: children[index]! }))
      expect(fitted).toBe(model.store(owner, parent ?? null, blocks))
      break
    }
    case 'remove': {
      const hashes = step.hashes.map(BigInt)
      expect(real.remove(owner, toHashColumn(hashes))).toBe(model.remove(owner, hashes))
      break
    }
    case 'clear':
      real.clearOwner(owner)
      model.clearOwner(owner)
  }
  expect(real.heldBlocks).toBe(model.holds.length)
  const facts = Array.from(real.facts(owner), (it) => hashAt(new Uint32Array([it.externalLo, it.externalHi]), 0))
  expect(facts).toEqual(model.holds.filter((it) => it.owner === owner).map((it) => it.child))
}
