import fc from 'fast-check'
import { expect, it } from 'vitest'
import { StickySessions } from './sticky-sessions.js'

const second = 1000

it('knows nothing of a session that was never bound', () => {
  expect(new StickySessions().resolve('s', 0)).toBeUndefined()
})

it('finds the worker that a session was bound to, and loses it when unbound', () => {
  const sessions = new StickySessions()
  sessions.bind('s', 7n, 300 * second, 0)
  expect(sessions.resolve('s', 1)).toBe(7n)
  sessions.unbind('s')
  expect(sessions.resolve('s', 2)).toBeUndefined()
})

it('restarts the time to live with every lookup', () => {
  const sessions = new StickySessions()
  sessions.bind('s', 7n, 10 * second, 0)
  for (const at of [9, 18, 27]) expect(sessions.resolve('s', at * second)).toBe(7n)
  expect(sessions.resolve('s', 37 * second)).toBeUndefined()
})

it('closes a lapsed session on lookup, once', () => {
  const closed: string[] = []
  const sessions = new StickySessions({ onExpired: (session, worker) => closed.push(`${session}@${worker}`) })
  sessions.bind('s', 7n, second, 0)
  expect(sessions.resolve('s', second)).toBeUndefined()
  expect(sessions.resolve('s', second)).toBeUndefined()
  sessions.reap(2 * second)
  expect(closed).toEqual(['s@7'])
})

it('closes lapsed sessions when reaped, and says nothing of unbound ones', () => {
  const closed: string[] = []
  const sessions = new StickySessions({ onExpired: (session) => closed.push(session) })
  sessions.bind('early', 1n, second, 0)
  sessions.bind('late', 1n, 5 * second, 0)
  sessions.bind('unbound', 1n, second, 0)
  sessions.unbind('unbound')
  sessions.reap(2 * second)
  expect(closed).toEqual(['early'])
  expect(sessions.size).toBe(1)
})

it('gives up the session that would lapse first when it is full', () => {
  const closed: string[] = []
  const sessions = new StickySessions({ sessionsMax: 2, onExpired: (session) => closed.push(session) })
  sessions.bind('a', 1n, 5 * second, 0)
  sessions.bind('b', 1n, 3 * second, 0)
  sessions.bind('a', 2n, 5 * second, 0) // bound again: not a third one
  sessions.bind('c', 1n, 9 * second, 0)
  expect(closed).toEqual(['b'])
  expect([sessions.size, sessions.evicted]).toEqual([2, 1])
})

it('forgets the sessions of a worker that left', () => {
  const sessions = new StickySessions()
  sessions.bind('a', 1n, second, 0)
  sessions.bind('b', 2n, second, 0)
  sessions.removeWorker(1n)
  expect([sessions.resolve('a', 1), sessions.resolve('b', 1)]).toEqual([undefined, 2n])
})

// Goal: no order of calls keeps a session alive past its time, or ends it before.
// Method: the model replays the whole history of one session for every lookup.
it('agrees with a history of touches on a virtual clock', () => {
  const step = fc.record({
    session: fc.constantFrom('a', 'b'),
    kind: fc.constantFrom('bind', 'resolve', 'unbind', 'reap'),
    wait: fc.integer({ min: 0, max: 8 }),
    worker: fc.bigInt(1n, 3n),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const sessions = new StickySessions()
      const model = new Map<string, { worker: bigint; until: number }>()
      let now = 0
      for (const { session, kind, wait, worker } of steps) {
        now += wait
        const held = model.get(session)
        const live = held && held.until > now ? held : undefined
        if (kind === 'bind') {
          sessions.bind(session, worker, 10, now)
          model.set(session, { worker, until: now + 10 })
        } else if (kind === 'unbind') {
          sessions.unbind(session)
          model.delete(session)
        } else if (kind === 'reap') sessions.reap(now)
        else {
          expect(sessions.resolve(session, now)).toBe(live?.worker)
          if (live) live.until = now + 10
          else model.delete(session)
        }
      }
    }),
  )
})
