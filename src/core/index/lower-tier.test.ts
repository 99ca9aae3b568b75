import fc from 'fast-check'
import { expect, it } from 'vitest'
import { hashAt, newHashColumn, RankTable, setHashAt, toHashColumn } from '../protocol/index.js'
import { cacheOwner } from './cache-owner.case.js'
import { LowerTier } from './lower-tier.js'
import { type Continuation, NaiveTier, naiveTierWalk } from './naive-tiers.case.js'
import { TierOwners } from './tier-owners.js'
import { TierWalk } from './tier-walk.js'

const rankCount = 4

function ranksOfFour(): RankTable {
  const ranks = new RankTable()
  for (let rank = 0; rank < rankCount; rank++) ranks.intern(BigInt(rank), 0)
  return ranks
}

function newTier(blocksMax = 1000): LowerTier {
  return new LowerTier({ seed: 7, blocksMax })
}

/** `locals` below `parent`; by default a block's external hash is its local hash + 100. */
function store(
  tier: LowerTier,
  rank: number,
  locals: bigint[],
  parent?: bigint,
  children = locals.map((it) => it + 100n),
) {
  const column = toHashColumn([parent ?? 0n])
  return tier.store(
    2 * rank,
    parent !== undefined,
    column[0]!,
    column[1]!,
    toHashColumn(children),
    toHashColumn(locals),
  )
}

/** Hits per rank for continuations `(position, last)`; an undefined one is not seeded by the device. */
function walk(
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
const at = (position: number, last: bigint): Continuation => ({ position, last })

it('only ranks with a parent-less edge for the first block start at the root', () => {
  const tier = newTier()
  store(tier, 0, [1n, 2n])
  store(tier, 1, [1n], 55n) // the same content, but below a parent
  store(tier, 2, [9n])
  expect(walk([tier], [], [1n, 2n])).toEqual([[2, 0, 0, 0]])
})

it('a tail whose parent this tier never saw continues from that parent', () => {
  const tier = newTier()
  store(tier, 0, [3n, 4n], 102n)
  expect(walk([tier], [at(2, 102n)], [1n, 2n, 3n, 4n])).toEqual([[2, 0, 0, 0]])
})

it('a continuation may start in the middle of what was stored at once', () => {
  const tier = newTier()
  store(tier, 0, [1n, 2n, 3n, 4n])
  expect(walk([tier], [at(2, 102n)], [1n, 2n, 3n, 4n])).toEqual([[2, 0, 0, 0]])
})

it('a branch is taken by its parent hash, not by its position', () => {
  const tier = newTier()
  store(tier, 0, [3n], 102n, [203n])
  store(tier, 0, [3n], 150n, [250n])
  store(tier, 0, [4n], 250n, [251n])
  expect(walk([tier], [at(2, 102n)], [1n, 2n, 3n, 4n])).toEqual([[1, 0, 0, 0]])
  expect(walk([tier], [at(2, 150n)], [1n, 2n, 3n, 4n])).toEqual([[2, 0, 0, 0]])
})

it('ranks that start at different depths of one chain each get their own hits', () => {
  const tier = newTier()
  for (const rank of [0, 1, 2]) store(tier, rank, [1n, 2n, 3n, 4n, 5n])
  tier.remove(2 * 2, toHashColumn([105n]))
  expect(walk([tier], [at(1, 101n), at(3, 103n), at(2, 102n), at(1, 101n)], [1n, 2n, 3n, 4n, 5n])).toEqual([
    [4, 2, 2, 0],
  ])
})

it('storing again changes nothing', () => {
  const tier = newTier()
  store(tier, 0, [1n, 2n])
  expect(store(tier, 0, [1n, 2n])).toBe(2)
  expect([tier.heldBlocks, tier.distinctBlocks, tier.conflicts]).toEqual([2, 2, 0])
  expect(tier.remove(0, toHashColumn([101n, 102n]))).toBe(0)
  expect(tier.heldBlocks).toBe(0)
})

it('removing one owner leaves the edge to the others', () => {
  const tier = newTier()
  store(tier, 0, [1n, 2n])
  store(tier, 1, [1n, 2n])
  tier.remove(0, toHashColumn([102n]))
  expect(walk([tier], [], [1n, 2n])).toEqual([[1, 2, 0, 0]])
  expect(tier.distinctBlocks).toBe(2)
})

it('a removed block ends the contiguous walk, and the edge behind it still continues', () => {
  const tier = newTier()
  store(tier, 0, [1n, 2n, 3n])
  tier.remove(0, toHashColumn([102n]))
  expect(walk([tier], [], [1n, 2n, 3n])).toEqual([[1, 0, 0, 0]])
  expect(walk([tier], [at(2, 102n)], [1n, 2n, 3n])).toEqual([[1, 0, 0, 0]])
})

it.each([
  { says: 'an unknown last hash', from: at(1, 999n), query: [1n, 2n] },
  { says: 'a start past the end', from: at(5, 102n), query: [1n, 2n] },
  { says: 'an empty prompt', from: undefined, query: [] },
])('$says gives no hits', ({ from, query }) => {
  const tier = newTier()
  store(tier, 0, [1n, 2n, 3n])
  expect(walk([tier], [from], query)).toEqual([[0, 0, 0, 0]])
})

it('clearing an owner takes its blocks and leaves shared edges', () => {
  const tier = newTier()
  store(tier, 0, [1n, 2n])
  store(tier, 1, [1n])
  expect(tier.clearOwner(0)).toBe(2)
  expect(walk([tier], [], [1n, 2n])).toEqual([[0, 1, 0, 0]])
  expect([tier.blocksOf(0), tier.blocksOf(2), tier.distinctBlocks]).toEqual([0, 1, 1])
  expect(tier.clearOwner(0)).toBe(0)
})

it('the first mapping wins when an edge would lead to another child', () => {
  const tier = newTier()
  store(tier, 0, [1n, 2n])
  expect(store(tier, 1, [1n, 2n, 3n], undefined, [101n, 999n, 103n])).toBe(1)
  expect(walk([tier], [], [1n, 2n, 3n])).toEqual([[2, 1, 0, 0]])
  expect(tier.conflicts).toBe(1)
})

it('the first mapping wins when an owner would have one block under two edges', () => {
  const tier = newTier()
  store(tier, 0, [1n], undefined, [101n])
  expect(store(tier, 0, [2n], undefined, [101n])).toBe(0)
  expect(walk([tier], [], [2n])).toEqual([[0, 0, 0, 0]])
})

it('one walk may cross from a rank’s own blocks to those of its cache owner and back', () => {
  const owners = new TierOwners(ranksOfFour())
  const tier = newTier()
  const owner = owners.intern(cacheOwner(1), () => false)!
  store(tier, 0, [1n])
  tier.store(owner, true, 101, 0, toHashColumn([102n]), toHashColumn([2n]))
  store(tier, 0, [3n], 102n)
  expect(walk([tier], [], [1n, 2n, 3n], owners)).toEqual([[1, 0, 0, 0]])
  owners.project([[cacheOwner(1), { workerId: 0n, dpRank: 0 }]])
  expect(walk([tier], [], [1n, 2n, 3n], owners)).toEqual([[3, 0, 0, 0]])
})

it('at its cap it forgets the oldest block first, and counts it', () => {
  const tier = newTier(3)
  store(tier, 0, [1n, 2n])
  store(tier, 1, [1n, 2n])
  expect([tier.heldBlocks, tier.evictedBlocks]).toEqual([3, 1])
  expect(walk([tier], [], [1n, 2n])).toEqual([[0, 2, 0, 0]])
})

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

it('three tiers answer what plain lists of facts answer, after every step', () => {
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
    { numRuns: 200 },
  )
})

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
