/** What must hold of routers that a test assembled, once they are closed: no booking, no socket, no timer. */
import { connect } from 'node:net'
import { expect } from 'vitest'
import type { Assembly } from '../src/cli/assemble/assembly.js'
import { expectNothingLeft } from '../src/server/house.case.js'
import { liveTimers, roomsOfRouter } from '../src/server/live-timers.case.js'

/** Timers are those of the process: every router that a test started must be among them, or already closed. */
export async function expectClosed(...routers: readonly ClosedRouter[]): Promise<void> {
  for (const { assembly, address } of routers) {
    expect(assembly.bookingsLeft).toBe(0)
    await expectNothingLeft(assembly.gateway)
    if (address) expect(await isListening(address.url)).toBe(false)
  }
  expect(timersLeft()).toEqual([])
}

/** Where timers of routers were set that still run. */
export function timersLeft(): readonly string[] {
  return liveTimers(roomsOfRouter)
}

export interface ClosedRouter {
  readonly assembly: Assembly
  /** Where it listened. */
  readonly address?: { readonly url: string }
}

function isListening(url: string): Promise<boolean> {
  const { hostname, port } = new URL(url)
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname)
    const end = (answer: boolean): void => {
      socket.destroy()
      resolve(answer)
    }
    socket.once('connect', () => end(true))
    socket.once('error', () => end(false))
  })
}
