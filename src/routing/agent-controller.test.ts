import fc from 'fast-check'
import { expect, it, vi } from 'vitest'
import { StickySessions } from '../core/sessions/index.js'
import type { SessionPort, SessionReply } from './agent-controller.js'
import { AgentController } from './agent-controller.js'

interface Scene {
  readonly agent: AgentController
  readonly sessions: StickySessions
  readonly asked: string[]
}

function scene(change: Partial<SessionPort> = {}, reply: SessionReply = { status: 'ok' }): Scene {
  const asked: string[] = []
  const sessions = new StickySessions()
  const port: SessionPort = {
    isAvailable: () => {
      asked.push('available?')
      return Promise.resolve(true)
    },
    open: (worker, request) => {
      asked.push(`open ${request.sessionId} on ${worker} for ${request.timeoutSecs} s, ${request.capacityOfStrLen}`)
      return Promise.resolve(reply)
    },
    close: (worker, session) => {
      asked.push(`close ${session} on ${worker}`)
      return Promise.resolve()
    },
    ...change,
  }
  return { agent: new AgentController({ sessions, port, now: () => 0, warn: () => {} }), sessions, asked }
}

it.each([undefined, { sessionId: 's' }])('does nothing without an action', async (control) => {
  const { agent, asked } = scene()
  expect(await agent.begin(control, 1n)).toEqual({ isInside: false })
  expect(asked).toEqual([])
})

it('opens a session on the chosen worker, 30 s longer than it is bound, and binds it', async () => {
  const { agent, sessions, asked } = scene()
  await agent.begin({ sessionId: 's', action: 'open', timeoutSecs: 100 }, 7n)
  expect(asked).toEqual(['available?', 'open s on 7 for 130 s, 65536'])
  expect(agent.resolve({ sessionId: 's' })).toBe(7n)
  expect(sessions.resolve('s', 100_000)).toBeUndefined()
})

it('opens for 300 s when the request does not say', async () => {
  const { agent, asked } = scene()
  await agent.begin({ sessionId: 's', action: 'open' }, 7n)
  expect(asked[1]).toContain('330 s')
})

it.each<[string, Partial<SessionPort>, SessionReply]>([
  ['the worker cannot be reached', { open: () => Promise.reject(new Error('refused')) }, {}],
  ['the worker says no', {}, { status: 'error', message: 'full' }],
  ['the worker gives no status', {}, {}],
])('fails the request and binds nothing when %s', async (_says, port, reply) => {
  const { agent, sessions } = scene(port, reply)
  await expect(agent.begin({ sessionId: 's', action: 'open' }, 7n)).rejects.toMatchObject({
    code: 'WR_SESSION_OPEN_FAILED',
  })
  expect(sessions.size).toBe(0)
})

it('unbinds at once when a request closes its session, and tells the worker afterwards', async () => {
  const { agent, sessions, asked } = scene()
  sessions.bind('s', 7n, 1000, 0)
  const { isInside, afterwards } = await agent.begin({ sessionId: 's', action: 'close' }, 7n)
  expect(isInside).toBe(true) // its last request still runs in the session
  expect(sessions.size).toBe(0)
  expect(asked).toEqual(['available?'])
  afterwards?.()
  await agent.close()
  expect(asked.at(-1)).toBe('close s on 7')
})

it('asks once whether sessions exist, and without them serves as if none was asked for', async () => {
  let asked = 0
  const { agent, sessions } = scene({ isAvailable: () => Promise.reject(new Error(`none (${asked++})`)) })
  for (let i = 0; i < 3; i++)
    expect(await agent.begin({ sessionId: 's', action: 'open' }, 7n)).toEqual({ isInside: false })
  expect([asked, sessions.size]).toEqual([1, 0])
})

it('does not override a worker that the request names, and knows nothing without a session', () => {
  const { agent, sessions } = scene()
  sessions.bind('s', 7n, 1000, 0)
  expect(agent.resolve({ sessionId: 's' }, 3n)).toBeUndefined()
  expect(agent.resolve(undefined)).toBeUndefined()
})

it('knows whether a request runs inside a session of its worker, and forgets those of a worker that left', async () => {
  const { agent, sessions } = scene()
  expect(await agent.begin({ sessionId: 's', action: 'open' }, 7n)).toEqual({ isInside: true })
  expect(await agent.begin({ sessionId: 's' }, 7n)).toEqual({ isInside: true })
  expect(await agent.begin({ sessionId: 's' }, 8n)).toEqual({ isInside: false })
  expect(await agent.begin({ sessionId: 'other' }, 7n)).toEqual({ isInside: false })
  agent.removeWorker(7n)
  expect(sessions.size).toBe(0)
})

it('a session that cannot be closed is a warning, not an error', async () => {
  const { agent } = scene({ close: () => Promise.reject(new Error('gone')) })
  agent.closeLater('s', 7n)
  await expect(agent.close()).resolves.toBeUndefined()
})

it('makes no deadline for an answer that it has', async () => {
  const timeout = vi.spyOn(AbortSignal, 'timeout')
  const { agent } = scene({ isAvailable: () => Promise.resolve(false) })
  for (let i = 0; i < 3; i++) await agent.begin({ sessionId: 's', action: 'open' }, 7n)
  expect(timeout.mock.calls).toEqual([[5_000]]) // how long the first waits for a worker that holds sessions
  timeout.mockRestore()
})

it('leaves nothing behind of sessions that were opened', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const any = vi.spyOn(AbortSignal, 'any')
  try {
    const { agent } = scene()
    for (let at = 0; at < 5; at++) await agent.begin({ sessionId: `s${at}`, action: 'open' }, 7n)
    expect([any.mock.calls.length, vi.getTimerCount()]).toEqual([1, 0]) // whether sessions exist was asked once
  } finally {
    any.mockRestore()
    vi.useRealTimers()
  }
})

it.each(['its time', 'the controller'])('a session that is being opened ends with %s', async (end) => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  try {
    const { agent, sessions } = scene({
      open: (_worker, _request, signal) =>
        new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('ended')))),
    })
    const opening = agent.begin({ sessionId: 's', action: 'open' }, 7n)
    const outcome = expect(opening).rejects.toMatchObject({ code: 'WR_SESSION_OPEN_FAILED' })
    await vi.advanceTimersByTimeAsync(0)
    if (end === 'its time') await vi.advanceTimersByTimeAsync(10_000)
    else await agent.close()
    await outcome
    expect([sessions.size, vi.getTimerCount()]).toEqual([0, 0])
  } finally {
    vi.useRealTimers()
  }
})

it('closing waits for a session that is being closed instead of cutting it off', async () => {
  let finish: () => void = () => {}
  let wasCut = true
  const close: SessionPort['close'] = (_worker, _session, signal) =>
    new Promise((resolve) => {
      finish = () => {
        wasCut = signal.aborted
        resolve()
      }
    })
  const { agent } = scene({ close })
  agent.closeLater('s', 7n)
  const closed = agent.close()
  finish()
  await closed
  expect(wasCut).toBe(false)
})

it('binds nothing that was opened while its worker restarted or left, and closes it wherever it is', async () => {
  let answer: (reply: SessionReply) => void = () => {}
  const { agent, sessions, asked } = scene({ open: () => new Promise((resolve) => (answer = resolve)) })
  const opening = agent.begin({ sessionId: 's', action: 'open' }, 7n)
  await vi.waitFor(() => expect(asked).toEqual(['available?']))
  await Promise.resolve()
  agent.removeWorker(7n)
  answer({ status: 'ok' })
  await expect(opening).rejects.toMatchObject({
    code: 'WR_SESSION_OPEN_FAILED',
    details: { reason: 'the worker left or restarted meanwhile' },
  })
  await agent.close()
  expect([sessions.size, asked.at(-1)]).toEqual([0, 'close s on 7'])
})

it('holds a session exactly while the process that opened it is the one that serves', async () => {
  const step = fc.record({
    does: fc.constantFrom('open', 'answer', 'refuse', 'restart', 'close'),
    worker: fc.nat(1),
    session: fc.nat(2),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      const pending: { settle: (reply: SessionReply) => void; worker: number; session: number; life: number }[] = []
      const lives = [0, 0]
      /** Who holds a session, by the life of the process that opened it. */
      const held = new Map<string, { worker: number; life: number }>()
      let asking = { worker: 0, session: 0 }
      const { agent } = scene({
        open: () => {
          const { worker, session } = asking
          return new Promise((settle) => pending.push({ settle, worker, session, life: lives[worker]! }))
        },
      })
      for (const { does, worker, session } of steps) {
        const id = `s${session}`
        if (does === 'open') {
          asking = { worker, session }
          void agent.begin({ sessionId: id, action: 'open' }, BigInt(worker)).catch(() => {})
        } else if (does === 'restart') {
          lives[worker]!++
          agent.removeWorker(BigInt(worker))
          for (const [name, holder] of held) if (holder.worker === worker) held.delete(name)
        } else if (does === 'close') {
          await agent.begin({ sessionId: id, action: 'close' }, BigInt(worker))
          held.delete(id)
        } else {
          const it = pending.shift()
          it?.settle(does === 'answer' ? { status: 'ok' } : { status: 'error' })
          if (it && does === 'answer' && it.life === lives[it.worker])
            held.set(`s${it.session}`, { worker: it.worker, life: it.life })
        }
        await new Promise(setImmediate)
        for (const name of ['s0', 's1', 's2']) {
          const holder = held.get(name)
          expect(agent.resolve({ sessionId: name })).toBe(holder && BigInt(holder.worker))
        }
      }
      for (const { settle } of pending) settle({ status: 'ok' })
    }),
    { numRuns: 60 },
  )
})
