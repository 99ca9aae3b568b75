import fc from 'fast-check'
import { expect, it } from 'vitest'
import { toHashColumn } from '../protocol/index.js'
import { cacheOwner } from './cache-owner.case.js'
import type { LowerTier } from './lower-tier.js'
import { at, checkTiersAgainstFacts, newTier, ranksOfFour, walk } from './lower-tier-model.case.js'
import { TierOwners } from './tier-owners.js'

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

it('a block with hash 0 is a parent like any other, and not the root', () => {
  const tier = newTier()
  store(tier, 0, [1n], undefined, [0n])
  store(tier, 0, [2n], undefined, [102n])
  expect(walk([tier], [], [1n, 2n])).toEqual([[1, 0, 0, 0]])
  store(tier, 0, [2n], 0n, [103n])
  expect(walk([tier], [], [1n, 2n])).toEqual([[2, 0, 0, 0]])
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

// Goal: a walk of one rank and a walk of many are the same walk. Method: the same facts, with and without the other ranks'.
it('a rank finds alone what it finds among others', () => {
  const anyHold = fc.record({
    rank: fc.nat(3),
    parent: fc.option(fc.bigInt(101n, 104n), { nil: undefined }),
    locals: fc.array(fc.bigInt(1n, 4n), { minLength: 1, maxLength: 4 }),
  })
  const anyStart = fc.option(fc.record({ position: fc.integer({ min: 1, max: 3 }), last: fc.bigInt(101n, 104n) }), {
    nil: undefined,
  })
  const anyFour = fc.array(anyStart, { minLength: 4, maxLength: 4 })
  const anyQuery = fc.array(fc.bigInt(1n, 4n), { minLength: 1, maxLength: 6 })
  fc.assert(
    fc.property(fc.array(anyHold, { maxLength: 20 }), anyFour, anyQuery, (holds, from, query) => {
      const together = newTier()
      for (const { rank, locals, parent } of holds) store(together, rank, locals, parent)
      const [hits] = walk([together], from, query)
      for (const rank of [0, 1, 2, 3]) {
        const alone = newTier()
        for (const hold of holds) if (hold.rank === rank) store(alone, rank, hold.locals, hold.parent)
        const own = from.map((it, other) => (other === rank ? it : undefined))
        expect(walk([alone], own, query)[0]![rank]).toBe(hits![rank])
      }
    }),
    { numRuns: 300 },
  )
})

it('three tiers answer what plain lists of facts answer, after every step', () => {
  checkTiersAgainstFacts({ numRuns: 200 })
})

// Goal: edges are never copied in one go (docs/decisions/0263), and a chain does not care where its edges lie.
it('finds a chain of many thousand edges, block after block, however their places follow', () => {
  const count = 20_000
  const local = Uint32Array.from({ length: 2 * count }, (_, word) => word + 1)
  const external = local.map((word) => word ^ 0x5555_0000)
  const found = (tier: LowerTier): number => {
    let edge = tier.edgeFrom(false, 0, 0, local[0]!, local[1]!)
    let depth = 0
    for (; edge >= 0 && tier.childLo(edge) === external[2 * depth]; depth++)
      if (depth + 1 === count) return count
      else
        edge = tier.edgeAfter(
          edge,
          tier.childLo(edge),
          tier.childHi(edge),
          local[2 * depth + 2]!,
          local[2 * depth + 3]!,
        )
    return depth
  }
  const tier = newTier(1e9)
  expect(tier.store(0, false, 0, 0, external, local)).toBe(count)
  expect(found(tier)).toBe(count)
  tier.remove(0, external)
  expect(tier.distinctBlocks).toBe(0)
  expect(tier.edgeFrom(false, 0, 0, local[0]!, local[1]!)).toBe(-1)
  tier.store(0, false, 0, 0, external, local) // now from the last place to the first
  expect(found(tier)).toBe(count)
  expect(tier.distinctBlocks).toBe(count)
})

it('keeps no room for as many edges again as it has', () => {
  const count = 200_000 // a column that doubles has room for 262,144
  const local = Uint32Array.from({ length: 2 * count }, (_, word) => word + 1)
  const tier = newTier(1e9)
  tier.store(0, false, 0, 0, local, local)
  expect(tier.heldBlocks).toBe(count)
  expect(tier.bytesUsed / count).toBeLessThan(120)
})
