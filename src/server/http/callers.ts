/**
 * Who asks on which connection, so that a client that leaves takes its requests with it in that turn of the loop. A
 * response alone does not tell: one that waits behind another on the same connection never hears of its end, and the
 * others hear of it two turns after the client said goodbye.
 */
import type { Socket } from 'node:net'

export interface Caller {
  /** The client is gone. */
  left(): void
}

export class Callers {
  readonly #bySocket = new WeakMap<Socket, Set<Caller>>()

  /** Once per connection. */
  watch(socket: Socket): void {
    const callers = new Set<Caller>()
    this.#bySocket.set(socket, callers)
    const leave = (): void => {
      for (const caller of callers) caller.left()
    }
    socket.once('end', leave) // Node ends its side as well: nothing that is sent from here on arrives
    socket.once('close', leave)
  }

  add(socket: Socket, caller: Caller): void {
    this.#bySocket.get(socket)?.add(caller)
  }

  delete(socket: Socket, caller: Caller): void {
    this.#bySocket.get(socket)?.delete(caller)
  }
}
