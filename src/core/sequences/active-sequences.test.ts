import { describe, expect, it } from 'vitest'
import { RankTable, toHashColumn } from '../protocol/index.js'
import { ActiveSequences } from './active-sequences.js'
import { newLoadColumns } from './load-columns.js'
import { listPotentialLoads } from './potential-loads.js'
import { trackerOf } from './tracker.case.js'

const seconds = 1000

describe('blocks', () => {
  it('count once per rank until the last reference drops', () => {
    const { sequences, book } = trackerOf(2)
    book('r1', 0, [1, 2, 3])
    book('r2', 0, [1, 2, 3])
    book('r3', 1, [1, 2])
    expect([sequences.activeBlocks(0), sequences.activeBlocks(1)]).toEqual([3, 2])
    sequences.free('r1', 0)
    expect(sequences.activeBlocks(0)).toBe(3)
    sequences.free('r2', 0)
    expect([sequences.activeBlocks(0), sequences.activeBlocks(1)]).toEqual([0, 2])
  })

  it('of a longer prompt add only what the shorter one does not hold', () => {
    const { sequences, book, potential } = trackerOf(1)
    book('r1', 0, [1, 2])
    book('r2', 0, [1, 2, 3])
    expect(sequences.activeBlocks(0)).toBe(3)
    sequences.free('r1', 0)
    expect([sequences.activeBlocks(0), potential([1, 2, 3])]).toEqual([3, [3]])
    sequences.free('r2', 0)
    expect([sequences.activeBlocks(0), potential([1, 2, 3])]).toEqual([0, [3]])
  })

  it('appear with the first touch and vanish with the last remove', () => {
    const { sequences, book, potential } = trackerOf(1)
    const seen: number[][] = []
    const look = () => seen.push([sequences.activeBlocks(0), potential([1, 2, 3])[0]!])
    book('r1', 0, [1, 2])
    look()
    book('r2', 0, [1, 2, 3])
    look()
    sequences.free('r2', 0)
    look()
    sequences.free('r1', 0)
    look()
    expect(seen).toEqual([
      [2, 3],
      [3, 3],
      [2, 3],
      [0, 3],
    ])
  })

  it('weigh less by a fraction, which shared blocks keep until their last reference drops', () => {
    const { sequences, book } = trackerOf(1)
    const seen: number[] = []
    const look = () => seen.push(sequences.activeBlocks(0))
    book('r1', 0, [1, 2, 3])
    look()
    sequences.addOutputBlock('r1', 0, 0.5)
    look()
    book('r2', 0, [1, 2])
    look()
    sequences.addOutputBlock('r1', 0, 0)
    look()
    sequences.free('r1', 0)
    look() // 1 and 2 are held by r2 alone and still weigh a half
    sequences.free('r2', 0)
    look()
    book('r3', 0, [1, 2, 3])
    look() // a fraction does not outlive the block
    expect(seen).toEqual([3, 2, 2, 1, 1, 0, 3])
  })

  it('keep different fractions apart when the prompt that cut them is gone, with one holder and with two', () => {
    for (const others of [[], ['s1']]) {
      const { sequences, book } = trackerOf(2)
      for (const id of others) book(id, 1, [1, 2, 3])
      book('r1', 0, [1, 2, 3])
      sequences.addOutputBlock('r1', 0, 0.5)
      book('r2', 0, [1, 2])
      sequences.addOutputBlock('r1', 0, 0) // 1 and 2 stay at a half, 3 and the outputs weigh nothing
      sequences.free('r2', 0)
      expect(sequences.activeBlocks(0)).toBe(1)
      sequences.free('r1', 0)
      book('r3', 0, [9])
      sequences.addOutputBlock('r3', 0, 0) // would show what an earlier fraction left behind
      expect(sequences.activeBlocks(0)).toBe(0)
    }
  })

  it('that two requests of one rank share keep their weight, whatever other ranks hold', () => {
    const { sequences, book } = trackerOf(2)
    book('s1', 1, [1])
    book('r1', 0, [1])
    book('r2', 0, [1])
    sequences.addOutputBlock('r1', 0, 0)
    expect([sequences.activeBlocks(0), sequences.activeBlocks(1)]).toEqual([1, 1])
  })

  it('of output count in full until a fraction is given, and never match a prompt', () => {
    const { sequences, book, potential } = trackerOf(1)
    book('r1', 0, [1])
    sequences.addOutputBlock('r1', 0)
    sequences.addOutputBlock('r1', 0)
    expect([sequences.activeBlocks(0), potential([1, 2, 3])]).toEqual([3, [5]])
    sequences.addOutputBlock('r1', 0, 0.25) // four blocks at a quarter
    expect(sequences.activeBlocks(0)).toBe(1)
    sequences.addOutputBlock('r1', 0) // one more in full
    expect(sequences.activeBlocks(0)).toBe(2)
    sequences.free('r1', 0)
    expect(sequences.activeBlocks(0)).toBe(0)
  })

  it('round half up, also where a half is a sum of inexact fractions', () => {
    const { sequences, book } = trackerOf(1)
    book('r1', 0, [1, 2, 3, 4])
    sequences.addOutputBlock('r1', 0, 0.7)
    expect(sequences.activeBlocks(0)).toBe(4) // 5 x 0.7 = 3.5
    sequences.addOutputBlock('r1', 0, 0.75)
    expect(sequences.activeBlocks(0)).toBe(5) // 6 x 0.75 = 4.5
  })

  it('of requests without a sequence, or with an empty one, are none', () => {
    const { sequences, book } = trackerOf(1)
    book('r1', 0, undefined, [10])
    book('r2', 0, [])
    expect([sequences.activeBlocks(0), sequences.activeRequests(0), sequences.activeTokens(0, 0)]).toEqual([0, 2, 10])
    expect([sequences.free('r1', 0), sequences.free('r2', 0), sequences.requestCount]).toEqual([true, true, 0])
  })
})

describe('what a query would find', () => {
  it('is a prefix walk, not a set: [1,2,4,5] held and [1,2,3,5] asked shares two', () => {
    const { book, potential } = trackerOf(2)
    book('r1', 0, [1, 2, 4, 5])
    expect(potential([1, 2, 3, 5])).toEqual([6, 4])
    expect(potential([])).toEqual([4, 0])
  })

  it('keeps repeated tokens apart by their place: 7,7,7 and 7,7,8', () => {
    // Chained hashes: the third block of either prompt differs though its tokens may repeat.
    const { sequences, book, potential } = trackerOf(2)
    book('a', 0, [7, 77, 777])
    book('b', 0, [7, 77, 778])
    expect([sequences.activeBlocks(0), potential([7, 77, 778])]).toEqual([4, [4, 3]])
    sequences.free('b', 0)
    expect(potential([7, 77, 778])).toEqual([4, 3])
  })

  it('never matches across LoRA adapters, whose hashes differ', () => {
    const { book, potential } = trackerOf(1)
    book('base', 0, [1, 2])
    expect(potential([101, 102])).toEqual([4])
  })

  it('follows chains that are extended, branch across workers and are trimmed', () => {
    const { sequences, book, potential } = trackerOf(3)
    book('a', 0, [1, 2])
    book('b', 1, [1, 2, 3, 4])
    book('c', 2, [1, 2, 9])
    book('d', 0, [1, 2, 3, 5])
    expect(potential([1, 2, 3, 4])).toEqual([4 + 1, 4 + 0, 3 + 2])
    sequences.free('d', 0)
    expect(potential([1, 2, 3, 4])).toEqual([2 + 2, 4, 5])
    sequences.free('b', 0)
    expect(potential([1, 2, 3, 4])).toEqual([4, 4, 5])
    book('e', 1, [1, 2, 3, 4])
    expect(potential([1, 2, 3, 4])).toEqual([4, 4, 5])
  })

  it('is isolated between the ranks of one worker', () => {
    const ranks = new RankTable()
    const [first, second] = [ranks.intern(1n, 0), ranks.intern(1n, 1)]
    const sequences = new ActiveSequences({ ranks })
    sequences.track(second, 0)
    sequences.book({ requestId: 'r', rank: first, sequenceHashes: toHashColumn([1n, 2n]) }, 0)
    const loads = newLoadColumns()
    sequences.fillLoads(loads, 0, toHashColumn([1n, 2n]))
    expect([...loads.decodeBlocks.subarray(0, 2)]).toEqual([2, 2])
    expect([sequences.activeBlocks(first), sequences.activeBlocks(second)]).toEqual([2, 0])
  })

  it('reads as a list of exactly the tracked ranks, with the prompt tokens that are not cached', () => {
    const { sequences, ranks, book } = trackerOf(2)
    ranks.intern(9n, 0) // known to the fleet, not tracked here
    book('r1', 1, [1, 2, 3], [64])
    const loads = newLoadColumns()
    sequences.fillLoads(loads, 0, toHashColumn([1n, 2n]))
    const list = (trackPrefillTokens: boolean) =>
      listPotentialLoads(ranks, loads, { promptTokens: 40, trackPrefillTokens, cachedTokens: Float64Array.of(16, 50) })
    expect(list(true)).toEqual([
      { workerId: 1n, dpRank: 0, potentialPrefillTokens: 24, potentialDecodeBlocks: 2, activeRequests: 0 },
      { workerId: 2n, dpRank: 0, potentialPrefillTokens: 64, potentialDecodeBlocks: 3, activeRequests: 1 },
    ])
    expect(list(false).map((it) => it.potentialPrefillTokens)).toEqual([0, 64])
  })

  it('sees one instant on every rank', () => {
    const { sequences, book } = trackerOf(2)
    book('a', 0, [1], [100, 10 * seconds], 0)
    book('b', 1, [1], [100, 10 * seconds], 5 * seconds)
    const loads = newLoadColumns()
    sequences.fillLoads(loads, 6 * seconds)
    expect([...loads.prefillTokens.subarray(0, 2)]).toEqual([40, 90])
  })
})

describe('prefill tokens', () => {
  it('leave when the prefill is marked, and blocks stay', () => {
    const { sequences, book } = trackerOf(1)
    book('r1', 0, [1, 2, 3], [12])
    expect(sequences.activeTokens(0, 0)).toBe(12)
    sequences.markPrefillCompleted('r1', 0)
    sequences.markPrefillCompleted('r1', 0)
    expect([sequences.activeTokens(0, 0), sequences.activeBlocks(0)]).toEqual([0, 3])
  })

  it('are not counted for a request that does not want them tracked', () => {
    const { sequences } = trackerOf(1)
    const hint = { tokens: 12 }
    sequences.book({ requestId: 'r1', rank: 0, trackPrefillTokens: false, prefillLoadHint: hint }, 0)
    expect(sequences.activeTokens(0, 0)).toBe(0)
  })

  it('survive marks and frees in any order, and repeats of both', () => {
    const { sequences, book } = trackerOf(1)
    for (const id of ['a', 'b', 'c']) book(id, 0, [1], [10])
    sequences.markPrefillCompleted('b', 0)
    sequences.free('b', 0)
    sequences.free('b', 0)
    expect(sequences.activeTokens(0, 0)).toBe(20)
    sequences.free('a', 0)
    sequences.markPrefillCompleted('c', 0)
    sequences.markPrefillCompleted('c', 0)
    expect([sequences.activeTokens(0, 0), sequences.requestCount]).toEqual([0, 1])
  })
})

describe('a request', () => {
  it('is booked once, wherever: the second booking is refused and changes nothing', () => {
    const { sequences, reports, sent, book } = trackerOf(2)
    book('r1', 0, [1, 2], [8])
    expect(() => book('r1', 1, [1, 2, 3], [8])).toThrow(
      expect.objectContaining({
        code: 'WR_DUPLICATE_REQUEST',
        details: { requestId: 'r1', worker: { workerId: 1n, dpRank: 0 } },
      }),
    )
    expect([sequences.activeBlocks(0), sequences.activeBlocks(1), sequences.requestCount]).toEqual([2, 0, 1])
    expect([reports.length, sent.length]).toEqual([1, 1])
  })

  it('that is unknown can be freed without effect, and not be marked or grown', () => {
    const { sequences, reports } = trackerOf(1)
    expect(sequences.free('nobody', 0)).toBe(false)
    const notFound = expect.objectContaining({ code: 'WR_REQUEST_NOT_FOUND' })
    expect(() => sequences.markPrefillCompleted('nobody', 0)).toThrow(notFound)
    expect(() => sequences.addOutputBlock('nobody', 0)).toThrow(notFound)
    expect(reports).toEqual([])
  })

  it('is freed on the named rank only, when asked so', () => {
    const { sequences, reports, book } = trackerOf(2)
    book('r1', 0, [1])
    expect(sequences.freeIfOn('r1', 1, 0)).toBe(false)
    expect(sequences.freeIfOn('r1', 0, 0)).toBe(true)
    expect(sequences.freeIfOn('r1', 0, 0)).toBe(false)
    expect(reports.at(-1)).toEqual([0, 0, 0, true]) // told after the booking is gone
  })

  it('on an unknown rank is tracked lazily, or refused where that is asked for', () => {
    const { sequences, ranks } = trackerOf(1)
    const rank = ranks.intern(7n, 3)
    expect(() => sequences.bookIfTracked({ requestId: 'r', rank }, 0)).toThrow(
      expect.objectContaining({ code: 'WR_WORKER_NOT_FOUND' }),
    )
    sequences.book({ requestId: 'r', rank }, 0)
    expect([sequences.isTracked(rank), sequences.rankOf('r')]).toEqual([true, rank])
    expect(() => sequences.book({ requestId: 's', rank: 99 }, 0)).toThrow(
      expect.objectContaining({ code: 'WR_WORKER_NOT_FOUND' }),
    )
  })

  it('counts for its LoRA adapter while it lives', () => {
    const { sequences } = trackerOf(1)
    sequences.book({ requestId: 'a', rank: 0, loraName: 'sql' }, 0)
    sequences.book({ requestId: 'b', rank: 0, loraName: 'sql' }, 0)
    sequences.book({ requestId: 'c', rank: 0 }, 0)
    expect(sequences.activeLoraCounts()).toEqual(new Map([['sql', 2]]))
    sequences.free('a', 0)
    sequences.free('b', 0)
    expect(sequences.activeLoraCounts().size).toBe(0)
    sequences.book({ requestId: 'a', rank: 0 }, 0) // the id again, without an adapter
    expect(sequences.activeLoraCounts().size).toBe(0)
  })

  it('keeps what it expects to generate', () => {
    const { sequences } = trackerOf(1)
    sequences.book({ requestId: 'a', rank: 0, expectedOutputTokens: 128 }, 0)
    sequences.book({ requestId: 'b', rank: 0 }, 0)
    expect(['a', 'b', 'c'].map((id) => sequences.expectedOutputTokens(id))).toEqual([128, undefined, undefined])
  })

  it('is refused when the tracker is full', () => {
    const { book } = trackerOf(1, { requestCountMax: 2, promptBlockCountMax: 5 })
    book('a', 0, [1, 2, 3])
    const full = expect.objectContaining({ code: 'WR_TRACKER_FULL' })
    expect(() => book('b', 0, [1, 2, 3])).toThrow(full)
    book('b', 0, [1, 2])
    expect(() => book('c', 0, [])).toThrow(full)
  })
})

describe('load reports', () => {
  it('follow every booking, mark and free with the state after it', () => {
    const { sequences, reports, book } = trackerOf(1)
    book('a', 0, [1, 2], [5])
    sequences.markPrefillCompleted('a', 0)
    sequences.free('a', 0)
    expect(reports).toEqual([
      [0, 2, 5, true],
      [0, 2, 0, true],
      [0, 0, 0, true],
    ])
  })

  it('stay at home for output blocks, and are left out for marks that change nothing', () => {
    const { sequences, reports, sent, book } = trackerOf(1)
    book('a', 0, [1], undefined)
    sequences.addOutputBlock('a', 0)
    sequences.markPrefillCompleted('a', 0)
    expect(reports.slice(1)).toEqual([[0, 2, 0, false]])
    expect(sent.map((event) => event.data.kind)).toEqual(['add_request', 'mark_prefill_completed'])
  })

  it('tell everybody of both where the rules of 1.2 are chosen', () => {
    const { sequences, reports, book } = trackerOf(1, { rules: { loadPublication: 'always' } })
    book('a', 0, [1], undefined)
    sequences.addOutputBlock('a', 0)
    sequences.markPrefillCompleted('a', 0)
    expect(reports.slice(1)).toEqual([
      [0, 2, 0, true],
      [0, 2, 0, true],
    ])
  })
})
