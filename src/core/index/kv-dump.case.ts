/** Dump and restore of a `KvIndex`, whatever exact index lies inside. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { CacheOwnerId, RouterEvent, StorageTier } from '../protocol/index.js'
import { cacheOwner } from './cache-owner.case.js'
import { a, b, cleared, newKv, type Rank, removed, stored, type Where } from './kv-drive.case.js'
import type { PrefixIndex } from './prefix-index.js'

export function kvDumpConformance(name: string, newIndex: () => PrefixIndex): void {
  const fresh = () => newKv(newIndex)

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
      { numRuns: 60 },
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
