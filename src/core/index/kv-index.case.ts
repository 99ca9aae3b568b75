/** What a `KvIndex` must do whatever exact index lies inside. `newIndex` makes an empty one. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type CacheOwnerId,
  type KvCacheEventData,
  lowerTiers,
  newMatchColumns,
  newRouterEvent,
  RankTable,
  type RouterEvent,
  type StorageTier,
  toHashColumn,
} from '../protocol/index.js'
import { cacheOwner } from './cache-owner.case.js'
import { KvIndex, type KvIndexOptions } from './kv-index.js'
import type { PrefixIndex } from './prefix-index.js'
import { TieredBatch } from './tiered-batch.js'

type Rank = readonly [workerId: bigint, dpRank: number]
const a: Rank = [1n, 0]
const b: Rank = [2n, 0]

/** The name that every engine of these tests gives to the block at the end of a prefix. */
export const nameOf = (prefix: readonly bigint[]): bigint =>
  prefix.reduce((hash, it) => (hash * 1_000_003n + it) & 0xffff_ffff_ffffn, 17n)
const namesOf = (after: readonly bigint[], locals: readonly bigint[]) =>
  locals.map((_, index) => nameOf([...after, ...locals.slice(0, index + 1)]))

interface Where {
  readonly after?: readonly bigint[]
  readonly tier?: StorageTier
  readonly owner?: CacheOwnerId
}

export function stored([workerId, dpRank]: Rank, locals: readonly bigint[], where: Where = {}): RouterEvent {
  const after = where.after ?? []
  const blocks = namesOf(after, locals).map((blockHash, index) => ({
    blockHash,
    tokensHash: locals[index]!,
    mmExtraInfo: null,
  }))
  const parentHash = after.length > 0 ? nameOf(after) : null
  return place(workerId, dpRank, { kind: 'stored', parentHash, startPosition: null, blocks }, where)
}

export function removed(
  [workerId, dpRank]: Rank,
  prefixes: readonly (readonly bigint[])[],
  where: Where = {},
): RouterEvent {
  return place(workerId, dpRank, { kind: 'removed', blockHashes: prefixes.map(nameOf) }, where)
}

export function cleared([workerId, dpRank]: Rank, where: Where = {}): RouterEvent {
  return place(workerId, dpRank, { kind: 'cleared' }, where)
}

function place(workerId: bigint, dpRank: number, data: KvCacheEventData, where: Where): RouterEvent {
  const event = newRouterEvent({ workerId, dpRank }, 1n, data, where.tier)
  return where.owner ? { ...event, residencyDomain: 'cache_owner', stateSource: where.owner } : event
}

/** `find` answers `worker.rank -> [device, host, disk, external]`, rows of zeroes left out. */
export function newKv(newIndex: () => PrefixIndex, options: Partial<KvIndexOptions> = {}) {
  const ranks = new RankTable()
  const kv = new KvIndex({ ranks, device: newIndex(), startMs: 0, seed: 5, ...options })
  const columns = newMatchColumns()
  return {
    kv,
    ranks,
    apply: (...events: RouterEvent[]) => kv.applyEvents(events),
    find(locals: readonly bigint[]): Record<string, number[]> {
      kv.findMatches(toHashColumn(locals), locals.length, columns)
      const rows: Record<string, number[]> = {}
      for (const rank of ranks.live()) {
        const row = [columns.device, columns.hostPinned, columns.disk, columns.external].map((it) => it[rank]!)
        const { workerId, dpRank } = ranks.pairOf(rank)
        if (row.some((it) => it > 0)) rows[`${workerId}.${dpRank}`] = row
      }
      return rows
    },
    decide: ([workerId, dpRank]: Rank, locals: readonly bigint[], nowMs = 0) =>
      kv.recordRoutingDecision(
        ranks.intern(workerId, dpRank),
        toHashColumn(locals),
        toHashColumn(namesOf([9999n], locals)), // sequence hashes: not the engines' names
        nowMs,
      ),
  }
}

export function kvIndexConformance(name: string, newIndex: () => PrefixIndex): void {
  const fresh = (options: Partial<KvIndexOptions> = {}) => newKv(newIndex, options)
  const side = (ttlMs = 1000) => fresh({ predicted: { index: newIndex(), ttlMs } })

  describe(`${name}: lookup through the tiers`, () => {
    it('chains device, host and disk: 2 + 1 + 1', () => {
      const it = fresh()
      it.apply(
        stored(a, [1n, 2n]),
        stored(a, [3n], { after: [1n, 2n], tier: 'host_pinned' }),
        stored(a, [4n], { after: [1n, 2n, 3n], tier: 'disk' }),
      )
      expect(it.find([1n, 2n, 3n, 4n, 5n])).toEqual({ '1.0': [2, 1, 1, 0] })
    })

    it('walks host_pinned, then disk, then external, and never back', () => {
      const it = fresh()
      it.apply(
        stored(a, [1n]),
        stored(a, [2n], { after: [1n], tier: 'external' }),
        stored(a, [3n], { after: [1n, 2n], tier: 'disk' }),
        stored(b, [1n], { tier: 'disk' }),
        stored(b, [2n], { after: [1n], tier: 'external' }),
      )
      expect(it.find([1n, 2n, 3n])).toEqual({ '1.0': [1, 0, 0, 1], '2.0': [0, 0, 1, 1] })
    })

    it('a rank that holds blocks only below the device counts there, from the root', () => {
      const it = fresh()
      it.apply(stored(a, [1n]), stored(b, [1n, 2n], { tier: 'host_pinned' }))
      expect(it.find([1n, 2n])).toEqual({ '1.0': [1, 0, 0, 0], '2.0': [0, 2, 0, 0] })
    })

    it('only ranks whose root block matches start below the device', () => {
      const it = fresh()
      it.apply(stored(a, [9n], { tier: 'host_pinned' }), stored(b, [2n], { after: [1n], tier: 'host_pinned' }))
      expect(it.find([1n, 2n])).toEqual({})
    })

    it('a block on the device and on the host counts once', () => {
      const it = fresh()
      it.apply(stored(a, [1n]), stored(a, [1n, 2n], { tier: 'host_pinned' }))
      expect(it.find([1n, 2n])).toEqual({ '1.0': [1, 1, 0, 0] })
    })

    it('without any tier the lower columns need not be read', () => {
      const it = fresh()
      it.apply(stored(a, [1n]), removed(a, [[7n]], { tier: 'disk' }))
      const columns = newMatchColumns()
      it.kv.findMatches(toHashColumn([1n]), 1, columns)
      expect([columns.hasLowerTiers, columns.rankCount, columns.device[0]]).toEqual([false, 1, 1])
    })

    it('an empty prompt matches nothing', () => {
      const it = fresh()
      it.apply(stored(a, [1n]), stored(a, [1n], { tier: 'disk' }))
      expect(it.find([])).toEqual({})
    })

    it('says under which hash the device holds the last credited block', () => {
      const it = fresh()
      it.apply(stored(a, [1n, 2n, 3n]), stored(b, [1n], { tier: 'disk' }))
      it.find([1n, 2n, 8n])
      expect(it.kv.lastMatchedHash(0)).toBe(nameOf([1n, 2n]))
      expect(it.kv.lastMatchedHash(1)).toBeUndefined()
    })

    it('a block that moves to the host and back is where the last event put it', () => {
      const it = fresh()
      it.apply(stored(a, [1n, 2n]), removed(a, [[1n, 2n]]), stored(a, [2n], { after: [1n], tier: 'host_pinned' }))
      expect(it.find([1n, 2n])).toEqual({ '1.0': [1, 1, 0, 0] })
      it.apply(removed(a, [[1n, 2n]], { tier: 'host_pinned' }), stored(a, [2n], { after: [1n] }))
      expect(it.find([1n, 2n])).toEqual({ '1.0': [2, 0, 0, 0] })
    })
  })

  describe(`${name}: events`, () => {
    it('counts every event by kind and outcome', () => {
      const it = fresh()
      const outcomes = it.apply(
        stored(a, [1n, 2n]),
        stored(a, [1n, 2n]),
        stored(a, [5n], { after: [4n] }),
        stored(a, [5n], { after: [4n], tier: 'disk' }),
        removed(a, [[9n], [1n, 2n]]),
        removed(b, [[9n]], { tier: 'disk' }),
        cleared(b),
        { ...stored(a, [1n]), residencyDomain: 'unknown' },
      )
      expect(outcomes).toEqual([
        'ok',
        'duplicate_store',
        'parent_block_not_found',
        'ok', // lower tiers know no parents
        'block_not_found',
        'block_not_found',
        'ok',
        'unsupported_residency_domain',
      ])
      const { counts } = it.kv
      expect(counts.applied('stored', 'ok')).toBe(3)
      expect(counts.duplicateStores).toBe(1)
      expect(counts.applied('stored', 'parent_block_not_found')).toBe(1)
      expect(counts.applied('removed', 'block_not_found')).toBe(2)
      expect(counts.applied('cleared', 'ok')).toBe(1)
      expect(counts.unsupported).toBe(1)
      expect(it.find([1n, 2n])).toEqual({ '1.0': [1, 0, 0, 0] }) // the rest of the failed removal was applied
    })

    it('a replayed store warns, a continuation does not, and the dump stays the same', () => {
      const it = fresh()
      it.apply(stored(a, [1n, 2n]))
      const before = [...it.kv.dump()]
      it.apply(stored(a, [1n, 2n]))
      expect([...it.kv.dump()]).toEqual(before)
      it.apply(stored(a, [3n], { after: [1n, 2n] }))
      expect(it.kv.counts.duplicateStores).toBe(1)
    })

    it('an unknown hash does not keep the rest of a lower-tier removal', () => {
      const it = fresh()
      it.apply(stored(a, [1n, 2n], { tier: 'disk' }))
      expect(it.apply(removed(a, [[7n], [1n, 2n]], { tier: 'disk' }))).toEqual(['block_not_found'])
      expect(it.find([1n, 2n])).toEqual({ '1.0': [0, 0, 1, 0] })
    })

    it('a clear empties every tier of exactly its rank', () => {
      const it = fresh()
      const a1: Rank = [1n, 1]
      for (const rank of [a, a1])
        it.apply(
          stored(rank, [1n]),
          stored(rank, [1n, 2n], { tier: 'host_pinned' }),
          stored(rank, [1n], { tier: 'external' }),
        )
      it.apply(cleared(a, { tier: 'disk' }))
      expect(it.find([1n, 2n])).toEqual({ '1.1': [1, 1, 0, 0] })
      it.apply(stored(a, [1n]))
      expect(it.find([1n, 2n])).toEqual({ '1.0': [1, 0, 0, 0], '1.1': [1, 1, 0, 0] })
    })

    it('the order of events holds across a clear, tier by tier', () => {
      const it = fresh()
      it.apply(
        stored(a, [1n, 2n], { tier: 'disk' }),
        stored(a, [1n]),
        cleared(a),
        stored(a, [1n], { tier: 'disk' }),
        stored(a, [1n, 2n, 3n]),
      )
      expect(it.find([1n, 2n, 3n])).toEqual({ '1.0': [3, 0, 0, 0] })
      it.apply(removed(a, [[1n]]))
      expect(it.find([1n, 2n, 3n])).toEqual({ '1.0': [0, 0, 1, 0] })
    })

    it('a packed batch gives the same answers as plain events', () => {
      const it = fresh()
      const rank = it.ranks.intern(...a)
      const batch = new TieredBatch()
      batch.device.stored(rank, undefined, toHashColumn(namesOf([], [1n, 2n])), toHashColumn([1n, 2n]))
      batch.disk.stored(
        rank,
        toHashColumn([nameOf([1n, 2n])]),
        toHashColumn([nameOf([1n, 2n, 3n])]),
        toHashColumn([3n]),
      )
      it.kv.apply(batch)
      expect(it.find([1n, 2n, 3n])).toEqual({ '1.0': [2, 0, 1, 0] })
      batch.clear()
      batch.cleared(rank)
      it.kv.apply(batch)
      expect(it.find([1n, 2n, 3n])).toEqual({})
      expect([it.kv.counts.applied('stored', 'ok'), it.kv.counts.applied('cleared', 'ok')]).toEqual([2, 1])
    })
  })

  describe(`${name}: cache owners`, () => {
    const owner = cacheOwner(1)
    const other = cacheOwner(2)

    it('the domains are cleared one by one, and a clear without a domain takes both', () => {
      const both = () => {
        const it = fresh()
        it.kv.projectCacheOwners([[owner, { workerId: 1n, dpRank: 0 }]])
        it.apply(stored(a, [1n]), stored(a, [2n], { after: [1n], tier: 'disk', owner }))
        it.apply(stored(a, [3n], { after: [1n, 2n], tier: 'disk' }))
        expect(it.find([1n, 2n, 3n])).toEqual({ '1.0': [1, 0, 2, 0] })
        return it
      }
      const ownersGone = both()
      ownersGone.apply(cleared(a, { owner }))
      expect(ownersGone.find([1n, 2n, 3n])).toEqual({ '1.0': [1, 0, 0, 0] })
      const workersGone = both()
      workersGone.apply(cleared(a))
      workersGone.apply(stored(a, [1n]))
      expect(workersGone.find([1n, 2n, 3n])).toEqual({ '1.0': [1, 0, 1, 0] })
      const allGone = both()
      allGone.apply({ ...cleared(a), residencyDomain: 'missing', stateSource: owner })
      allGone.apply(stored(a, [1n]))
      expect(allGone.find([1n, 2n, 3n])).toEqual({ '1.0': [1, 0, 0, 0] })
    })

    it('an owner’s blocks survive its rank and count for the rank it is projected to next', () => {
      const it = fresh()
      it.kv.projectCacheOwners([[owner, { workerId: 1n, dpRank: 0 }]])
      it.apply(stored(a, [1n]), stored(b, [1n]), stored(a, [2n], { after: [1n], tier: 'external', owner }))
      it.kv.removeWorker(1n)
      expect(it.find([1n, 2n])).toEqual({ '2.0': [1, 0, 0, 0] })
      it.kv.projectCacheOwners([[owner, { workerId: 2n, dpRank: 0 }]])
      expect(it.find([1n, 2n])).toEqual({ '2.0': [1, 0, 0, 1] })
    })

    it('owners are told apart, and an event without its owner is unsupported', () => {
      const it = fresh()
      it.kv.projectCacheOwners([[owner, { workerId: 1n, dpRank: 0 }]])
      it.apply(stored(a, [1n]), stored(a, [2n], { after: [1n], tier: 'disk', owner: other }))
      expect(it.find([1n, 2n])).toEqual({ '1.0': [1, 0, 0, 0] })
      const nobody: RouterEvent = { ...stored(a, [2n], { after: [1n], tier: 'disk' }), residencyDomain: 'cache_owner' }
      expect(it.apply(nobody)).toEqual(['unsupported_residency_domain'])
      expect(it.apply(removed(a, [[7n]], { tier: 'disk', owner }))).toEqual(['block_not_found'])
    })
  })

  describe(`${name}: forgetting`, () => {
    it('resetting a rank takes every tier and its predictions, and no other rank', () => {
      const it = side()
      const a1: Rank = [1n, 1]
      for (const rank of [a, a1]) {
        it.apply(stored(rank, [1n]), ...lowerTiers.map((tier) => stored(rank, [1n], { tier })))
        it.decide(rank, [1n, 2n, 3n])
      }
      it.kv.resetRank(it.ranks.find(...a)!)
      expect(it.find([1n, 2n, 3n])).toEqual({ '1.1': [3, 0, 0, 0] })
      expect(it.kv.blocksOf(0)).toEqual({ device: 0, host_pinned: 0, disk: 0, external: 0, predicted: 0 })
      expect(it.kv.blocksOf(1)).toEqual({ device: 1, host_pinned: 1, disk: 1, external: 1, predicted: 3 })
    })

    it('a reset comes after what was applied before it, and spares what comes after', () => {
      const it = fresh()
      it.apply(stored(a, [1n, 2n]))
      it.kv.resetRank(0)
      it.apply(stored(a, [1n]))
      expect(it.find([1n, 2n])).toEqual({ '1.0': [1, 0, 0, 0] })
    })

    it('removing a worker takes all its ranks; an unknown worker is harmless', () => {
      const it = fresh()
      it.apply(stored(a, [1n]), stored([1n, 7], [1n], { tier: 'disk' }), stored(b, [1n]))
      it.kv.removeWorker(1n)
      it.kv.removeWorker(77n)
      expect(it.find([1n])).toEqual({ '2.0': [1, 0, 0, 0] })
    })
  })

  describe(`${name}: dump and restore`, () => {
    it('a chain dumps as one event, and ids count from 0', () => {
      const it = fresh()
      it.apply(stored(a, [1n, 2n]), stored(a, [3n, 4n], { after: [1n, 2n] }), stored(b, [1n], { tier: 'disk' }))
      const events = [...it.kv.dump()]
      expect(events.map((event) => [event.event.eventId, event.storageTier, event.workerId])).toEqual([
        [0n, 'device', 1n],
        [1n, 'disk', 2n],
      ])
      expect(events[0]!.event.data).toMatchObject({ parentHash: null, startPosition: null })
      expect(events[0]!.event.data).toHaveProperty('blocks.length', 4)
    })

    it('dumps the worked example: every fact once, parents first', () => {
      const it = fresh()
      it.apply(
        stored(a, [1n, 2n, 3n, 4n, 5n, 6n]),
        stored(b, [1n, 2n, 3n]),
        stored(b, [7n, 8n], { after: [1n, 2n, 3n] }),
      )
      const known = new Map<bigint, Set<bigint>>([
        [1n, new Set()],
        [2n, new Set()],
      ])
      let blockCount = 0
      for (const { workerId, event } of it.kv.dump()) {
        if (event.data.kind !== 'stored') throw new Error('a dump only stores')
        const { parentHash, blocks } = event.data
        if (parentHash !== null) expect(known.get(workerId)).toContain(parentHash)
        for (const block of blocks) known.get(workerId)!.add(block.blockHash)
        blockCount += blocks.length
      }
      expect(blockCount).toBe(11)
    })

    it('removed blocks and blocks behind a hole are not dumped', () => {
      const it = fresh()
      it.apply(
        stored(a, [1n, 2n, 3n]),
        removed(a, [[1n, 2n]]),
        stored(a, [5n, 6n], { tier: 'disk' }),
        removed(a, [[5n]], { tier: 'disk' }),
      )
      const copy = fresh()
      expect(copy.kv.restore(it.kv.dump())).toEqual(['ok', 'ok'])
      expect(copy.find([1n, 2n, 3n])).toEqual({ '1.0': [1, 0, 0, 0] })
      expect(copy.kv.stats().tiers.disk.heldBlocks).toBe(1)
    })

    it('a dump carries every tier and cache owners, and restores to the same answers', () => {
      const it = fresh()
      const owner = cacheOwner(1)
      it.apply(
        stored(a, [1n]),
        stored(a, [2n], { after: [1n], tier: 'host_pinned' }),
        stored(a, [3n], { after: [1n, 2n], tier: 'disk', owner }),
        stored(b, [1n, 2n], { tier: 'external' }),
      )
      const copy = fresh()
      copy.apply(stored([5n, 0], [1n, 2n])) // knowledge of before is replaced
      copy.kv.restore(it.kv.dump())
      for (const kv of [it.kv, copy.kv]) kv.projectCacheOwners([[owner, { workerId: 1n, dpRank: 0 }]])
      expect(copy.find([1n, 2n, 3n])).toEqual({ '1.0': [1, 1, 1, 0], '2.0': [0, 0, 0, 2] })
      expect(copy.find([1n, 2n, 3n])).toEqual(it.find([1n, 2n, 3n]))
      const ownersEvent = [...it.kv.dump()].find((event) => event.stateSource)!
      expect([ownersEvent.workerId, ownersEvent.event.dpRank, ownersEvent.residencyDomain]).toEqual([
        0n,
        0,
        'cache_owner',
      ])
    })

    it('applying the same events again, or adding and removing, gives the same dump', () => {
      const it = fresh()
      const events = [stored(a, [1n, 2n]), stored(a, [3n], { after: [1n, 2n], tier: 'disk' }), stored(b, [1n])]
      it.apply(...events)
      const dump = [...it.kv.dump()]
      it.apply(...events)
      it.apply(stored(a, [8n], { after: [1n] }), removed(a, [[1n, 8n]]))
      expect([...it.kv.dump()]).toEqual(dump)
    })
  })

  describe(`${name}: decisions`, () => {
    it('approximate: a decision matches until its time has ended', () => {
      const it = fresh({ approximateTtlMs: 1000 })
      expect(it.decide(a, [1n, 2n, 3n], 50)).toBe('ok')
      expect(it.find([1n, 2n, 9n])).toEqual({ '1.0': [2, 0, 0, 0] })
      expect(it.kv.nextExpiryMs).toBe(1100)
      it.kv.expire(1100)
      expect(it.find([1n, 2n])).toEqual({})
      expect(it.kv.stats().predicted).toEqual({ predictedBlocks: 0, expiredBlocks: 3, evictedBlocks: 0 })
    })

    it('approximate: blocks that an engine stored never expire', () => {
      const it = fresh({ approximateTtlMs: 1000 })
      it.apply(stored(a, [1n, 2n]))
      it.decide(a, [1n, 2n, 3n])
      it.kv.expire(1e9)
      expect(it.find([1n, 2n, 3n])).toEqual({ '1.0': [2, 0, 0, 0] })
    })

    it('approximate: removing a worker or a rank drops its timers and keeps the others', () => {
      const it = fresh({ approximateTtlMs: 1000 })
      const a1: Rank = [1n, 1]
      for (const rank of [a, a1, b]) it.decide(rank, [1n, 2n])
      it.kv.resetRank(it.ranks.find(...a1)!)
      expect(it.kv.stats().predicted!.predictedBlocks).toBe(4)
      it.kv.removeWorker(1n)
      expect(it.kv.stats().predicted!.predictedBlocks).toBe(2)
      expect(it.find([1n, 2n])).toEqual({ '2.0': [2, 0, 0, 0] })
    })

    it('with events and no predictions a decision is ignored', () => {
      const it = fresh()
      expect(it.decide(a, [1n, 2n])).toBe('ignored')
      expect([it.find([1n, 2n]), it.kv.nextExpiryMs, it.kv.expire(1e9)]).toEqual([{}, undefined, 0])
    })

    it('predicted: each rank has the greater of what is known and what is predicted', () => {
      const it = side()
      it.apply(stored(a, [1n, 2n, 3n]), stored(b, [1n]))
      it.decide(a, [1n, 2n])
      it.decide(b, [1n, 2n])
      expect(it.find([1n, 2n, 3n])).toEqual({ '1.0': [3, 0, 0, 0], '2.0': [2, 0, 0, 0] })
      expect(it.kv.lastMatchedHash(1)).toBe(nameOf([1n]))
      it.kv.expire(1000)
      expect(it.find([1n, 2n, 3n])).toEqual({ '1.0': [3, 0, 0, 0], '2.0': [1, 0, 0, 0] })
    })

    it('predicted: a rank known from predictions only scores, but does not anchor the lower tiers', () => {
      const it = side()
      it.apply(stored(a, [2n], { after: [1n], tier: 'host_pinned' }))
      it.decide(a, [1n])
      expect(it.find([1n, 2n])).toEqual({ '1.0': [1, 0, 0, 0] })
      expect(it.kv.lastMatchedHash(0)).toBeUndefined()
    })

    it('predicted: predictions are not dumped, and events do not end them', () => {
      const it = side()
      it.decide(a, [1n, 2n])
      it.apply(removed(a, [[1n, 2n]]))
      expect([...it.kv.dump()]).toEqual([])
      expect(it.find([1n, 2n])).toEqual({ '1.0': [2, 0, 0, 0] })
    })

    it('predictions beside an index need engine events', () => {
      expect(() => fresh({ approximateTtlMs: 1, predicted: { index: newIndex(), ttlMs: 1 } })).toThrow(
        /need engine events/,
      )
    })

    it('where caches do not matter nothing is kept', () => {
      const it = fresh({ isEnabled: false, approximateTtlMs: 1000 })
      expect(it.apply(stored(a, [1n]))).toEqual([])
      expect(it.decide(a, [1n])).toBe('ignored')
      const batch = new TieredBatch()
      batch.device.stored(0, undefined, toHashColumn([1n]), toHashColumn([1n]))
      it.kv.apply(batch)
      expect([it.find([1n]), it.kv.stats().device.heldBlocks]).toEqual([{}, 0])
    })
  })

  // Goal: whatever was stored, moved, removed and cleared on every tier, a dump builds an index that gives the same answers.
  // Method: random events of four owners; then dump, restore, and compare every prompt of a small alphabet.
  it(`${name}: dump and restore give the same answers after any events`, () => {
    const owner = cacheOwner(1)
    fc.assert(
      fc.property(
        fc.array(anyEvent(owner), { maxLength: 25 }),
        fc.array(anyPrompt, { minLength: 3, maxLength: 6 }),
        (events, prompts) => {
          const it = fresh()
          const copy = fresh()
          for (const { ranks } of [it, copy]) for (const rank of [a, b]) ranks.intern(...rank) // the fleet is known to both
          it.apply(...events)
          const outcomes = copy.kv.restore(it.kv.dump())
          expect(outcomes.every((outcome) => outcome === 'ok')).toBe(true)
          for (const kv of [it.kv, copy.kv]) kv.projectCacheOwners([[owner, { workerId: 1n, dpRank: 0 }]])
          for (const prompt of prompts) expect(copy.find(prompt)).toEqual(it.find(prompt))
          expect(asFacts(copy.kv.dump())).toEqual(asFacts(it.kv.dump()))
        },
      ),
      { numRuns: 100 },
    )
  })
}

const anyPrompt = fc.array(fc.bigInt(1n, 3n), { minLength: 1, maxLength: 5 })
const anyRank: fc.Arbitrary<Rank> = fc.constantFrom<Rank>(a, [1n, 1], b)

function anyEvent(owner: CacheOwnerId): fc.Arbitrary<RouterEvent> {
  const where = fc.record({
    tier: fc.constantFrom<StorageTier>('device', 'device', 'host_pinned', 'disk', 'external'),
    after: fc.array(fc.bigInt(1n, 3n), { maxLength: 3 }),
    isOwners: fc.boolean(),
  })
  return fc.tuple(anyRank, where, anyPrompt, fc.nat(9)).map(([rank, { tier, after, isOwners }, locals, dice]) => {
    const place: Where = { tier, after, ...(isOwners && tier !== 'device' ? { owner } : {}) }
    if (dice === 0) return cleared(rank, place)
    return dice < 7
      ? stored(rank, locals, place)
      : removed(
          rank,
          [locals, after].filter((it) => it.length > 0),
          place,
        )
  })
}

/** A dump as a sorted list of single facts: how blocks are grouped into events may differ. */
function asFacts(events: Iterable<RouterEvent>): string[] {
  const facts: string[] = []
  for (const { workerId, storageTier, event, stateSource } of events) {
    if (event.data.kind !== 'stored') continue
    let parent = event.data.parentHash
    for (const { blockHash, tokensHash } of event.data.blocks) {
      facts.push(
        [workerId, event.dpRank, storageTier, stateSource !== undefined, parent, tokensHash, blockHash].join(' '),
      )
      parent = blockHash
    }
  }
  return facts.sort()
}
