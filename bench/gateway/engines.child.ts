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

const blockIds = Array.from({ length: 56 }, (_, at) => at + 1)
const prefilled = JSON.stringify({
  id: 'chatcmpl-bench',
  object: 'chat.completion',
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'x' }, finish_reason: 'length' }],
  usage: { prompt_tokens: 200, completion_tokens: 1, total_tokens: 201 },
  kv_transfer_params: {
    do_remote_prefill: true,
    do_remote_decode: false,
    remote_block_ids: [blockIds],
    remote_engine_id: '8ab04105-ef9c-453f-b7cf-172e738daab9',
    remote_request_id: 'cmpl-bench-0-ab9f768e',
    remote_host: '127.0.0.1',
    remote_port: 5701,
    tp_size: 1,
    remote_num_tokens: 200,
    transfer_mode: 'pull',
  },
})
const prefillAnswer = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${prefilled.length}\r\n\r\n${prefilled}`

function answer(socket: Socket, isPrefill: boolean): void {
  if (isPrefill) {
    socket.write(prefillAnswer)
    return
  }
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
  let isPrefill = false
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
      isPrefill ||= bytes.includes('"do_remote_decode":true', at) // the gateway writes it as one piece, at the end
      left -= take
      at += take
      if (left > 0) return
      left = -1
      answer(socket, isPrefill)
      isPrefill = false
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
