/**
 * After every suite over real sockets: no socket is open, no server listens, no child process runs, and no timer of ours is
 * set. Suites that have a router look at its bookings as well (`closed-router.ts`, `house.case.ts`).
 */
import { afterAll, expect, vi } from 'vitest'
import { allRooms, liveTimers } from '../src/server/live-timers.case.js'
import { hangUp, leftOpen } from './left-open.js'

afterAll(async () => {
  const isClosed = async (): Promise<void> => {
    await hangUp()
    expect(leftOpen()).toEqual([])
  }
  await vi.waitFor(isClosed, { timeout: 8_000 })
  expect(liveTimers(allRooms)).toEqual([])
}, 20_000)
