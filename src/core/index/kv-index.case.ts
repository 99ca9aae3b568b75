/** What a `KvIndex` must do whatever exact index lies inside. `newIndex` makes an empty one. */
import { describe, expect, it } from 'vitest'
import { lowerTiers, newMatchColumns, type RouterEvent, toHashColumn } from '../protocol/index.js'
import { cacheOwner } from './cache-owner.case.js'
import { a, b, cleared, nameOf, namesOf, newKv, type Rank, removed, stored } from './kv-drive.case.js'
import type { KvIndexOptions } from './kv-index.js'
import type { PrefixIndex } from './prefix-index.js'
import { TieredBatch } from './tiered-batch.js'

export function kvIndexConformance(name: string, newIndex: () => PrefixIndex): void {
  const fresh = (options: Partial<KvIndexOptions> = {}) => newKv(newIndex, options)
  const side = (ttlMs = 1000) => fresh({ predicted: { index: newIndex(), ttlMs }, keepLastHashes: true })

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

    it('credits a rank with nothing while it is withheld, and with everything afterwards', () => {
      const it = fresh()
      it.apply(stored(a, [1n, 2n]), stored(a, [3n], { after: [1n, 2n], tier: 'host_pinned' }), stored(b, [1n]))
      const rank = it.ranks.find(1n, 0)!
      it.kv.setWithheld(rank, true)
      expect(it.find([1n, 2n, 3n])).toEqual({ '2.0': [1, 0, 0, 0] })
      it.kv.setWithheld(rank, false)
      expect(it.find([1n, 2n, 3n])).toEqual({ '1.0': [2, 1, 0, 0], '2.0': [1, 0, 0, 0] })
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
      const asked = fresh({ keepLastHashes: true })
      for (const kv of [it, asked]) {
        kv.apply(stored(a, [1n, 2n, 3n]))
        kv.find([1n, 2n, 8n])
      }
      expect([it.kv.lastMatchedHash(0), asked.kv.lastMatchedHash(0)]).toEqual([undefined, nameOf([1n, 2n])])
      it.apply(stored(b, [1n], { tier: 'disk' })) // now there is a tier to walk, and it starts from there
      it.find([1n, 2n, 8n])
      expect([it.kv.lastMatchedHash(0), it.kv.lastMatchedHash(1)]).toEqual([nameOf([1n, 2n]), undefined])
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
}
