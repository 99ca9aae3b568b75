import { describe, expect, it } from 'vitest'
import type { KvCacheEventData, RouterEvent } from '../../core/protocol/index.js'
import { newRouterEvent } from '../../core/protocol/index.js'
import { Permits } from './permits.js'
import { QueryRank, queryLimits } from './query-rank.js'
import type { WorkerReply } from './worker-query.js'

const owner = { workerId: 7n, dpRank: 0 }
const stored = (id: number): RouterEvent =>
  newRouterEvent(owner, BigInt(id), { kind: 'removed', blockHashes: [BigInt(id)] })
const cleared: KvCacheEventData = { kind: 'cleared' }
const clearOfAll = (id: number): RouterEvent => ({
  ...newRouterEvent(owner, BigInt(id), cleared),
  residencyDomain: 'missing',
})
const events = (ids: number[], lastEventId = ids.at(-1) ?? 0): WorkerReply => ({
  kind: 'events',
  events: ids.map(stored),
  lastEventId: BigInt(lastEventId),
})
const dump = (ids: number[], lastEventId: number): WorkerReply => ({
  kind: 'tree_dump',
  events: ids.map(stored),
  lastEventId: BigInt(lastEventId),
  resetScope: 'all',
})

function setUp(options: { isRecoverable?: boolean } = {}) {
  const log: string[] = []
  const switches = { admits: true, resets: true }
  const rank = new QueryRank(
    {
      apply: (list) => {
        if (switches.admits) log.push(`apply ${list.map((event) => event.event.eventId).join(' ')}`)
        return switches.admits
      },
      reset: () => {
        log.push('reset')
        return switches.resets
      },
      query: (start, ticket) => void log.push(`query ${start ?? 'all'} #${ticket}`),
    },
    { ...owner, isRecoverable: options.isRecoverable ?? true },
  )
  const take = () => log.splice(0).map((line) => line.replace(/ #.*/, ''))
  const ticket = () => Number(/#(\d+)$/.exec(log.findLast((line) => line.startsWith('query')) ?? '')?.[1])
  const answer = (reply: WorkerReply, now = 0) => rank.answer(ticket(), reply, now)
  const live = (...ids: number[]) => ids.forEach((id) => rank.live(stored(id), 0))
  return { rank, take, answer, live, ticket, switches }
}

/** Recovered up to id 5. */
function settled(options: Parameters<typeof setUp>[0] = {}) {
  const it = setUp(options)
  if (options.isRecoverable ?? true) {
    it.rank.activate(0)
    it.answer(dump([1, 2], 5))
  } else it.live(5)
  it.take()
  return it
}

describe('starting', () => {
  it('asks a recoverable source for everything, spread over a few milliseconds, and lets live events wait', () => {
    const { rank, take, answer, live } = setUp()
    rank.activate(0, 3)
    expect(take()).toEqual([])
    expect(rank.nextDeadline).toBe(3)
    rank.tick(3)
    live(6, 7)
    expect(rank.isCredited).toBe(false)
    answer(dump([1, 2], 5))
    expect(take()).toEqual(['query all', 'reset', 'apply 1 2', 'apply 6 7'])
    expect(rank).toMatchObject({ cursor: 7n, isCredited: true })
  })

  it('takes events of a source that only publishes as they come', () => {
    const { rank, take, live } = setUp({ isRecoverable: false })
    rank.activate(0)
    live(9, 10)
    expect(take()).toEqual(['apply 9', 'apply 10'])
  })
})

describe('live events', () => {
  it('applies the next, ignores the old', () => {
    const { take, live, rank } = settled()
    live(6, 6, 3, 7)
    expect(take()).toEqual(['apply 6', 'apply 7'])
    expect(rank.counters.stale).toBe(2)
  })

  it('resets before it asks for the whole tree when ids skip, and drains what waited', () => {
    const { take, live, answer } = settled()
    live(8)
    live(9)
    answer(dump([1], 8))
    expect(take()).toEqual(['reset', 'query all', 'reset', 'apply 1', 'apply 9'])
  })

  it('resets and goes on where nobody can be asked', () => {
    const { take, live, rank } = settled({ isRecoverable: false })
    live(8)
    expect(take()).toEqual(['reset', 'apply 8'])
    expect(rank.cursor).toBe(8n)
  })

  it('lets only a clear of everything overtake a recovery; a worker clear waits in line', () => {
    const first = settled()
    first.live(8)
    first.rank.live(newRouterEvent(owner, 9n, cleared), 0)
    expect(first.rank.isRecovering).toBe(true)
    first.rank.live(clearOfAll(10), 0)
    expect(first.take().slice(2)).toEqual(['apply 10'])
    expect(first.rank).toMatchObject({ cursor: 10n, isRecovering: false })
    first.live(11)
    expect(first.take()).toEqual(['apply 11'])
  })

  it('drops a message about another rank', () => {
    const { rank, take } = settled()
    rank.live({ ...stored(6), workerId: 8n }, 0)
    expect(take()).toEqual([])
    expect(rank).toMatchObject({ isFenced: false, cursor: 5n })
  })
})

describe('answers', () => {
  it('asks for the rest by id when a hole stays after the answer', () => {
    const { take, live, answer, rank } = settled()
    live(8)
    live(11)
    answer(dump([1], 8))
    answer(events([9, 10]))
    expect(take().slice(2)).toEqual(['reset', 'apply 1', 'query 9', 'apply 9 10', 'apply 11'])
    expect(rank.cursor).toBe(11n)
  })

  it('converges over a dump that is ahead of its number and a tail that repeats it', () => {
    const { take, live, answer, rank } = settled()
    live(7)
    live(8)
    answer(dump([1, 7, 8], 6))
    expect(take().slice(3)).toEqual(['apply 1 7 8', 'apply 7 8'])
    expect(rank.cursor).toBe(8n)
  })

  it('fences a rank whose answer speaks of another, and starts over with its next event', () => {
    const { answer, live, rank, take, switches } = settled()
    switches.resets = false
    live(8)
    answer({ ...dump([], 8), events: [{ ...stored(1), workerId: 9n }] } as WorkerReply)
    expect(rank).toMatchObject({ isFenced: true, cursor: undefined, isRecovering: false })
    live(9)
    expect(rank.isFenced).toBe(true)
    switches.resets = true
    take()
    live(10)
    expect(take()).toEqual(['reset', 'query all'])
  })

  it('fences when the index does not admit, and keeps the cursor still', () => {
    const { live, rank, switches } = settled()
    switches.admits = false
    live(6)
    expect(rank.counters.fences).toBe(1)
    expect(rank.cursor).toBeUndefined()
  })

  it('makes do with what waited when the worker cannot help', () => {
    for (const reply of [
      { kind: 'too_new', requestedStart: 9n, requestedEnd: null, newestAvailable: 3n },
      { kind: 'invalid_range', startId: 2n, endId: 1n },
    ] as const) {
      const { take, live, answer, rank } = settled()
      live(9, 8, 9)
      answer(reply)
      expect(take().slice(2)).toEqual(['apply 8 9'])
      expect(rank).toMatchObject({ cursor: 9n, isRecovering: false })
    }
  })

  it('tries an error eight times, waiting twice as long each time, and then degrades', () => {
    const { rank, live, answer, take } = settled()
    live(8)
    let now = 0
    for (let attempt = 1; attempt < queryLimits.attemptsMax; attempt++) {
      answer({ kind: 'error', message: 'no' }, now)
      expect(rank.nextDeadline).toBe(now + 200 * 2 ** (attempt - 1))
      now = rank.nextDeadline
      take()
      rank.tick(now)
    }
    expect(rank.isRecovering).toBe(true)
    answer({ kind: 'error', message: 'no' }, now)
    expect(take().at(-1)).toBe('apply 8')
    expect(rank.counters).toMatchObject({ degraded: 1, queries: 9 })
  })

  it('keeps nothing from before a hole when it has to make do, and asks again with the next event', () => {
    const { rank, live, answer, take } = settled()
    live(8, 9, 11)
    answer({ kind: 'too_new', requestedStart: 9n, requestedEnd: null, newestAvailable: 3n })
    expect(take()).toEqual(['reset', 'query all', 'apply 11'])
    expect(rank).toMatchObject({ isRecovering: false, cursor: undefined })
    live(12)
    expect(take()).toEqual(['query all'])
  })

  it('counts silence of 30 seconds as an attempt', () => {
    const { rank, live } = settled()
    live(8)
    rank.tick(29_999)
    expect(rank.counters.failedAttempts).toBe(0)
    rank.tick(30_000)
    expect(rank.counters.failedAttempts).toBe(1)
  })

  it('leaves everything as it was when dumps failed to the end, and starts over with the next event', () => {
    const { rank, live, answer, take } = settled()
    live(8)
    let now = 0
    for (let attempt = 0; attempt < queryLimits.attemptsMax; attempt++) {
      answer(
        attempt === 2 ? { kind: 'tree_dump_failed', lastEventId: 8n, message: '' } : { kind: 'error', message: '' },
        now,
      )
      now = rank.nextDeadline
      if (attempt < queryLimits.attemptsMax - 1) rank.tick(now)
    }
    expect(rank).toMatchObject({ isRecovering: false, cursor: 5n })
    expect(rank.counters.degraded).toBe(0)
    take()
    live(9)
    expect(take()).toEqual(['reset', 'query all'])
  })

  it('ignores answers to questions that were given up, and forgets everything when the source goes', () => {
    const { rank, live, ticket, take } = settled()
    live(8)
    const old = ticket()
    rank.deactivate()
    rank.answer(old, dump([1], 9), 0)
    expect(take().slice(2)).toEqual(['reset'])
    expect(rank.cursor).toBeUndefined()
  })

  it('keeps the newest thousand events that wait', () => {
    const { rank, live } = settled()
    live(...Array.from({ length: 1100 }, (_, index) => index + 10))
    expect(rank.counters.droppedPending).toBe(76)
  })
})

it('lets sixteen ask at a time, and gives the permit to who waited longest', () => {
  const permits = new Permits(2)
  const log: number[] = []
  const release = [1, 2, 3, 4].map((id) => permits.take(() => log.push(id)))
  expect(log).toEqual([1, 2])
  release[3]!() // leaves the line
  release[0]!()
  release[0]!()
  expect(log).toEqual([1, 2, 3])
  expect(permits.waiting).toBe(0)
})
