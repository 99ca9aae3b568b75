/** What a rank's engine calls a prompt's blocks, whatever exact index lies inside. */
import { describe, expect, it } from 'vitest'
import { toBigInts, toHashColumn } from '../protocol/index.js'
import { cacheOwner } from './cache-owner.case.js'
import { a, b, nameOf, namesOf, newKv, type Rank, removed, stored } from './kv-drive.case.js'
import type { KvIndexOptions } from './kv-index.js'
import type { PrefixIndex } from './prefix-index.js'

export function kvChainConformance(name: string, newIndex: () => PrefixIndex): void {
  const fresh = (options: Partial<KvIndexOptions> = {}) => {
    const it = newKv(newIndex, options)
    return { ...it, chain: (rank: Rank, prompt: readonly bigint[]) => chainOf(it, rank, prompt) }
  }

  describe(`${name}: the names of a prefix`, () => {
    it('are the device’s, as deep as the rank holds the prompt', () => {
      const it = fresh()
      it.apply(stored(a, [11n, 12n]), stored(b, [11n, 12n, 13n]))
      const prompt = [11n, 12n, 13n, 14n]
      expect(it.chain(a, prompt)).toEqual(namesOf([], [11n, 12n]))
      expect(it.chain(b, prompt)).toEqual(namesOf([], [11n, 12n, 13n]))
      expect(it.chain(b, [9n])).toEqual([])
    })

    it('go on in pinned host memory from where the device ends', () => {
      const it = fresh()
      it.apply(stored(a, [11n]), stored(a, [12n], { after: [11n], tier: 'host_pinned' }))
      expect(it.chain(a, [11n, 12n, 13n])).toEqual(namesOf([], [11n, 12n]))
    })

    it('are known for a rank that holds blocks only in host memory', () => {
      const it = fresh()
      it.apply(stored(a, [11n, 12n], { tier: 'host_pinned' }))
      expect(it.chain(a, [11n, 12n, 13n])).toEqual(namesOf([], [11n, 12n]))
    })

    it('end at the shared prefix for a rank whose next block host memory knows by another name', () => {
      const it = fresh()
      it.apply(stored(a, [11n]), stored(b, [11n]), stored(a, [12n], { after: [11n], tier: 'host_pinned' }))
      it.apply(renamed(stored(b, [12n], { after: [11n], tier: 'host_pinned' }), 202n)) // the first mapping wins
      expect(it.chain(a, [11n, 12n])).toEqual(namesOf([], [11n, 12n]))
      expect(it.chain(b, [11n, 12n])).toEqual(namesOf([], [11n]))
    })

    it('are each rank’s own where engines name one block differently', () => {
      const it = fresh()
      it.apply(stored(a, [11n, 12n]), stored(b, [11n]))
      it.apply(renamed(stored(b, [12n], { after: [11n] }), 202n))
      expect(it.chain(a, [11n, 12n])).toEqual(namesOf([], [11n, 12n]))
      expect(it.chain(b, [11n, 12n])).toEqual([nameOf([11n]), 202n])
    })

    it('stop at a hole, and do not go on in tiers below host memory', () => {
      const it = fresh()
      it.apply(stored(a, [1n, 2n, 3n]), removed(a, [[1n, 2n]]))
      it.apply(stored(b, [1n]), stored(b, [2n], { after: [1n], tier: 'disk' }))
      expect(it.chain(a, [1n, 2n, 3n])).toEqual(namesOf([], [1n]))
      expect(it.chain(b, [1n, 2n])).toEqual(namesOf([], [1n]))
    })

    it('cross to the blocks of the cache owner that counts for the rank, and no longer than it does', () => {
      const it = fresh()
      const owner = cacheOwner(4)
      it.apply(stored(a, [1n]), stored(a, [2n], { after: [1n], tier: 'host_pinned', owner }))
      expect(it.chain(a, [1n, 2n])).toEqual(namesOf([], [1n]))
      it.kv.projectCacheOwners([[owner, { workerId: a[0], dpRank: a[1] }]])
      expect(it.chain(a, [1n, 2n])).toEqual(namesOf([], [1n, 2n]))
      it.kv.projectCacheOwners([])
      expect(it.chain(a, [1n, 2n])).toEqual(namesOf([], [1n]))
    })

    it('leave out predictions, which no engine has named', () => {
      const it = fresh({ predicted: { index: newIndex(), ttlMs: 1000 } })
      it.apply(stored(a, [1n]))
      it.decide(a, [1n, 2n])
      it.decide(b, [1n, 2n])
      expect(it.find([1n, 2n])).toEqual({ '1.0': [2, 0, 0, 0], '2.0': [2, 0, 0, 0] })
      expect([it.chain(a, [1n, 2n]), it.chain(b, [1n, 2n])]).toEqual([namesOf([], [1n]), []])
    })

    it('are unknown without engine events, while events are in doubt, and for ranks that nobody heard of', () => {
      const approximate = fresh({ approximateTtlMs: 1000 })
      approximate.decide(a, [1n, 2n])
      expect(approximate.chain(a, [1n, 2n])).toEqual([])
      const it = fresh()
      it.apply(stored(a, [1n]))
      it.kv.setWithheld(it.ranks.find(...a)!, true)
      expect(it.chain(a, [1n])).toEqual([])
      expect(it.kv.namedBlocks(77)).toBe(0)
      expect(it.kv.namedChain(77, toHashColumn([1n]), 1)).toHaveLength(0)
    })
  })
}

/** The names, after a lookup whose own count of them must be the same. */
export function chainOf(it: ReturnType<typeof newKv>, rank: Rank, prompt: readonly bigint[]): bigint[] {
  it.find(prompt)
  const number = it.ranks.find(...rank)!
  const names = toBigInts(it.kv.namedChain(number, toHashColumn(prompt), prompt.length))
  expect(it.kv.namedBlocks(number)).toBe(names.length)
  return names
}

function renamed(event: ReturnType<typeof stored>, blockHash: bigint): ReturnType<typeof stored> {
  const { data } = event.event
  if (data.kind !== 'stored') throw new Error('only stores have names to change')
  const blocks = data.blocks.map((block) => ({ ...block, blockHash }))
  return { ...event, event: { ...event.event, data: { ...data, blocks } } }
}
