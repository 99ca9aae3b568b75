import { afterEach, expect, it, vi } from 'vitest'
import { SessionAffinity } from './session-affinity.js'

afterEach(() => void vi.useRealTimers())

it.each([
  [5_000, 5_000],
  [600_000, 30_000],
])('sessions of %s ms that nobody asks for again are forgotten by a look every %s ms', async (ttlMs, every) => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  let now = 0
  const affinity = new SessionAffinity({ ttlMs, routerId: 1n, now: () => now })
  const tie = await affinity.tie({ sessionId: 's', isFinal: false }, new AbortController().signal)
  tie.sent({ workerId: 7n })
  tie.end()
  now = ttlMs
  vi.advanceTimersByTime(every - 1)
  expect(affinity.size).toBe(1)
  vi.advanceTimersByTime(1)
  expect(affinity.size).toBe(0)
  affinity.close()
  expect(vi.getTimerCount()).toBe(0)
})
