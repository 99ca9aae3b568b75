import { expect, it } from 'vitest'
import { RankTable } from '../protocol/index.js'
import { cacheOwner } from './cache-owner.case.js'
import { cacheOwnersMax, TierOwners } from './tier-owners.js'

const never = () => false

it('a rank is its own owner, and a cache owner counts for the rank of the current projection only', () => {
  const ranks = new RankTable()
  const owners = new TierOwners(ranks)
  const [first, second] = [ranks.intern(7n, 0), ranks.intern(7n, 1)]
  const shared = owners.intern(cacheOwner(1), never)!
  expect([owners.rankOf(owners.ofRank(second)), owners.rankOf(shared)]).toEqual([second, -1])
  owners.project([[cacheOwner(1), { workerId: 7n, dpRank: 0 }]])
  expect(owners.rankOf(shared)).toBe(first)
  owners.project([[cacheOwner(1), { workerId: 7n, dpRank: 1 }]])
  expect(owners.rankOf(shared)).toBe(second)
  owners.project([[cacheOwner(1), { workerId: 9n, dpRank: 0 }]]) // not here yet
  expect(owners.rankOf(shared)).toBe(-1)
})

it('an owner that is projected before it is seen counts from its first block on', () => {
  const ranks = new RankTable()
  const owners = new TierOwners(ranks)
  owners.project([[cacheOwner(1), { workerId: 7n, dpRank: 0 }]])
  expect(owners.rankOf(owners.intern(cacheOwner(1), never)!)).toBe(-1)
  expect(owners.rankOf(owners.find(cacheOwner(1))!)).toBe(-1)
  const rank = ranks.intern(7n, 0)
  expect(owners.rankOf(owners.find(cacheOwner(1))!)).toBe(rank)
})

it('refuses one owner with two ranks and keeps the projection it had', () => {
  const ranks = new RankTable()
  const owners = new TierOwners(ranks)
  const rank = ranks.intern(7n, 0)
  const shared = owners.intern(cacheOwner(1), never)!
  owners.project([[cacheOwner(1), { workerId: 7n, dpRank: 0 }]])
  expect(() =>
    owners.project([
      [cacheOwner(1), { workerId: 7n, dpRank: 0 }],
      [cacheOwner(1), { workerId: 7n, dpRank: 1 }],
    ]),
  ).toThrow(expect.objectContaining({ code: 'WR_INVALID_ARGUMENT' }))
  expect(owners.rankOf(shared)).toBe(rank)
})

it('is bounded: a new owner takes the place of an idle one, or is refused', () => {
  const owners = new TierOwners(new RankTable())
  for (let number = 0; number < cacheOwnersMax; number++) owners.intern(cacheOwner(number), never)
  expect(owners.intern(cacheOwner(cacheOwnersMax), never)).toBeUndefined()
  const idle = owners.find(cacheOwner(5))!
  expect(owners.intern(cacheOwner(cacheOwnersMax), (owner) => owner === idle)).toBe(idle)
  expect(owners.find(cacheOwner(5))).toBeUndefined()
  expect([...owners.cacheOwners()]).toHaveLength(cacheOwnersMax)
})
