// Goal: whoever sends bytes that are no request is told so in a typed error, once, and nothing of it reaches an engine or ends the gateway.
// Method: bare sockets, each fault as bytes; what comes back is read to the end of the connection.
import { connect, createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { createMetrics } from '../telemetry/index.js'
import { chatBody, houseOfEachTest } from './house.case.js'
import type { House } from './house.case.js'
import { chatFrames } from './fake-engine.case.js'
import { Callers } from './http/callers.js'
import { refuseUnreadable } from './http/unreadable.js'

const open = houseOfEachTest()
const clients = new Set<Socket>()

afterEach(() => {
  for (const client of clients) client.destroy()
  clients.clear()
})

function dial({ url }: House): Socket {
  const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1', allowHalfOpen: true })
  socket.on('error', () => {})
  clients.add(socket)
  return socket
}

/** All that comes back until the other side closes. */
function readAll(socket: Socket): Promise<string> {
  return new Promise((resolve) => {
    let text = ''
    socket.on('data', (part) => (text += part.toString('latin1')))
    socket.on('end', () => resolve(text))
    socket.on('close', () => resolve(text))
  })
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setImmediate(resolve))
}

interface Answer {
  readonly status: number
  readonly headers: string
  readonly body: { readonly error?: { readonly code?: string; readonly type?: string; readonly message?: string } }
}

/** Exactly one answer, with the length that it says it has. */
function answerIn(text: string): Answer {
  const [headers, body] = text.split('\r\n\r\n') as [string, string]
  expect(text.match(/^HTTP\/1\.1 \d/gm)).toHaveLength(1)
  expect(headers).toMatch(/content-type: application\/json/i)
  expect(headers.match(/content-length: (\d+)/i)?.[1]).toBe(String(body.length))
  return { status: Number(text.slice(9, 12)), headers, body: JSON.parse(body) as Answer['body'] }
}

const line = 'POST /v1/chat/completions HTTP/1.1\r\n'
const faults: readonly [says: string, bytes: string, status: number, code: string][] = [
  ['rubbish', 'BLA BLA\r\n\r\n', 400, 'WR_INVALID_HTTP'],
  ['a handshake for TLS', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 400, 'WR_INVALID_HTTP'],
  ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400, 'WR_INVALID_HTTP'],
  ['a version that is not', 'GET /live HTTP/9.9\r\nhost: x\r\n\r\n', 400, 'WR_INVALID_HTTP'],
  ['a line break in a header', `${line}host: x\r\nx-a: b\rx-evil: 1\r\n\r\n`, 400, 'WR_INVALID_HTTP'],
  ['a header without a name', `${line}host: x\r\n: b\r\n\r\n`, 400, 'WR_INVALID_HTTP'],
  ['two lengths', `${line}host: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n`, 400, 'WR_INVALID_HTTP'],
  ['two framings', `${line}host: x\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n`, 400, 'WR_INVALID_HTTP'],
  ['a chunk without a size', `${line}host: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n`, 400, 'WR_INVALID_HTTP'],
  [
    'endless extensions of a chunk',
    `${line}host: x\r\ntransfer-encoding: chunked\r\n\r\n2;${'e'.repeat(20_000)}\r\n{}\r\n`,
    413,
    'WR_BODY_TOO_LARGE',
  ],
  ['a head that is too long', `${line}host: x\r\nx-a: ${'b'.repeat(70_000)}\r\n\r\n`, 431, 'WR_HEADERS_TOO_LARGE'],
  [
    'a wish for a tunnel',
    'CONNECT somewhere:443 HTTP/1.1\r\nhost: somewhere:443\r\n\r\n',
    405,
    'WR_METHOD_NOT_ALLOWED',
  ],
]

describe.each(faults)('%s', (_says, bytes, status, code) => {
  it('is answered with a typed error and counted, and its connection is closed', async () => {
    const metrics = createMetrics()
    const house = await open({ engines: 1, gateway: { metrics } })
    const socket = dial(house)
    socket.write(bytes, 'latin1')
    const answer = answerIn(await readAll(socket))
    expect(answer).toMatchObject({ status, body: { error: { code, type: 'invalid_request_error' } } })
    expect(answer.headers).toMatch(/connection: close/i)
    expect(answer.body.error!.message).not.toMatch(/BLA|x-evil|bbbb|eeee/)
    expect(metrics.unreadableRequests.with({ code }).value).toBe(1)
    await until(() => house.gateway.inFlight === 0)
    expect(house.engines[0]!.seen).toHaveLength(0)
    expect((await fetch(`${house.url}/live`)).status).toBe(200)
  })

  it('is borne from a client that does not wait for the answer', async () => {
    const metrics = createMetrics()
    const house = await open({ engines: 1, gateway: { metrics } })
    const socket = dial(house)
    socket.write(bytes, 'latin1', () => socket.resetAndDestroy())
    await new Promise((resolve) => socket.once('close', resolve))
    expect((await fetch(`${house.url}/live`)).status).toBe(200)
  })
})

it.each([
  ['a head without a host', 'GET /live HTTP/1.1\r\n\r\n', 400, 'WR_INVALID_HTTP'],
  ['a head of very many lines', `GET /live HTTP/1.1\r\n${lines(128)}host: x\r\n\r\n`, 431, 'WR_HEADERS_TOO_LARGE'],
  ['a strange expectation', 'GET /live HTTP/1.1\r\nhost: x\r\nexpect: tea\r\n\r\n', 417, 'WR_EXPECTATION_FAILED'],
])('%s is refused with a typed error', async (_says, bytes, status, code) => {
  const socket = dial(await open({ engines: 1 }))
  const text = readAll(socket)
  socket.end(bytes)
  expect(answerIn(await text)).toMatchObject({ status, body: { error: { code } } })
})

it('a head may have as many lines as anybody sends', async () => {
  const socket = dial(await open({ engines: 1 }))
  const text = readAll(socket)
  socket.end(`GET /live HTTP/1.1\r\n${lines(126)}host: x\r\nconnection: close\r\n\r\n`)
  expect(await text).toMatch(/^HTTP\/1\.1 200/)
})

function lines(count: number): string {
  return Array.from({ length: count }, (_, at) => `x-${at}: 1\r\n`).join('')
}

it('HTTP/1.0 needs no host', async () => {
  const socket = dial(await open({ engines: 1 }))
  const text = readAll(socket)
  socket.end('GET /live HTTP/1.0\r\n\r\n')
  expect(await text).toMatch(/^HTTP\/1\.1 200/)
})

describe("on Anthropic's routes the error has its shape", () => {
  it.each([
    ['a fault in the head', 'POST /v1/messages HTTP/1.1\r\nhost: x\r\n: b\r\n\r\n', ''],
    ['a fault in the body', 'POST /v1/messages HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n', 'zz\r\n'],
    ['no host', 'POST /v1/messages HTTP/1.1\r\ncontent-length: 2\r\n\r\n', '{}'],
  ])('%s', async (_says, head, rest) => {
    const house = await open({ engines: 1 })
    const socket = dial(house)
    const text = readAll(socket)
    socket.write(head)
    if (rest !== '') await until(() => house.gateway.inFlight === 1 || head.includes('content-length'))
    socket.end(rest)
    expect(answerIn(await text).body).toMatchObject({ type: 'error', error: { type: 'invalid_request_error' } })
  })

  it('and is flat where upstream is followed strictly', async () => {
    const socket = dial(await open({ engines: 1, gateway: { strict: 'dynamo' } }))
    socket.write('BLA\r\n\r\n')
    expect(answerIn(await readAll(socket)).body).toMatchObject({ type: 'Bad Request', code: 400 })
  })
})

it.each([
  ['rubbish', 'BLA BLA\r\n\r\n'],
  ['a wish for a tunnel', 'CONNECT somewhere:443 HTTP/1.1\r\nhost: somewhere:443\r\n\r\n'],
])('%s behind a stream that has begun ends the connection, and is no part of the stream', async (_says, bytes) => {
  const first = chatFrames('m')[0]!
  const house = await open({
    engines: 1,
    respond: (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(first)
    },
  })
  const socket = dial(house)
  let text = ''
  socket.on('data', (part) => (text += part.toString('latin1')))
  const body = chatBody({ stream: true })
  socket.write(`${line}host: x\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
  await until(() => text.includes(first))
  const before = text
  const closed = new Promise((resolve) => socket.once('close', resolve).once('end', resolve))
  const aborted = house.engines[0]!.nextAbort()
  socket.write(bytes)
  await Promise.all([closed, aborted])
  expect(text).toBe(before)
})

it('a head that does not come is answered with 408', async () => {
  const counted = createMetrics().unreadableRequests
  const options = { callers: new Callers(), shape: 'openai' as const, overloadStatus: 529, counted }
  const late = Object.assign(new Error('late'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' })
  const server = createServer((socket) => {
    refuseUnreadable(late, socket, options)
    refuseUnreadable(late, socket, options) // once is enough
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  const answer = answerIn(await readAll(socket))
  expect(answer).toMatchObject({ status: 408, body: { error: { code: 'WR_HEADERS_TIMEOUT' } } })
  expect(counted.with({ code: 'WR_HEADERS_TIMEOUT' }).value).toBe(1)
  await new Promise((resolve) => server.close(resolve))
})

it('a connection that broke is closed without a word, and not counted', async () => {
  const counted = createMetrics().unreadableRequests
  const options = { callers: new Callers(), shape: 'openai' as const, overloadStatus: 529, counted }
  const server = createServer((socket) => {
    refuseUnreadable(Object.assign(new Error('reset'), { code: 'ECONNRESET' }), socket, options)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  expect(await readAll(socket)).toBe('')
  expect(counted.with({ code: 'WR_INVALID_HTTP' }).value).toBe(0)
  await new Promise((resolve) => server.close(resolve))
})
