// Engines that speak HTTP in odd, late, torn or wrong ways. Whatever they do, the client gets an answer, nothing is left
// behind, and no connection in doubt is used again.
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { connect } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { chatFrames } from './fake-engine.case.js'
import type { House } from './house.case.js'
import { chatBody, openHouse, post } from './house.case.js'
import type { GatewayOptions } from './options.js'
import type { RawEngine } from './raw-engine.case.js'
import { chunk, startRawEngine, streamHead } from './raw-engine.case.js'

let house: House | undefined
let engine: RawEngine | undefined

afterEach(async () => {
  await house?.close()
  await engine?.close()
  house = engine = undefined
})

async function open(script: Parameters<typeof startRawEngine>[0], gateway: Partial<GatewayOptions> = {}) {
  engine = await startRawEngine(script)
  house = await openHouse({
    engines: 0,
    gateway,
    model: { workers: [{ id: 1n, url: engine.url, engine: 'vllm' }] },
  })
  return { ...house, engine }
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setImmediate(resolve))
}

/** Writes the pieces a few milliseconds apart. */
async function slowly(socket: Socket, pieces: readonly string[], ms = 3): Promise<void> {
  for (const piece of pieces) {
    if (socket.destroyed) return
    socket.write(piece)
    await new Promise((resolve) => setTimeout(resolve, ms))
  }
}

const frames = chatFrames('m')
const stream = (): Promise<Response> => post(house!.url, '/v1/chat/completions', chatBody({ stream: true }))

it('a trickle of single bytes arrives whole, and is progress', async () => {
  const bytes = streamHead + chunk(frames[0]!) + chunk(frames.at(-1)!) + '0\r\n\r\n'
  await open((socket) => void slowly(socket, Array.from(bytes), 1), { deadlines: { noProgressMs: 2_000 } })
  const response = await stream()
  expect(await response.text()).toBe(frames[0]! + frames.at(-1)!)
})

it('a read of which nothing may be sent yet does not end the stream', async () => {
  const last = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
  const usage = 'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}\n\n'
  const done = 'data: [DONE]\n\n'
  const pieces = [streamHead + chunk(frames[0]!), chunk(last), chunk(usage), chunk(done), '0\r\n\r\n']
  const unasked = pieces.filter((piece) => piece !== chunk(usage))
  await open(
    (socket) => {
      void slowly(socket, unasked)
      socket.once('data', () => void slowly(socket, pieces))
    },
    { usageSampleEvery: 1 },
  )
  for (let at = 0; at < 2; at++) expect(await (await stream()).text()).toBe(frames[0]! + last + done)
})

describe('an engine that stops in the middle', () => {
  const half = frames[1]!.slice(0, 40)
  const rest = [frames[1]!.slice(40), ...frames.slice(2)].map((it) => chunk(it)).join('') + '0\r\n\r\n'
  const before = streamHead + chunk(frames[0]!)

  it.each([
    ['an event', [before + chunk(half), rest]],
    [
      'a chunk',
      [before + chunk(frames[1]! + frames[2]!).slice(0, -20), chunk(frames[1]! + frames[2]!).slice(-20) + rest],
    ],
  ])('of %s is not spoken into while it is silent', async (says, pieces) => {
    await open((socket) => void slowly(socket, pieces, 150), { keepAliveMs: 20 })
    const text = await (await stream()).text()
    const whole =
      says === 'an event'
        ? frames.join('')
        : frames.slice(0, 3).join('') + frames[1]!.slice(40) + frames.slice(2).join('')
    expect(text.replaceAll(/(?<=^|\n\n)(?::.*\n)+\n/g, '')).toBe(whole)
  })

  it('of an event, and breaks off, is told of in an event that can be read', async () => {
    await open((socket) => void socket.end(before + chunk(half)))
    const text = await (await stream()).text()
    const began = `${frames[0]!}${half}\n\n`
    expect(text.startsWith(`${began}data: {"error":`)).toBe(true)
    expect(text.endsWith('}\n\ndata: [DONE]\n\n')).toBe(true)
  })

  it('of a chunk, and breaks off, is cut there: nothing of ours is taken for the rest of it', async () => {
    const cut = chunk(frames[1]!).slice(0, 40)
    await open((socket) => void socket.end(before + cut))
    const body = chatBody({ stream: true })
    const client = connect(Number(new URL(house!.url).port), '127.0.0.1')
    client.write(`POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
    let text = ''
    client.on('data', (bytes: Buffer) => (text += bytes.toString('latin1')))
    await once(client, 'close')
    expect(text.endsWith(chunk(frames[0]!) + cut)).toBe(true)
  })
})

it('chunk extensions and trailers do not reach the payload', async () => {
  await open((socket) => {
    socket.write(streamHead + chunk(frames[0]!, ';name="a value";b') + chunk(frames.at(-1)!, ';c'))
    socket.write('0;last\r\nx-trailer: 1\r\nset-cookie: evil\r\n\r\n')
  })
  const response = await stream()
  expect(await response.text()).toBe(frames[0]! + frames.at(-1)!)
  expect(response.headers.get('set-cookie')).toBeNull()
})

it('interim answers are passed over, also when they come in one read with the real one', async () => {
  const body = '{"ok":true}'
  await open((socket) => {
    socket.write(
      `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    )
  })
  expect(await (await post(house!.url, '/v1/chat/completions', chatBody())).json()).toEqual({ ok: true })
})

it('interim answers without end are no progress', async () => {
  await open(
    (socket) => {
      const timer = setInterval(() => socket.write('HTTP/1.1 100 Continue\r\n\r\n'), 5)
      socket.on('close', () => clearInterval(timer))
    },
    { deadlines: { noProgressMs: 150 } },
  )
  const response = await post(house!.url, '/v1/chat/completions', chatBody())
  expect(response.status).toBe(504)
  expect(await response.text()).toContain('WR_ENGINE_TIMEOUT')
})

it('an answer before the request was taken in is passed on, and its connection is not used again', async () => {
  const refusal = '{"error":{"message":"too long"}}'
  const { gateway } = await open((socket) => {
    socket.pause() // it never reads the rest
    socket.write(
      `HTTP/1.1 413 Payload Too Large\r\ncontent-type: application/json\r\ncontent-length: ${refusal.length}\r\n\r\n${refusal}`,
    )
  })
  const response = await post(house!.url, '/v1/chat/completions', chatBody({ pad: 'x'.repeat(12 * 1024 * 1024) }))
  expect(response.status).toBe(413)
  expect(await response.text()).toBe(refusal)
  await until(() => gateway.engineConnections === 0)
})

it('bytes behind an answer are not taken for the next one', async () => {
  const answer = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}'
  const { engine: raw } = await open(
    (socket) => void socket.write(`${answer}HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil`),
  )
  for (let request = 0; request < 3; request++) {
    const response = await post(house!.url, '/v1/chat/completions', chatBody())
    expect(await response.text()).toBe('{}')
  }
  expect(raw.accepted()).toBe(3)
})

it.each([
  ['a size with a space behind it', `${streamHead}${chunk(frames[0]!, ' ')}`],
  ['an extension that clients may not read', `${streamHead}${chunk(frames[0]!, ';a b')}`],
  ['half a chunk', streamHead + chunk(frames[0]!) + '40\r\nhalf'],
  ['no last chunk', streamHead + chunk(frames[0]!)],
])('a stream that ends with %s ends with an error, or is cut', async (_says, bytes) => {
  await open((socket) => void socket.end(bytes))
  const response = await stream()
  const text = await response.text().catch((error: unknown) => `cut: ${String(error)}`)
  expect(text).toMatch(/WR_ENGINE_(?:DISCONNECTED|PROTOCOL)|^cut/)
})

it.each([
  ['says two lengths', 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}x'],
  ['says a length and chunks', 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n{}'],
  ['folds a header', 'HTTP/1.1 200 OK\r\nx: a\r\n b\r\ncontent-length: 2\r\n\r\n{}'],
  ['has a bare line feed', 'HTTP/1.1 200 OK\ncontent-length: 2\n\n{}\r\n\r\n'],
  ['hides a header in another', 'HTTP/1.1 200 OK\r\nx: a\rset-cookie: b\r\ncontent-length: 2\r\n\r\n{}'],
  ['compresses the transfer', 'HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n'],
])('an engine that %s is refused', async (_says, bytes) => {
  await open((socket) => void socket.end(bytes))
  const response = await post(house!.url, '/v1/chat/completions', chatBody())
  expect(response.status).toBe(502)
  expect(await response.text()).toMatch(/WR_ENGINE_(?:PROTOCOL|DISCONNECTED)/)
})

it('a kept connection that the engine closes as it is used again is replaced, and the client does not notice', async () => {
  const answer = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}'
  const { engine: raw } = await open((socket) => {
    socket.write(answer)
    socket.once('data', () => socket.resetAndDestroy())
  })
  for (let request = 0; request < 4; request++) {
    const response = await post(house!.url, '/v1/chat/completions', chatBody())
    expect([response.status, await response.text()]).toEqual([200, '{}'])
  }
  expect(raw.accepted()).toBe(4)
})

it('a connection that is never made is given up in time, and the request goes elsewhere', async () => {
  engine = await startRawEngine(() => {}) // takes the greeting of TLS and says nothing
  house = await openHouse({ engines: 1, gateway: { deadlines: { connectMs: 60 } } })
  house.gateway.setWorker('m', { id: 9n, url: `https://127.0.0.1:${engine.port}`, engine: 'vllm' })
  for (let request = 0; request < 2; request++) {
    const response = await post(house.url, '/v1/chat/completions', chatBody())
    expect([response.status, response.headers.get('x-warmroute-worker-id')]).toEqual([200, '1'])
    await response.text()
  }
  expect(house.gateway.workers().find(({ id }) => id === '9')!.is_quarantined).toBe(true)
})
