// Goal: a request that an engine ends while the client has nothing of its answer goes to another worker where there is one; otherwise the client has the engine's bytes.
// Method: scripted engines say `abort` as a vLLM that is stopping does, whole and in streams.
import { describe, expect, it } from 'vitest'
import { createMetrics } from '../telemetry/index.js'
import type { Responder } from './fake-engine.case.js'
import { chatFrames } from './fake-engine.case.js'
import { chatBody, houseOfEachTest, post } from './house.case.js'

const open = houseOfEachTest()
const [role, token] = chatFrames('m') as [string, string]
const frame = (choice: object): string =>
  `data: ${JSON.stringify({ id: 'x', model: 'm', choices: [{ index: 0, ...choice }] })}\n\n`
const aborted = frame({ delta: { content: '' }, finish_reason: 'abort' })
const done = 'data: [DONE]\n\n'

function wholeOf(content: string, spaces = 0): string {
  return JSON.stringify(
    { choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'abort' }] },
    null,
    spaces,
  )
}

const whole =
  (text: string, status = 200): Responder =>
  (_request, response) =>
    void response
      .writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) })
      .end(text)

const stream =
  (text: string): Responder =>
  (_request, response) =>
    void response.writeHead(200, { 'content-type': 'text/event-stream' }).end(text)

const unstarted: readonly [says: string, path: string, body: object, responder: Responder, text: string][] = [
  ['in one piece', '/v1/chat/completions', {}, whole(wholeOf('')), wholeOf('')],
  ['in one piece, behind some text', '/v1/chat/completions', {}, whole(wholeOf('one two')), wholeOf('one two')],
  ['in one piece, with spaces', '/v1/chat/completions', {}, whole(wholeOf('', 1)), wholeOf('', 1)],
  [
    'in the first read of a stream',
    '/v1/chat/completions',
    { stream: true },
    stream(role + aborted + done),
    role + aborted + done,
  ],
  [
    'in a stream of completions',
    '/v1/completions',
    { stream: true, prompt: 'count' },
    stream(frame({ text: '', finish_reason: 'abort' }) + done),
    frame({ text: '', finish_reason: 'abort' }) + done,
  ],
]

describe.each(unstarted)('an abort %s', (_says, path, more, responder, text) => {
  it('is answered by another worker, counted, and nothing stays booked on the first', async () => {
    const metrics = createMetrics()
    const { url, engines, loads, gateway } = await open({ gateway: { metrics } })
    engines[0]!.respond = responder
    const response = await post(url, path, chatBody(more))
    expect([response.status, response.headers.get('x-warmroute-worker-id')]).toEqual([200, '2'])
    expect(await response.text()).toContain('four')
    expect(engines.map(({ seen }) => seen.length)).toEqual([1, 1])
    expect(metrics.requestsRetried.with({ model: 'm' }).value).toBe(1)
    expect((await loads()).map(({ activeRequests }) => activeRequests)).toEqual([0, 0])
    expect(gateway.workers().map(({ faults }) => faults)).toEqual([0, 0])
  })

  it('that every engine gives is the answer, after two of them', async () => {
    const { url, engines } = await open({ engines: 3, respond: responder })
    const response = await post(url, path, chatBody(more))
    expect([response.status, await response.text()]).toEqual([200, text])
    expect(engines.reduce((sum, { seen }) => sum + seen.length, 0)).toBe(2)
  })

  it('is the answer where nobody else serves the model', async () => {
    const { url, engines } = await open({ engines: 1, respond: responder })
    const response = await post(url, path, chatBody(more))
    expect([response.status, await response.text()]).toEqual([200, text])
    expect(engines[0]!.seen).toHaveLength(1)
  })

  it('is the answer of a worker that the client named', async () => {
    const { url, engines } = await open({ respond: responder })
    const response = await post(url, path, chatBody(more), { 'x-dynamo-worker-instance-id': '2' })
    expect([response.status, await response.text()]).toEqual([200, text])
    expect(engines.map(({ seen }) => seen.length)).toEqual([0, 1])
  })
})

/** As a vLLM 0.32.0 answered between SIGTERM and its end. */
const dead = JSON.stringify({
  error: {
    message: 'EngineCore encountered an issue. See stack trace (above) for the root cause.',
    type: 'InternalServerError',
    param: null,
    code: 500,
  },
})

describe.each([{}, { stream: true }])('the words of a server whose engine is dead, %j', (more) => {
  it('are no answer where another worker can give one', async () => {
    const { url, engines } = await open()
    engines[0]!.respond = whole(dead, 500)
    const response = await post(url, '/v1/chat/completions', chatBody(more))
    expect([response.status, await response.text()]).toEqual([200, expect.stringContaining('four')])
    expect(engines.map(({ seen }) => seen.length)).toEqual([1, 1])
  })

  it('are the answer where nobody else can', async () => {
    const { url } = await open({ engines: 1, respond: whole(dead, 500) })
    const response = await post(url, '/v1/chat/completions', chatBody(more))
    expect([response.status, await response.text()]).toEqual([500, dead])
  })
})

it('an engine that fails at a request and lives is not replaced: the next would fail at it, too', async () => {
  const failed = dead.replace(/EngineCore[^"]*/, 'list index out of range')
  const { url, engines } = await open({ respond: whole(failed, 500) })
  const response = await post(url, '/v1/chat/completions', chatBody({}))
  expect([response.status, await response.text()]).toEqual([500, failed])
  expect(engines[0]!.seen.length + engines[1]!.seen.length).toBe(1)
})

it.each([
  ['behind a token', { stream: true }, stream(role + token + aborted + done), role + token + aborted + done],
  [
    'of which only a text speaks',
    {},
    whole(wholeOf('say "abort", or {"finish_reason":"abort"}').replace(/"abort"(?=}]}$)/, '"stop"')),
    wholeOf('say "abort", or {"finish_reason":"abort"}').replace(/"abort"(?=}]}$)/, '"stop"'),
  ],
])('an abort %s passes as it came', async (_says, more, respond, text) => {
  const { url, engines } = await open({ respond })
  expect(await (await post(url, '/v1/chat/completions', chatBody(more))).text()).toBe(text)
  expect(engines[0]!.seen.length + engines[1]!.seen.length).toBe(1)
})

it('a stream whose first read says nothing yet is passed on at once, whatever follows', async () => {
  let go = (): void => {}
  const gate = new Promise<void>((resolve) => (go = resolve))
  const { url, engines } = await open({
    respond: async (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write(role)
      await gate
      response.end(aborted + done)
    },
  })
  const response = await post(url, '/v1/chat/completions', chatBody({ stream: true }))
  const reader = response.body!.getReader()
  let text = Buffer.from((await reader.read()).value!).toString() // the engine waits for this
  expect(text).toBe(role)
  go()
  for (let part = await reader.read(); !part.done; part = await reader.read())
    text += Buffer.from(part.value).toString()
  expect(text).toBe(role + aborted + done)
  expect(engines[0]!.seen.length + engines[1]!.seen.length).toBe(1)
})
