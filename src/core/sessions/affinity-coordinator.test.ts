import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Acquired, AffinityEvent, AffinityLease, AffinityTarget } from './affinity-coordinator.js'
import { AffinityCoordinator } from './affinity-coordinator.js'

const ttlMs = 60_000
const w7: AffinityTarget = { workerId: 7n, dpRank: 0 }

function coordinator(change: Partial<ConstructorParameters<typeof AffinityCoordinator>[0]> = {}): AffinityCoordinator {
  return new AffinityCoordinator({ ttlMs, routerId: 1n, ...change })
}

function leaseOf(acquired: Acquired): AffinityLease {
  if (acquired.kind === 'wait') throw new Error('waits')
  return acquired.lease
}

/** A session bound to worker 7, rank 0, with no request running. */
function bound(change: Parameters<typeof coordinator>[0] = {}): AffinityCoordinator {
  const affinity = coordinator(change)
  affinity.release(affinity.commit(leaseOf(affinity.acquire({ sessionId: 's' }, 0)), w7), 0)
  return affinity
}

it.each([0, 999, 31_536_000_001, Number.NaN])('refuses a time to live of %s ms', (bad) => {
  expect(() => coordinator({ ttlMs: bad })).toThrow('1 to 31536000 seconds')
})

it.each(['', 'x'.repeat(257), 'ä'.repeat(129)])('refuses a session id of the wrong size', (sessionId) => {
  expect(() => coordinator().acquire({ sessionId }, 0)).toThrow('1 to 256 bytes')
})

describe('choosing', () => {
  it('lets the first request choose and the others wait, then follow', () => {
    const affinity = coordinator()
    const first = affinity.acquire({ sessionId: 's' }, 0)
    let woken = 0
    expect(affinity.acquire({ sessionId: 's', onWake: () => woken++ }, 0).kind).toBe('wait')
    expect(affinity.acquire({ sessionId: 'other' }, 0).kind).toBe('choose')
    affinity.commit(leaseOf(first), w7)
    expect(woken).toBe(1)
    expect(affinity.acquire({ sessionId: 's' }, 0)).toMatchObject({ kind: 'follow', target: w7 })
  })

  it('wakes one waiter when the chooser fails, and it chooses while the others go on waiting', () => {
    const affinity = coordinator()
    const first = leaseOf(affinity.acquire({ sessionId: 's' }, 0))
    const kinds: string[] = []
    for (let i = 0; i < 3; i++) {
      affinity.acquire({ sessionId: 's', onWake: () => kinds.push(affinity.acquire({ sessionId: 's' }, 1).kind) }, 0)
    }
    affinity.fail(first)
    expect(kinds).toEqual(['choose'])
  })

  it('does not strand the others when the woken waiter has gone', () => {
    const affinity = coordinator()
    const first = leaseOf(affinity.acquire({ sessionId: 's' }, 0))
    affinity.acquire({ sessionId: 's', onWake: () => {} }, 0) // gone: does not try again
    let second = ''
    affinity.acquire({ sessionId: 's', onWake: () => (second = affinity.acquire({ sessionId: 's' }, 1).kind) }, 0)
    affinity.fail(first)
    expect(second).toBe('choose')
  })

  it('forgets a cancelled waiter, also after it moved to a new chooser', () => {
    const affinity = coordinator()
    const first = leaseOf(affinity.acquire({ sessionId: 's' }, 0))
    let second: AffinityLease | undefined
    affinity.acquire({ sessionId: 's', onWake: () => (second = leaseOf(affinity.acquire({ sessionId: 's' }, 1))) }, 0)
    let woken = 0
    const waiting = affinity.acquire({ sessionId: 's', onWake: () => woken++ }, 0)
    affinity.fail(first)
    if (waiting.kind === 'wait') waiting.cancel()
    affinity.commit(second!, w7)
    expect(woken).toBe(0)
  })

  it('leaves nothing behind when the only request fails', () => {
    const affinity = coordinator()
    affinity.fail(leaseOf(affinity.acquire({ sessionId: 's' }, 0)))
    expect(affinity.size).toBe(0)
  })
})

describe('a bound session', () => {
  it('accepts an explicit target that is the bound one, with or without its rank', () => {
    expect(bound().acquire({ sessionId: 's', explicitTarget: { workerId: 7n } }, 1).kind).toBe('follow')
    expect(bound().acquire({ sessionId: 's', explicitTarget: w7 }, 1).kind).toBe('follow')
  })

  it.each([{ workerId: 8n }, { workerId: 7n, dpRank: 1 }])('refuses another explicit target', (explicitTarget) => {
    expect(() => bound().acquire({ sessionId: 's', explicitTarget }, 1)).toThrow('another worker')
  })

  it('takes rank 0 for a rank: it is not the one that a session of rank 1 has', () => {
    const affinity = coordinator()
    const lease = leaseOf(affinity.acquire({ sessionId: 's' }, 0))
    affinity.release(affinity.commit(lease, { workerId: 7n, dpRank: 1 }), 0)
    expect(() => affinity.acquire({ sessionId: 's', explicitTarget: w7 }, 1)).toThrow('another worker')
  })

  it('starts its idle time with the end of the last request', () => {
    const affinity = bound()
    const [a, b] = [leaseOf(affinity.acquire({ sessionId: 's' }, 0)), leaseOf(affinity.acquire({ sessionId: 's' }, 0))]
    affinity.release(a, 10)
    affinity.reap(10 * ttlMs)
    expect(affinity.peek('s', 10 * ttlMs)).toEqual(w7) // b still runs
    affinity.release(b, 10 * ttlMs)
    expect(affinity.peek('s', 11 * ttlMs - 1)).toEqual(w7)
    expect(affinity.peek('s', 11 * ttlMs)).toBeUndefined()
    expect(affinity.size).toBe(0)
  })

  it('is unbound by a failure of its target, and the end of older requests does not bring it back', () => {
    const affinity = bound()
    const [failing, running] = [
      leaseOf(affinity.acquire({ sessionId: 's' }, 0)),
      leaseOf(affinity.acquire({ sessionId: 's' }, 0)),
    ]
    affinity.invalidate(failing)
    expect(affinity.acquire({ sessionId: 's' }, 1).kind).toBe('choose')
    affinity.release(running, 2)
    expect(affinity.peek('s', 2)).toBeUndefined()
  })

  it('is not refreshed or created by a peek', () => {
    const affinity = bound()
    expect(affinity.peek('s', ttlMs - 1)).toEqual(w7)
    expect(affinity.peek('s', ttlMs)).toBeUndefined()
    expect(affinity.peek('new', 0)).toBeUndefined()
    expect(affinity.size).toBe(0)
  })

  it('ends with its worker', () => {
    const affinity = bound()
    affinity.removeWorker(7n)
    expect(affinity.peek('s', 1)).toBeUndefined()
  })
})

it.each([
  ['65,536 unless told', {}, 65_536],
  ['as many as it is told', { sessionsMax: 1 }, 1],
])('refuses more sessions than it may hold: %s', (_says, options, most) => {
  const affinity = coordinator(options)
  for (let at = 0; at < most; at++) affinity.acquire({ sessionId: `${at}` }, 0)
  expect(() => affinity.acquire({ sessionId: 'one more' }, 0)).toThrow('no more sessions')
  expect(affinity.size).toBe(most)
})

it.each([
  [5_000, 5_000],
  [600_000, 30_000],
])('with a time to live of %s ms wants to be reaped every %s ms', (own, every) => {
  expect(coordinator({ ttlMs: own }).reapIntervalMs).toBe(every)
})

describe('news of other routers', () => {
  const news: AffinityEvent = { sessionId: 's', workerId: 9n, dpRank: 1, routerId: 2n }
  const known = (): boolean => true

  it('binds an unknown session, and its time runs', () => {
    const affinity = coordinator()
    expect(affinity.applyRemote(news, 0, known)).toBe(true)
    expect(affinity.acquire({ sessionId: 's' }, 1)).toMatchObject({
      kind: 'follow',
      target: { workerId: 9n, dpRank: 1 },
    })
  })

  it.each<[string, AffinityEvent, (workerId: bigint) => boolean]>([
    ['its own', { ...news, routerId: 1n }, known],
    ['an unknown worker', news, () => false],
  ])('ignores %s', (_says, event, isKnown) => {
    expect(coordinator().applyRemote(event, 0, isKnown)).toBe(false)
  })

  it('lets the first live binding win and refreshes the same one', () => {
    const affinity = bound()
    expect(affinity.applyRemote(news, 1, known)).toBe(false)
    expect(affinity.applyRemote({ ...news, ...w7 }, ttlMs - 1, known)).toBe(true)
    expect(affinity.peek('s', 2 * ttlMs - 2)).toEqual(w7)
  })

  it('does not disturb a session that is choosing', () => {
    const affinity = coordinator()
    affinity.acquire({ sessionId: 's' }, 0)
    expect(affinity.applyRemote(news, 0, known)).toBe(false)
  })

  it('is told of bindings and of the end of leases', () => {
    const told: AffinityEvent[] = []
    bound({ publish: (event) => told.push(event) })
    expect(told).toEqual(Array(2).fill({ sessionId: 's', workerId: 7n, dpRank: 0, routerId: 1n }))
  })
})

// Goal: no interleaving of requests, failures, cancellations and time strands a waiter or keeps a session for ever.
// Method: every request is driven to some end; afterwards time passes and nothing may be left.
it('drains to nothing, and every waiter is woken or cancelled', () => {
  const step = fc.record({
    kind: fc.constantFrom('start', 'commit', 'fail', 'release', 'invalidate', 'cancel', 'pass', 'end twice'),
    which: fc.nat(9),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const affinity = coordinator()
      let now = 0
      const choosing: AffinityLease[] = []
      const following: AffinityLease[] = []
      const waiting = new Set<{ cancel(): void }>()
      const ended: AffinityLease[] = []
      const start = (): void => {
        let entry: { cancel(): void } | undefined
        const acquired = affinity.acquire(
          {
            sessionId: 's',
            onWake: () => {
              if (entry) waiting.delete(entry)
              start()
            },
          },
          now,
        )
        if (acquired.kind === 'choose') choosing.push(acquired.lease)
        else if (acquired.kind === 'follow') following.push(acquired.lease)
        else waiting.add((entry = acquired))
      }
      const take = (list: AffinityLease[], which: number): AffinityLease | undefined => {
        const [lease] = list.splice(which % Math.max(1, list.length), 1)
        if (lease) ended.push(lease)
        return lease
      }
      const act = (kind: string, which: number): void => {
        const chooser = ['commit', 'fail'].includes(kind) ? take(choosing, which) : undefined
        const follower = ['release', 'invalidate'].includes(kind) ? take(following, which) : undefined
        if (kind === 'start') start()
        else if (kind === 'pass') affinity.reap((now += 40_000))
        else if (kind === 'cancel') {
          const entry = [...waiting][which % Math.max(1, waiting.size)]
          if (entry) waiting.delete(entry)
          entry?.cancel()
        } else if (kind === 'commit' && chooser) following.push(affinity.commit(chooser, w7))
        else if (kind === 'fail' && chooser) affinity.fail(chooser)
        else if (kind === 'release' && follower) affinity.release(follower, now)
        else if (kind === 'invalidate' && follower) affinity.invalidate(follower)
        else if (kind === 'end twice') {
          for (const lease of ended) affinity.release(lease, now)
          for (const lease of ended) affinity.fail(lease)
          for (const lease of ended) affinity.invalidate(lease)
        }
      }
      for (const { kind, which } of steps) {
        act(kind, which)
        expect(choosing.length, 'one chooser at a time').toBeLessThanOrEqual(1)
        if (waiting.size > 0) expect(choosing.length, 'somebody waits for nobody').toBe(1)
      }
      while (choosing.length + following.length > 0) {
        act('fail', 0)
        act('release', 0)
      }
      expect(waiting.size).toBe(0)
      affinity.reap(now + ttlMs)
      expect(affinity.size).toBe(0)
    }),
    { numRuns: 500 },
  )
})
