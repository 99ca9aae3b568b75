/**
 * Where a simulated server lives: whose time it keeps, how it is reached and how it reaches others. On the real clock that is
 * the system's sockets; on the virtual one, connections inside the process. Servers cannot tell which it is.
 */
import { once } from 'node:events'
import type { Server as HttpServer } from 'node:http'
import { connect } from 'node:net'
import type { AddressInfo, Server, Socket } from 'node:net'
import type { Clock } from '../clock.js'
import { RealClock } from './real-clock.js'

export interface SimNet {
  /** Gives a server an address; 0 takes a free port. Answers the port. */
  listen(server: Server | HttpServer, host: string, port: number): Promise<number>
  /** Cuts its connections too. */
  close(server: Server | HttpServer): Promise<void>
  connect(host: string, port: number): Socket
}

export interface SimWorld {
  readonly clock: Clock
  readonly net: SimNet
  /** Its server is closed: nothing that was planned for it happens any more. */
  leave?(): void
}

export function realWorld(): SimWorld {
  const clock = new RealClock()
  return { clock, net: systemNet, leave: () => clock.close() }
}

const systemNet: SimNet = {
  async listen(server, host, port) {
    server.listen(port, host)
    await once(server, 'listening')
    return (server.address() as AddressInfo).port
  },
  async close(server) {
    const closed = once(server, 'close')
    server.close()
    if ('closeAllConnections' in server) server.closeAllConnections()
    await closed
  },
  connect: (host, port) => connect({ host, port }),
}

export function wait(clock: Clock, ms: number): Promise<void> {
  return new Promise((resolve) => clock.at(clock.now() + ms, resolve))
}

/** Aborted with `signal`, or when so much time of this clock has passed. */
export function within(clock: Clock, ms: number, signal?: AbortSignal): AbortSignal {
  const late = new AbortController()
  clock.at(clock.now() + ms, () => late.abort())
  return signal ? AbortSignal.any([signal, late.signal]) : late.signal
}
