/** Four cheap engines in one process: one write per SSE chunk of about 200 bytes, as real ones do. */
import { createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'

const filler = 'x'.repeat(60)

function chunk(at: number): string {
  const data = `data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"${filler}${at}"},"finish_reason":null}]}\n\n`
  return `${Buffer.byteLength(data).toString(16)}\r\n${data}\r\n`
}

const done = 'data: [DONE]\n\n'
const last = `${done.length.toString(16)}\r\n${done}\r\n0\r\n\r\n`
const whole = JSON.stringify({
  id: 'chatcmpl-bench',
  object: 'chat.completion',
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: filler }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 200, completion_tokens: 16, total_tokens: 216 },
})
const unary = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${whole.length}\r\n\r\n${whole}`
const streamHead =
  'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n'

let chunks = 16
let chunkMs = 0
let isStream = true

function answer(socket: Socket): void {
  if (!isStream) {
    socket.write(unary)
    return
  }
  socket.write(streamHead)
  let sent = 0
  const step = (): void => {
    if (socket.destroyed) return
    if (sent === chunks) {
      socket.write(last)
      return
    }
    socket.write(chunk(sent++))
    if (chunkMs > 0) setTimeout(step, chunkMs)
    else setImmediate(step)
  }
  step()
}

/** Finds the ends of requests in a byte stream without parsing more than the length. */
function serve(socket: Socket): void {
  let head = ''
  let left = -1
  socket.setNoDelay(true)
  socket.on('error', () => {})
  socket.on('data', (bytes: Buffer) => {
    let at = 0
    while (at < bytes.length) {
      if (left < 0) {
        const text = bytes.toString('latin1', at)
        const before = head.length
        head += text
        const end = head.indexOf('\r\n\r\n')
        if (end < 0) return
        const isGet = head.startsWith('GET')
        left = Number(/content-length: *(\d+)/i.exec(head.slice(0, end))?.[1] ?? 0)
        at += end + 4 - before
        head = ''
        if (isGet) {
          socket.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n')
          left = -1
          continue
        }
      }
      const take = Math.min(left, bytes.length - at)
      left -= take
      at += take
      if (left > 0) return
      left = -1
      answer(socket)
    }
  })
}

const ports: number[] = []
for (let at = 0; at < 4; at++) {
  const server = createServer({ noDelay: true }, serve)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  ports.push((server.address() as AddressInfo).port)
}

process.on('message', (message: { chunks: number; chunkMs: number; isStream: boolean }) => {
  ;({ chunks, chunkMs, isStream } = message)
  process.send!({ ok: true })
})
process.on('disconnect', () => process.exit())
process.send!({ ports })
