/** The load: so many clients on raw sockets, each with one request at a time, in a process of its own. */
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import type { Shape } from './shapes.js'
import { bodyOf } from './shapes.js'

interface Order {
  readonly port: number
  readonly shape: Shape
  /** Number of the first request, so that runs do not repeat each other. */
  readonly first: number
}

process.on('message', (order: Order) => {
  void run(order).then((result) => process.send!(result))
})
process.on('disconnect', () => process.exit())
process.send!({ ready: true })

async function run({ port, shape, first }: Order): Promise<{ errors: number; bytes: number; ms: number }> {
  const bodies: Buffer[] = []
  for (let at = 0; at < Math.min(shape.requests, 512); at++) bodies.push(requestOf(shape, first + at))
  let next = 0
  let errors = 0
  let bytes = 0
  const started = performance.now()
  await Promise.all(
    Array.from({ length: shape.clients }, async (_, client) => {
      if (shape.rampMs) await new Promise((resolve) => setTimeout(resolve, (client * shape.rampMs!) / shape.clients))
      const socket = connect({ port, host: '127.0.0.1', noDelay: true })
      socket.on('error', () => {})
      while (next < shape.requests) {
        const size = await exchange(socket, bodies[next++ % bodies.length]!, shape)
        if (size < 0) errors++
        else bytes += size
      }
      socket.destroy()
    }),
  )
  return { errors, bytes, ms: performance.now() - started }
}

function requestOf(shape: Shape, request: number): Buffer {
  const body = bodyOf(shape, request)
  const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n`
  return Buffer.from(head + body)
}

/** Bytes of the answer, or -1. The end is found by its own mark: the last chunk, or the length. */
function exchange(socket: Socket, request: Buffer, shape: Shape): Promise<number> {
  return new Promise((resolve) => {
    let size = 0
    let tail = ''
    let expected = -1
    const settle = (result: number): void => {
      socket.off('data', onData).off('close', onClose)
      resolve(result)
    }
    const onClose = (): void => settle(-1)
    const onData = (bytes: Buffer): void => {
      const isFirst = size === 0
      size += bytes.length
      if (shape.isStream) {
        if (isFirst && !bytes.includes('HTTP/1.1 200')) {
          settle(-1)
          return
        }
        tail = (tail + bytes.toString('latin1', Math.max(0, bytes.length - 8))).slice(-8)
        if (tail.endsWith('0\r\n\r\n')) settle(size)
        return
      }
      if (expected < 0) {
        const text = bytes.toString('latin1')
        const end = text.indexOf('\r\n\r\n')
        expected = end + 4 + Number(/content-length: *(\d+)/i.exec(text)?.[1] ?? 0)
      }
      if (size >= expected) settle(size)
    }
    socket.on('data', onData).on('close', onClose)
    socket.write(request)
  })
}
