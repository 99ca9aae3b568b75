/** Connections inside this process, for servers whose time is virtual: what one end writes the other reads, in order. */
import type { Server as HttpServer } from 'node:http'
import type { Server, Socket } from 'node:net'
import { Duplex } from 'node:stream'
import type { SimNet } from './sim-world.js'

export class MemorySocket extends Duplex {
  peer: MemorySocket | undefined
  /** That nothing more comes. */
  #isTold = false
  readonly remoteAddress = '127.0.0.1'

  constructor() {
    super({ allowHalfOpen: false })
    this.on('error', () => {}) // whoever cares has a handler of its own
  }

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    if (!this.peer || this.peer.destroyed) return done(new Error('write EPIPE'))
    this.#tell(Buffer.from(chunk)) // a copy: the writer may use its memory again
    done()
  }

  override _final(done: () => void): void {
    this.#tell(null)
    done()
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#tell(null)
    done(error)
  }

  /** In the next tick, as from any socket: nobody is answered while he still writes. */
  #tell(chunk: Buffer | null): void {
    const { peer } = this
    process.nextTick(() => {
      if (!peer || peer.destroyed || peer.#isTold) return
      peer.#isTold = chunk === null
      peer.push(chunk)
    })
  }

  destroySoon(): void {
    if (this.writable) this.end()
    if (this.writableFinished) this.destroy()
    else this.once('finish', () => this.destroy())
  }

  resetAndDestroy(): this {
    this.peer?.destroy(new Error('read ECONNRESET'))
    return this.destroy()
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

export class MemoryNet implements SimNet {
  readonly #servers = new Map<number, Server | HttpServer>()
  readonly #sockets = new Map<Server | HttpServer, Set<MemorySocket>>()
  /** Below are ports at which nobody ever listens. */
  #nextPort = 1024

  listen(server: Server | HttpServer, _host: string, port: number): Promise<number> {
    while (this.#servers.has(this.#nextPort)) this.#nextPort++
    const own = port || this.#nextPort++
    if (this.#servers.has(own)) return Promise.reject(new Error(`listen EADDRINUSE: ${own}`))
    this.#servers.set(own, server)
    this.#sockets.set(server, new Set())
    return Promise.resolve(own)
  }

  close(server: Server | HttpServer): Promise<void> {
    for (const [port, it] of this.#servers) if (it === server) this.#servers.delete(port)
    for (const socket of this.#sockets.get(server) ?? []) socket.destroy()
    this.#sockets.delete(server)
    return Promise.resolve()
  }

  /** Somebody listens there. */
  has(port: number): boolean {
    return this.#servers.has(port)
  }

  /** `when` says when it opens, or does not call back at all. */
  connect(_host: string, port: number, when: (open: () => void) => void = soon): Socket {
    const [mine, theirs] = socketPair()
    when(() => {
      if (mine.destroyed) return
      const server = this.#servers.get(port)
      if (!server) {
        mine.destroy(new Error('connect ECONNREFUSED'))
        return
      }
      const sockets = this.#sockets.get(server)!
      sockets.add(theirs)
      theirs.once('close', () => sockets.delete(theirs))
      server.emit('connection', theirs)
      mine.emit('connect')
    })
    return mine as unknown as Socket
  }
}

function soon(open: () => void): void {
  process.nextTick(open)
}
