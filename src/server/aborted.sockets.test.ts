// Goal: an engine that ends a request which nobody gave up is replaced, and is never an empty answer.
// Method: scripted engines say `abort` as a vLLM that is stopping does, whole and in streams, in one read and in several.
import type { ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import { createMetrics } from '../telemetry/index.js'
import type { Responder } from './fake-engine.case.js'
import { chatFrames } from './fake-engine.case.js'
import { chatBody, errorOf, houseOfEachTest, post } from './house.case.js'

const open = houseOfEachTest()
const served = chatFrames('m')
const role = served[0]!
const frame = (choice: object): string =>
  `data: ${JSON.stringify({ id: 'x', model: 'm', choices: [{ index: 0, ...choice }] })}\n\n`
const ended = `${frame({ delta: { content: '' }, finish_reason: 'abort' })}data: [DONE]\n\n`
const stream = (response: ServerResponse) => response.writeHead(200, { 'content-type': 'text/event-stream' })
const abortedBody = (spaced: boolean): string =>
  JSON.stringify(
    { choices: [{ index: 0, message: { role: 'assistant', content: '' }, finish_reason: 'abort' }] },
    null,
    spaced ? 1 : 0,
  )

/** Writes one piece per turn of the loop, so that each is a read of its own. */
const inPieces =
  (...pieces: string[]): Responder =>
  async (_request, response) => {
    stream(response)
    for (const piece of pieces) {
      response.write(piece)
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    response.end()
  }
const whole =
  (text: string, length: object): Responder =>
  (_request, response) =>
    void response.writeHead(200, { 'content-type': 'application/json', ...length }).end(text)
const known = (text: string): Responder => whole(text, { 'content-length': Buffer.byteLength(text) })

const ways: readonly [name: string, path: string, body: object, responder: Responder][] = [
  ['in one piece', '/v1/chat/completions', {}, known(abortedBody(false))],
  ['in one piece, with spaces', '/v1/chat/completions', {}, known(abortedBody(true))],
  [
    'in chunks of unknown length',
    '/v1/chat/completions',
    {},
    whole(abortedBody(false), { 'transfer-encoding': 'chunked' }),
  ],
  ['in the first read of a stream', '/v1/chat/completions', { stream: true }, inPieces(role + ended)],
  ['in the second read of a stream', '/v1/chat/completions', { stream: true }, inPieces(role, ended)],
  [
    'in a stream of completions',
    '/v1/completions',
    { stream: true, prompt: 'count' },
    inPieces(frame({ text: '', finish_reason: 'abort' })),
  ],
]

describe.each(ways)('an abort %s', (_name, path, more, responder) => {
  it('is answered by another worker, counted, and nothing stays booked on the first', async () => {
    const metrics = createMetrics()
    const { url, engines, loads } = await open({ gateway: { metrics } })
    engines[0]!.respond = responder
    const response = await post(url, path, chatBody(more))
    expect([response.status, response.headers.get('x-warmroute-worker-id')]).toEqual([200, '2'])
    expect(await response.text()).toContain('four')
    expect(engines.map(({ seen }) => seen.length)).toEqual([1, 1])
    expect(metrics.requestsRetried.with({ model: 'm' }).value).toBe(1)
    expect((await loads()).map(({ activeRequests }) => activeRequests)).toEqual([0, 0])
  })

  it('is a typed 503 where nobody else is left, and its worker is asked again', async () => {
    const { url, engines } = await open({ engines: 1, respond: responder })
    for (const asked of [1, 2]) {
      const error = await errorOf(await post(url, path, chatBody(more)))
      expect(error).toMatchObject({ status: 503, code: 'WR_ENGINE_ABORTED', type: 'service_unavailable' })
      expect(engines[0]!.seen).toHaveLength(asked)
    }
  })
})

it('asks one other worker, not all', async () => {
  const { url, engines } = await open({ engines: 3, respond: known(abortedBody(false)) })
  expect((await errorOf(await post(url, '/v1/chat/completions', chatBody()))).status).toBe(503)
  expect(engines.reduce((sum, { seen }) => sum + seen.length, 0)).toBe(2)
})

it.each([
  ['after a token', [role, served[1]!, ended]],
  ['of which a text speaks', [role, frame({ delta: { content: '"finish_reason":"abort"' }, finish_reason: 'stop' })]],
  ['in the third read', [role, ': nothing yet\n\n', ended]],
])('an abort %s passes untouched', async (_name, pieces) => {
  const { url, engines } = await open({ respond: inPieces(...pieces) })
  const response = await post(url, '/v1/chat/completions', chatBody({ stream: true }))
  expect(await response.text()).toBe(pieces.join(''))
  expect(engines[0]!.seen.length + engines[1]!.seen.length).toBe(1)
})

it('a whole answer whose text speaks of an abort passes untouched', async () => {
  const content = 'say "abort", or {"finish_reason":"abort"}'
  const text = JSON.stringify({ choices: [{ message: { content }, finish_reason: 'stop' }] })
  const { url } = await open({ respond: known(text) })
  expect(await (await post(url, '/v1/chat/completions', chatBody())).text()).toBe(text)
})

describe('a stream that says nothing yet', () => {
  it('is passed on as it is where a comment is due', async () => {
    let go = (): void => {}
    const gate = new Promise<void>((resolve) => (go = resolve))
    const respond: Responder = async (_request, response) => {
      stream(response).write(role)
      await gate
      response.end(served.slice(1).join(''))
    }
    const { url } = await open({ engines: 1, respond, gateway: { keepAliveMs: 20 } })
    const response = await post(url, '/v1/chat/completions', chatBody({ stream: true }))
    expect(response.headers.get('x-warmroute-worker-id')).toBe('1')
    go()
    expect((await response.text()).replace(/^:\n\n/gm, '')).toBe(served.join(''))
  })

  it('is passed on where it ends with that', async () => {
    const { url } = await open({ engines: 1, respond: inPieces(role) })
    expect(await (await post(url, '/v1/chat/completions', chatBody({ stream: true }))).text()).toBe(role)
  })

  it('moves to another worker when its connection breaks', async () => {
    const { url, engines } = await open()
    engines[0]!.respond = (_request, response) => {
      stream(response).write(role)
      setTimeout(() => response.destroy(), 20)
    }
    const response = await post(url, '/v1/chat/completions', chatBody({ stream: true }))
    expect(await response.text()).toBe(served.join(''))
    expect(response.headers.get('x-warmroute-worker-id')).toBe('2')
  })

  it('ends with its client, and nobody else is asked', async () => {
    const respond: Responder = (_request, response) => void stream(response).write(role)
    const { url, engines, gateway } = await open({ respond })
    const client = new AbortController()
    const left = engines[0]!.nextAbort()
    const pending = fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: chatBody({ stream: true }),
      signal: client.signal,
    })
    while (engines[0]!.seen.length === 0) await new Promise((resolve) => setImmediate(resolve))
    client.abort()
    await expect(pending).rejects.toThrow()
    await left
    while (gateway.inFlight > 0) await new Promise((resolve) => setImmediate(resolve))
    expect(engines[1]!.seen).toHaveLength(0)
  })
})
