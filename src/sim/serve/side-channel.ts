/**
 * Where two simulated engines of a pair meet: one line of JSON in, one out, over a socket. It stands for whatever the real ones
 * use (NIXL's side channel, SGLang's bootstrap server); nothing but simulated engines ever speaks to it.
 */
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { Server, Socket } from 'node:net'
import type { SimNet } from './sim-world.js'

export type Line = Readonly<Record<string, unknown>>

/** `reply` may come later; `left` tells that the other side went away first. */
export type LineHandler = (line: Line, reply: (line: Line) => void, left: Promise<void>) => void

const lineBytesMax = 64 * 1024

export class SideChannel {
  readonly #net: SimNet
  readonly #handler: LineHandler
  readonly #sockets = new Set<Socket>()
  #server: Server | undefined
  #port = 0

  constructor(net: SimNet, handler: LineHandler) {
    this.#net = net
    this.#handler = handler
  }

  get port(): number {
    return this.#port
  }

  async open(host: string, port: number): Promise<void> {
    const server = createServer((socket) => this.#serve(socket))
    this.#port = await this.#net.listen(server, host, port)
    this.#server = server
  }

  async close(): Promise<void> {
    const server = this.#server
    this.#server = undefined
    for (const socket of this.#sockets) socket.destroy()
    if (server) await this.#net.close(server)
  }

  #serve(socket: Socket): void {
    this.#sockets.add(socket)
    const left = new Promise<void>((resolve) => socket.once('close', () => resolve()))
    socket.on('close', () => this.#sockets.delete(socket))
    socket.on('error', () => socket.destroy())
    void readLine(socket).then(
      (line) => this.#handler(line, (answer) => socket.end(`${JSON.stringify(answer)}\n`), left),
      () => socket.destroy(),
    )
  }
}

/** Sends a line and waits for the answer; rejects when the other side cannot be reached, leaves, or takes too long. */
export async function ask(
  net: SimNet,
  { host, port }: { readonly host: string; readonly port: number },
  line: Line,
  signal: AbortSignal,
): Promise<Line> {
  const socket = net.connect(host, port)
  const stop = (): void => void socket.destroy(new Error('aborted'))
  signal.addEventListener('abort', stop, { once: true })
  try {
    if (signal.aborted) throw new Error('aborted')
    await once(socket, 'connect')
    socket.write(`${JSON.stringify(line)}\n`)
    return await readLine(socket)
  } finally {
    signal.removeEventListener('abort', stop)
    socket.destroy()
  }
}

/** Not an async iterator: leaving one destroys the socket, and the answer still has to go out. */
function readLine(socket: Socket): Promise<Line> {
  return new Promise((resolve, reject) => {
    let text = ''
    const stop = (error?: Error): void => {
      socket.off('data', take)
      reject(error ?? new Error('the other side left without a line'))
    }
    const take = (chunk: Buffer): void => {
      text += chunk.toString('utf8')
      const end = text.indexOf('\n')
      if (end < 0 && text.length <= lineBytesMax) return
      socket.off('data', take)
      try {
        resolve(JSON.parse(text.slice(0, end)) as Line)
      } catch (cause) {
        reject(new Error('not a line of JSON', { cause }))
      }
    }
    socket.on('data', take)
    socket.once('error', stop)
    socket.once('close', () => stop())
  })
}
