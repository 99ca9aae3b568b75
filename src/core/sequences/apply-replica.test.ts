import { describe, expect, it } from 'vitest'
import { toHashColumn, WarmrouteError } from '../protocol/index.js'
import type { ReplicaOptions } from './apply-replica.js'
import { applyReplicaEvents } from './apply-replica.js'
import type { SequenceEvent } from './sequence-event.js'
import { sequenceRulesOf } from './sequence-rules.js'
import type { Tracker } from './tracker.case.js'
import { trackerOf } from './tracker.case.js'

const peer = 2n

function add(requestId: string, workerId: number, hashes: number[] | undefined, tokens = 0): SequenceEvent {
  return {
    requestId,
    worker: { workerId: BigInt(workerId), dpRank: 0 },
    routerId: peer,
    data: {
      kind: 'add_request',
      tokenSequence: hashes && toHashColumn(hashes.map(BigInt)),
      trackPrefillTokens: true,
      prefillLoadHint: { tokens },
    },
  }
}

function end(kind: 'free' | 'mark_prefill_completed', requestId: string, workerId: number): SequenceEvent {
  return { requestId, worker: { workerId: BigInt(workerId), dpRank: 0 }, routerId: peer, data: { kind } }
}

function apply(tracker: Tracker, events: readonly SequenceEvent[], options: Partial<ReplicaOptions> = {}) {
  return applyReplicaEvents(tracker.sequences, events, 0, { routerId: 1n, ...options })
}

function seedRules(tracker: { readonly rules?: object } = {}) {
  return trackerOf(2, { rules: sequenceRulesOf('dynamo-1.2'), ...tracker })
}

describe('a tracker that hears of its peers', () => {
  it('books, marks and frees what they did, and tells nobody', () => {
    const tracker = trackerOf(2)
    const { sequences, reports, sent, potential } = tracker
    expect(apply(tracker, [add('a', 1, [1, 2, 3], 12)])).toMatchObject({ applied: 1, shouldWake: false })
    expect([sequences.activeBlocks(0), sequences.activeTokens(0, 0), potential([1, 2, 3])]).toEqual([3, 12, [3, 3]])
    expect(apply(tracker, [end('mark_prefill_completed', 'a', 1)])).toMatchObject({ applied: 1, shouldWake: true })
    expect([sequences.activeBlocks(0), sequences.activeTokens(0, 0)]).toEqual([3, 0])
    expect(apply(tracker, [end('free', 'a', 1)])).toMatchObject({ applied: 1, shouldWake: true })
    expect([sequences.requestCount, sequences.runCount, potential([1, 2, 3])]).toEqual([0, 0, [3, 3]])
    expect(sent).toEqual([])
    expect(reports).toEqual([
      [0, 3, 12, true],
      [0, 0, 0, true],
    ])
  })

  it('ignores its own events when they come back', () => {
    const tracker = trackerOf(2)
    const own = { ...add('a', 1, [1]), routerId: 1n }
    expect(apply(tracker, [own, own])).toEqual({ applied: 0, own: 2, ignored: 0, refused: 0, shouldWake: false })
    expect(tracker.sequences.requestCount).toBe(0)
  })

  it('tracks a rank that a peer names first, or drops the event where ranks must be known', () => {
    const tracker = trackerOf(1)
    expect(apply(tracker, [add('a', 9, [1, 2])], { registration: 'required' })).toMatchObject({ ignored: 1 })
    expect(tracker.ranks.find(9n, 0)).toBe(undefined)
    expect(apply(tracker, [add('a', 9, [1, 2])])).toMatchObject({ applied: 1 })
    expect(tracker.sequences.activeBlocks(tracker.ranks.find(9n, 0)!)).toBe(2)
    const intern = (): never => {
      throw new WarmrouteError('WR_TRACKER_FULL')
    }
    expect(apply(tracker, [add('b', 10, [1])], { intern })).toMatchObject({ refused: 1 })
    expect(tracker.ranks.find(10n, 0)).toBe(undefined)
  })

  it('keeps the first booking of an id, and a duplicate has no effect', () => {
    const tracker = trackerOf(2)
    const events = [add('a', 1, [1, 2], 8), add('a', 2, [1, 2, 3], 9), add('a', 1, [1, 2], 8)]
    expect(apply(tracker, events)).toMatchObject({ applied: 1, ignored: 2 })
    expect([tracker.sequences.activeBlocks(0), tracker.sequences.activeBlocks(1)]).toEqual([2, 0])
  })

  it('moves the booking to the latest worker under the rules of 1.2, and leaves no load behind', () => {
    const tracker = seedRules()
    expect(apply(tracker, [add('a', 1, [1, 2], 8), add('a', 2, [1, 2, 3], 9)])).toMatchObject({ applied: 2 })
    expect([tracker.sequences.activeBlocks(0), tracker.sequences.activeBlocks(1)]).toEqual([0, 3])
    expect([tracker.sequences.activeTokens(0, 0), tracker.sequences.activeTokens(1, 0)]).toEqual([0, 9])
    expect(apply(tracker, [add('a', 2, [9], 1)])).toMatchObject({ ignored: 1 })
    expect(tracker.sequences.activeBlocks(1)).toBe(3)
  })

  it('an event that no booking can be made of moves nothing and names no new rank', () => {
    const tracker = seedRules()
    apply(tracker, [add('a', 1, [1, 2], 10)])
    const { sequences } = tracker
    const before = [sequences.rankOf('a'), sequences.activeBlocks(0), sequences.ranks.size]
    expect(apply(tracker, [add('a', 2, [1, 2], Number.NaN), add('b', 99, [1], -1)]).refused).toBe(2)
    expect([sequences.rankOf('a'), sequences.activeBlocks(0), sequences.ranks.size]).toEqual(before)
  })

  it('refuses a mark or a free that names another worker than the booked one', () => {
    const tracker = trackerOf(2)
    apply(tracker, [add('a', 1, [1, 2], 8)])
    const stale = [end('mark_prefill_completed', 'a', 2), end('free', 'a', 2), end('free', 'a', 77)]
    expect(apply(tracker, stale)).toMatchObject({ applied: 0, ignored: 3, shouldWake: false })
    expect([tracker.sequences.activeBlocks(0), tracker.sequences.activeTokens(0, 0)]).toEqual([2, 8])
  })

  it('follows the booking wherever it is under the rules of 1.2', () => {
    const tracker = seedRules()
    apply(tracker, [add('a', 1, [1, 2], 8)])
    expect(apply(tracker, [end('mark_prefill_completed', 'a', 2), end('free', 'a', 2)])).toMatchObject({ applied: 2 })
    expect(tracker.sequences.requestCount).toBe(0)
  })

  it('applies a repeated free once, and ignores ids that it does not know', () => {
    const tracker = trackerOf(2)
    apply(tracker, [add('a', 1, [1])])
    expect(apply(tracker, [end('free', 'a', 1), end('free', 'a', 1), end('mark_prefill_completed', 'x', 1)])).toEqual({
      applied: 1,
      own: 0,
      ignored: 2,
      refused: 0,
      shouldWake: true,
    })
    expect(tracker.reports).toHaveLength(2)
  })

  it('reports each changed rank once per batch, with the last state', () => {
    const tracker = trackerOf(2)
    apply(tracker, [add('a', 1, [1]), add('b', 1, [1, 2]), add('c', 2, [5]), end('free', 'a', 1)])
    expect(tracker.reports).toEqual([
      [0, 2, 0, true],
      [1, 1, 0, true],
    ])
  })

  it('reports nothing for a batch of marks, unless the rules of 1.2 ask for it', () => {
    const marks = [end('mark_prefill_completed', 'a', 1)]
    const tracker = trackerOf(2)
    apply(tracker, [add('a', 1, [1], 5)])
    expect(apply(tracker, marks)).toMatchObject({ shouldWake: true })
    expect(tracker.reports).toHaveLength(1)
    const seed = seedRules()
    apply(seed, [add('a', 1, [1], 5)])
    apply(seed, marks)
    expect(seed.reports).toHaveLength(2)
  })

  it('accepts a mark that a worker sends about itself', () => {
    const tracker = trackerOf(1)
    tracker.book('a', 0, [1], [10])
    const mark: SequenceEvent = { ...end('mark_prefill_completed', 'a', 1), routerId: 1234n }
    expect(apply(tracker, [mark])).toMatchObject({ applied: 1 })
    expect(tracker.sequences.activeTokens(0, 0)).toBe(0)
  })

  it('counts what no booking can be made of, and goes on', () => {
    const tracker = trackerOf(1, { requestCountMax: 1 })
    const bad = add('bad', 1, [1], Number.NaN)
    expect(apply(tracker, [bad, add('a', 1, [1]), add('b', 1, [1]), end('free', 'a', 1)])).toEqual({
      applied: 2,
      own: 0,
      ignored: 0,
      refused: 2,
      shouldWake: true,
    })
    expect(tracker.sequences.requestCount).toBe(0)
  })
})

describe('two trackers', () => {
  function pair() {
    const left = trackerOf(3, { replica: undefined })
    const events: SequenceEvent[] = []
    const right = trackerOf(3, { replica: { routerId: peer, port: { publish: (event) => void events.push(event) } } })
    return { left, right, events }
  }

  it('converge on the same blocks and tokens, and either can free what the other booked', () => {
    const { left, right, events } = pair()
    right.book('a', 0, [1, 2, 3], [12])
    right.book('b', 1, [4, 5], [8])
    right.book('c', 2, [1, 2, 3, 4], [16])
    apply(left, events.splice(0))
    const state = ({ sequences }: Tracker) =>
      [0, 1, 2].map((rank) => [sequences.activeBlocks(rank), sequences.activeTokens(rank, 0)])
    expect(state(left)).toEqual([
      [3, 12],
      [2, 8],
      [4, 16],
    ])
    expect(state(left)).toEqual(state(right))
    expect(left.sequences.free('a', 0)).toBe(true)
    expect(right.sequences.free('b', 0)).toBe(true)
    apply(left, events.splice(0))
    expect([left.sequences.requestCount, right.sequences.requestCount]).toEqual([1, 2])
  })

  it('converge on tokens alone where blocks are not tracked', () => {
    const { left, right, events } = pair()
    right.book('a', 0, undefined, [12])
    right.book('b', 1, undefined, [8])
    right.sequences.markPrefillCompleted('b', 0)
    apply(left, events)
    expect([0, 1].map((rank) => left.sequences.activeTokens(rank, 0))).toEqual([12, 0])
    expect([0, 1].map((rank) => left.sequences.activeBlocks(rank))).toEqual([0, 0])
  })

  it('anchor decay at the time of arrival, each by its own clock', () => {
    const { left, right, events } = pair()
    right.book('a', 0, [1], [100, 10_000], 0)
    applyReplicaEvents(left.sequences, events, 4_000, { routerId: 1n })
    expect([right.sequences.activeTokens(0, 6_000), left.sequences.activeTokens(0, 6_000)]).toEqual([40, 80])
  })
})

it('an event keeps its hashes when the caller fills its column again', () => {
  const { sequences, sent } = trackerOf(1)
  const column = toHashColumn([1n, 2n, 3n])
  sequences.book({ requestId: 'a', rank: 0, sequenceHashes: column, blockCount: 2, loraName: 'sql' }, 0)
  column.fill(0)
  expect(sent).toEqual([
    {
      requestId: 'a',
      worker: { workerId: 1n, dpRank: 0 },
      routerId: 1n,
      loraName: 'sql',
      data: {
        kind: 'add_request',
        tokenSequence: toHashColumn([1n, 2n]),
        trackPrefillTokens: true,
        expectedOutputTokens: undefined,
        prefillLoadHint: undefined,
      },
    },
  ])
})
