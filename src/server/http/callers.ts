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
  /** Lists, not sets: mostly one stands in it, and what a set leaves behind keeps callers in memory (roster.ts). */
  readonly #bySocket = new WeakMap<Socket, Caller[]>()

  /** Once per connection. */
  watch(socket: Socket): void {
    const callers: Caller[] = []
    this.#bySocket.set(socket, callers)
    const leave = (): void => {
      for (const caller of callers.slice()) if (callers.includes(caller)) caller.left()
    }
    socket.once('end', leave) // Node ends its side as well: nothing that is sent from here on arrives
    socket.once('close', leave)
  }

  add(socket: Socket, caller: Caller): void {
    this.#bySocket.get(socket)?.push(caller)
  }

  delete(socket: Socket, caller: Caller): void {
    const callers = this.#bySocket.get(socket)
    const at = callers?.indexOf(caller) ?? -1
    if (at >= 0) callers!.splice(at, 1)
  }
}
