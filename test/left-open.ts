/** What of a process is still open: connections, servers, children and ZeroMQ sockets. */
import { globalAgent } from 'node:http'
import * as zmq from 'zeromq'

/** ZeroMQ's sockets are in no list of Node's, so each is noted when it is first used. */
const zmqSockets = new Set<zmq.Socket>()
for (const kind of [zmq.Publisher, zmq.XPublisher, zmq.Subscriber, zmq.Dealer, zmq.Router, zmq.Push, zmq.Pull]) {
  const prototype = kind.prototype as zmq.Socket
  for (const name of ['bind', 'connect'] as const) {
    const real = prototype[name] as (this: zmq.Socket, address: string) => Promise<void> | void
    Object.defineProperty(prototype, name, {
      value(this: zmq.Socket, address: string) {
        zmqSockets.add(this)
        return real.call(this, address)
      },
    })
  }
}

const counted = new Set(['TCPSocketWrap', 'TCPServerWrap', 'ProcessWrap'])

export function leftOpen(): string[] {
  const ours = process.getActiveResourcesInfo().filter((kind) => counted.has(kind))
  return [
    ...ours,
    ...[...zmqSockets].filter(({ closed }) => !closed).map(({ type }) => `ZeroMQ socket of type ${type}`),
  ]
}

/** A test's own clients keep idle connections, which the servers of that test are right not to close. */
export async function hangUp(): Promise<void> {
  globalAgent.destroy()
  const place = Symbol.for('undici.globalDispatcher.1')
  const agent = (globalThis as Record<symbol, unknown>)[place] as { destroy(): Promise<void> } | undefined
  if (!agent) return
  const Agent = agent.constructor as new () => typeof agent
  ;(globalThis as Record<symbol, unknown>)[place] = new Agent()
  await agent.destroy()
}
