import { describe, expect, it } from 'vitest'
import { RankTable, toHashColumn } from '../protocol/index.js'
import { ActiveSequences } from './active-sequences.js'
import { newLoadColumns } from './load-columns.js'
import { trackerOf } from './tracker.case.js'

const seconds = 1000

describe('expiry', () => {
  it('frees what is strictly older than five minutes, at most every thirty seconds', () => {
    const expired: string[] = []
    const { sequences, book } = trackerOf(2, { onExpired: (id) => void expired.push(id) })
    book('old', 0, [1, 2], [5])
    book('other', 1, [1])
    book('young', 0, [1, 2, 3], [7], 40 * seconds)
    expect(sequences.expire(300 * seconds)).toBe(0) // exactly five minutes old
    expect(sequences.expire(329 * seconds)).toBe(0) // checked 29 seconds ago
    expect(sequences.expire(331 * seconds)).toBe(2)
    expect(expired).toEqual(['old', 'other'])
    expect([sequences.activeBlocks(0), sequences.activeTokens(0, 331 * seconds)]).toEqual([3, 7])
    expect(sequences.forceExpire(0, 341 * seconds)).toBe(1)
    expect([sequences.requestCount, sequences.runCount]).toEqual([0, 0])
  })

  it('happens on booking, for the booked rank alone, and the id can be used again at once', () => {
    const { sequences, book, potential } = trackerOf(2)
    book('a', 0, [1, 2])
    book('b', 1, [1, 2])
    book('c', 0, [1, 9], undefined, 331 * seconds)
    expect([sequences.has('a'), sequences.has('b')]).toEqual([false, true])
    book('a', 0, [1, 2, 3], undefined, 331 * seconds)
    expect(potential([1, 2, 3])).toEqual([4, 3])
  })

  it('anchors the next prefill at the time of the sweep', () => {
    const { sequences, book } = trackerOf(1)
    book('old', 0, [1], [100, 10 * seconds])
    book('new', 0, [2], [60, 6 * seconds], 100 * seconds)
    expect(sequences.forceExpire(0, 301 * seconds)).toBe(1)
    expect([301, 304].map((at) => sequences.activeTokens(0, at * seconds))).toEqual([60, 30])
  })

  it('publishes load and tells no replica', () => {
    const { sequences, reports, sent, book } = trackerOf(1)
    book('a', 0, [1, 2], [5])
    sequences.expire(331 * seconds)
    expect(reports).toEqual([
      [0, 2, 5, true],
      [0, 0, 0, true],
    ])
    expect(sent).toHaveLength(1)
  })

  it('can have another duration, or none', () => {
    const { sequences: short, book } = trackerOf(1, { expiryMs: 1000, expiryCheckMs: 0 })
    book('a', 0, [1])
    expect([short.expire(1000), short.expire(1001)]).toEqual([0, 1])
    const { sequences: never, book: bookForever } = trackerOf(1, { expiryMs: Number.POSITIVE_INFINITY })
    bookForever('a', 0, [1])
    expect([never.expire(1e15), never.has('a')]).toEqual([0, true])
    for (const expiryMs of [0, -1, Number.NaN])
      expect(() => trackerOf(1, { expiryMs })).toThrow(expect.objectContaining({ code: 'WR_INVALID_ARGUMENT' }))
  })
})

describe('topology', () => {
  it('keeps the state of ranks that stay and empties those that go', () => {
    const { sequences, book, potential } = trackerOf(3)
    book('a', 0, [1, 2], [5])
    book('b', 1, [1, 2, 3])
    expect(sequences.reconcile([0, 2], 0)).toEqual({ added: [], removed: [1] })
    expect([sequences.has('b'), sequences.free('b', 0), sequences.requestCount]).toEqual([false, false, 1])
    expect(sequences.reconcile([0, 1, 2], 0)).toEqual({ added: [1], removed: [] })
    expect([sequences.activeBlocks(0), sequences.activeBlocks(1), sequences.activeTokens(0, 0)]).toEqual([2, 0, 5])
    expect(potential([1, 2, 3])).toEqual([3, 3, 3])
    expect(sequences.reconcile([0, 1, 2], 0)).toEqual({ added: [], removed: [] })
  })

  it('starts a rank once', () => {
    const { sequences, book } = trackerOf(1)
    book('a', 0, [1])
    expect([sequences.track(0, 0), sequences.activeBlocks(0)]).toEqual([false, 1])
  })

  it('forgets the bookings of a removed rank, prefill included, and reports nothing for them', () => {
    const { sequences, reports, sent, book } = trackerOf(1)
    book('a', 0, [1], [9])
    book('b', 0, [1, 2], [9])
    expect(sequences.untrack(0, 0)).toBe(2)
    expect(sequences.untrack(0, 0)).toBe(0)
    sequences.track(0, 0)
    expect([sequences.activeBlocks(0), sequences.activeTokens(0, 0), sequences.activeRequests(0)]).toEqual([0, 0, 0])
    expect([reports.length, sent.length, sequences.runCount]).toEqual([2, 2, 0])
  })

  it('gives a reused rank number nothing of its former owner', () => {
    const { sequences, ranks, book } = trackerOf(2)
    book('a', 1, [1, 2], [9, 100])
    sequences.untrack(1, 0)
    ranks.release(1)
    expect(ranks.intern(2n ** 63n + 5n, 7)).toBe(1)
    sequences.track(1, 50)
    expect([sequences.activeBlocks(1), sequences.activeTokens(1, 50), sequences.activeRequests(1)]).toEqual([0, 0, 0])
  })
})

describe('bad numbers', () => {
  const bad = [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
  const refused = expect.objectContaining({ code: 'WR_INVALID_ARGUMENT' })

  it.each([...bad, -1, 0.5])('%d is no number of prefill tokens', (tokens) => {
    const { sequences, book } = trackerOf(1)
    expect(() => book('a', 0, [1], [tokens])).toThrow(refused)
    expect([sequences.requestCount, sequences.activeBlocks(0)]).toEqual([0, 0])
  })

  it.each([...bad, -1])('%d is no duration, and no expected output', (value) => {
    const { sequences, book } = trackerOf(1)
    expect(() => book('a', 0, [1], [5, value])).toThrow(refused)
    expect(() => sequences.book({ requestId: 'a', rank: 0, expectedOutputTokens: value }, 0)).toThrow(refused)
    expect(sequences.requestCount).toBe(0)
  })

  it.each([...bad, -0.1, 1.1])('%d is no fraction', (fraction) => {
    const { sequences, book } = trackerOf(1)
    book('a', 0, [1])
    expect(() => sequences.addOutputBlock('a', 0, fraction)).toThrow(refused)
    expect(sequences.activeBlocks(0)).toBe(1)
  })

  it.each([...bad, -1, 3, 0.5])('%d is no count of two blocks', (blockCount) => {
    const { sequences } = trackerOf(1)
    const sequenceHashes = toHashColumn([1n, 2n])
    expect(() => sequences.book({ requestId: 'a', rank: 0, sequenceHashes, blockCount }, 0)).toThrow(refused)
    if (blockCount !== 0.5)
      expect(() => sequences.fillLoads(newLoadColumns(), 0, sequenceHashes, blockCount)).toThrow(refused)
  })

  it.each(bad)('%d is no time, and changes nothing', (nowMs) => {
    const { sequences, book } = trackerOf(1)
    book('a', 0, [1], [100, 10])
    expect(() => book('b', 0, [1], undefined, nowMs)).toThrow(refused)
    expect(() => sequences.markPrefillCompleted('a', nowMs)).toThrow(refused)
    expect(() => sequences.free('a', nowMs)).toThrow(refused)
    expect(() => sequences.expire(nowMs)).toThrow(refused)
    expect(() => sequences.untrack(0, nowMs)).toThrow(refused)
    expect([sequences.activeBlocks(0), sequences.activeTokens(0, 0)]).toEqual([1, 100])
    expect(sequences.activeTokens(0, Number.NaN)).toBe(100)
  })

  it('a rank that is no rank holds nothing', () => {
    const { sequences } = trackerOf(1)
    for (const rank of [-1, 5, 0.5, Number.NaN])
      expect([sequences.activeBlocks(rank), sequences.activeTokens(rank, 0), sequences.untrack(rank, 0)]).toEqual([
        0, 0, 0,
      ])
  })
})

it('tracks ten thousand workers with ids above 2^63', () => {
  const ranks = new RankTable()
  const sequences = new ActiveSequences({ ranks })
  const count = 10_000
  for (let worker = 0; worker < count; worker++) {
    const rank = ranks.intern(2n ** 63n + BigInt(worker), worker % 3)
    const sequenceHashes = toHashColumn([2n ** 64n - 1n, 2n ** 63n, BigInt(worker)])
    sequences.book({ requestId: `${worker}`, rank, sequenceHashes, prefillLoadHint: { tokens: 10 } }, 0)
  }
  const loads = newLoadColumns()
  sequences.fillLoads(loads, 0, toHashColumn([2n ** 64n - 1n, 2n ** 63n, 77n]))
  expect(loads.rankCount).toBe(count)
  const expected = Array.from({ length: count }, (_, worker) => (worker === 77 ? 3 : 4))
  expect([...loads.decodeBlocks.subarray(0, count)]).toEqual(expected)
  for (let worker = 0; worker < count; worker++) sequences.free(`${worker}`, 0)
  expect([sequences.requestCount, sequences.runCount]).toEqual([0, 0])
})
