/** Connections inside this process, for tests whose time is virtual: what one end writes the other reads, in order. */
import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'

export class MemorySocket extends Duplex {
  peer: MemorySocket | undefined
  readonly remoteAddress = '127.0.0.1'

  constructor() {
    super({ allowHalfOpen: false })
    this.on('error', () => {}) // whoever cares has a handler of its own
  }

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    const { peer } = this
    if (!peer || peer.destroyed) return done(new Error('write EPIPE'))
    peer.push(Buffer.from(chunk)) // a copy: the writer may use its memory again
    done()
  }

  override _final(done: () => void): void {
    if (this.peer && !this.peer.destroyed) this.peer.push(null)
    done()
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    const { peer } = this
    if (peer && !peer.destroyed && !peer.readableEnded) peer.push(null)
    done(error)
  }

  destroySoon(): void {
    if (this.writable) this.end()
    if (this.writableFinished) this.destroy()
    else this.once('finish', () => this.destroy())
  }

  setTimeout(): this {
    return this
  }

  setNoDelay(): this {
    return this
  }

  setKeepAlive(): this {
    return this
  }

  ref(): this {
    return this
  }

  unref(): this {
    return this
  }
}

export function socketPair(): readonly [MemorySocket, MemorySocket] {
  const pair = [new MemorySocket(), new MemorySocket()] as const
  pair[0].peer = pair[1]
  pair[1].peer = pair[0]
  return pair
}

/** What becomes of a connection that is being opened. */
export type Opening = { readonly kind: 'ok'; readonly afterMs?: number } | { readonly kind: 'refused' | 'hangs' }

export class MemoryNet {
  readonly #servers = new Map<number, Server>()
  #nextPort = 1
  opening: (port: number) => Opening = () => ({ kind: 'ok' })

  /** Gives a server an address; it need not listen. */
  add(server: Server): number {
    const port = this.#nextPort++
    this.#servers.set(port, server)
    return port
  }

  delete(port: number): void {
    this.#servers.delete(port)
  }

  readonly connect = ({ port }: { readonly port: number }): Socket => {
    const [mine, theirs] = socketPair()
    const opening = this.opening(port)
    const open = (): void => {
      if (mine.destroyed) return
      const server = this.#servers.get(port)
      if (!server || opening.kind === 'refused') {
        mine.destroy(new Error('connect ECONNREFUSED'))
        return
      }
      server.emit('connection', theirs)
      mine.emit('connect')
    }
    if (opening.kind === 'ok' && opening.afterMs) setTimeout(open, opening.afterMs)
    else if (opening.kind !== 'hangs') process.nextTick(open)
    return mine as unknown as Socket
  }
}
