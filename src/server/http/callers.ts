/**
 * Who asks on which connection, so that a client that leaves takes its requests with it in that turn of the loop. A
 * response alone does not tell: one that waits behind another on the same connection never hears of its end, and the
 * others hear of it two turns after the client said goodbye.
 *
 * And who has not taken all of an answer yet: a request is over when its answer is written, which a slow client reads later.
 */
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { Roster } from '../roster.js'
import type { ErrorShape } from './error-body.js'

export interface Caller {
  /** The client is gone. */
  left(): void
  /** Something of its answer was written. */
  readonly hasBegun: boolean
  /** How errors look to it. */
  readonly shape: ErrorShape
}

interface Connection {
  readonly socket: Socket
  seat: number
}

export class Callers {
  /** Lists, not sets: mostly one stands in it, and what a set leaves behind keeps callers in memory (roster.ts). */
  readonly #bySocket = new WeakMap<Duplex, Caller[]>()
  readonly #connections = new Roster<'seat', Connection>('seat')

  /** Once per connection: it is there, and nobody can ask on it yet, as before a handshake. */
  meet(socket: Socket): void {
    const connection = { socket, seat: -1 }
    this.#connections.add(connection)
    socket.on('close', () => this.#connections.delete(connection))
  }

  /** Once per connection, or per what a handshake made of it. */
  watch(socket: Socket): void {
    const callers: Caller[] = []
    this.#bySocket.set(socket, callers)
    this.meet(socket)
    const leave = (): void => {
      for (const caller of callers.slice()) if (callers.includes(caller)) caller.left()
    }
    socket.on('end', leave) // Node ends its side as well: nothing that is sent from here on arrives
    socket.on('close', leave)
  }

  add(socket: Socket, caller: Caller): void {
    this.#bySocket.get(socket)?.push(caller)
  }

  delete(socket: Socket, caller: Caller): void {
    const callers = this.#bySocket.get(socket)
    const at = callers?.indexOf(caller) ?? -1
    if (at >= 0) callers!.splice(at, 1)
  }

  /** Whoever waits there for an answer or has begun to get it, in the order in which they asked. */
  of(socket: Duplex): readonly Caller[] {
    return this.#bySocket.get(socket) ?? []
  }

  get connectionCount(): number {
    return this.#connections.size
  }

  /** Connections on which something that was written has not left this process. */
  unsent(): readonly Socket[] {
    const unsent: Socket[] = []
    for (const { socket } of this.#connections) if (hasUnsent(socket)) unsent.push(socket)
    return unsent
  }

  /** Every connection ends, whatever it is at. */
  cutAll(): void {
    for (const { socket } of this.#connections) socket.destroy()
  }
}

/** Handed to the system, or never to be. */
export function hasUnsent(socket: Socket): boolean {
  return !socket.destroyed && socket.writableLength > 0
}
