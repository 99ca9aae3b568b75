/** An engine on a bare socket for tests: says exactly the bytes it is told, whatever HTTP thinks of them. */
import { createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'

export interface RawEngine {
  readonly url: string
  readonly port: number
  /** Connections that are open. */
  readonly sockets: Set<Socket>
  /** Connections that were ever made. */
  readonly accepted: () => number
  close(): Promise<void>
}

/** `script` runs once per connection, when its first bytes arrive; further requests are its own to notice. */
export async function startRawEngine(
  script: (socket: Socket, connection: number, first: Buffer) => void,
): Promise<RawEngine> {
  const sockets = new Set<Socket>()
  let accepted = 0
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    const connection = accepted++
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    socket.on('error', () => {})
    socket.on('end', () => socket.end())
    socket.once('data', (first: Buffer) => script(socket, connection, first))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    sockets,
    accepted: () => accepted,
    close: () =>
      new Promise((resolve) => {
        for (const socket of sockets) socket.destroy()
        server.close(() => resolve())
      }),
  }
}

export function chunk(text: string, extension = ''): string {
  return `${Buffer.byteLength(text).toString(16)}${extension}\r\n${text}\r\n`
}

export const streamHead = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n'
