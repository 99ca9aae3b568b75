import type { Attributes, Span, Tracer } from '@opentelemetry/api'
import { propagation, trace } from '@opentelemetry/api'
import { readFileSync } from 'node:fs'
import { get } from 'node:https'
import { describe, expect, it, vi } from 'vitest'
import { InProcessRouter } from '../routing/index.js'
import { createLog, createMetrics } from '../telemetry/index.js'
import { chatFrames } from './fake-engine.case.js'
import { chatBody, houseOfEachTest, post } from './house.case.js'

const open = houseOfEachTest()

describe('metrics of our own', () => {
  it('show workers while they are there, and what was predicted and reported', async () => {
    const metrics = createMetrics()
    const { url, gateway } = await open({ engines: 2, gateway: { metrics } })
    for (const stream of [false, false, true, true])
      await (await post(url, '/v1/chat/completions', chatBody({ stream }))).text()
    const before = await (await fetch(`${url}/metrics`)).text()
    expect(before).toContain('warmroute_worker_mode{mode="approximate",model="m",worker="2"} 1')
    expect(before).toContain('warmroute_worker_mode{mode="exact",model="m",worker="2"} 0')
    expect(before).toContain('warmroute_worker_available{model="m",worker="2"} 1')
    expect(before).toContain('warmroute_cached_tokens_total{model="m",source="reported",worker="2"} 16')
    expect(before).toContain('dynamo_frontend_worker_last_time_to_first_token_seconds{dp_rank="0",worker_id="2"')
    expect(before).toMatch(/warmroute_event_loop_delay_seconds\{quantile="0.99"\} [\d.]+/)
    expect(before).toContain('{quantile="0.999"}')
    gateway.removeWorker(2n)
    const after = await (await fetch(`${url}/metrics`)).text()
    expect(after).not.toContain('worker="2"')
    expect(after).not.toContain('worker_id="2"')
  })

  it('count the way to a worker until something of its answer is there, not until its head', async () => {
    const metrics = createMetrics()
    let lateMs = 0
    const deadlines = { noProgressMs: 0, totalMs: 7_200_000 }
    const now = (): number => performance.now() + lateMs
    const { url, engines } = await open({ engines: 1, gateway: { metrics, now, deadlines } })
    engines[0]!.respond = async (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
      await new Promise((resolve) => setTimeout(resolve, 50)) // the head is read, and then nothing for an hour
      lateMs = 3_600_000
      response.end('data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\ndata: [DONE]\n\n')
    }
    await (await post(url, '/v1/chat/completions', chatBody({ stream: true }))).text()
    expect(metrics.requestPlaneRoundtrip.with().sum).toBeGreaterThan(3_600)
    expect(metrics.stageDuration.with({ stage: 'transport_roundtrip' }).sum).toBeGreaterThan(3_600)
    expect(metrics.stageRequests.with({ stage: 'dispatch', phase: 'aggregated' }).value).toBe(0)
  })

  it('count every prompt of a batch, and compare its caches with nothing: only those of the first were looked at', async () => {
    const router = await InProcessRouter.create({ blockSize: 16, config: { useKvEvents: false } })
    const { url } = await open({ engines: 1, router })
    const prompt = [32, 64, 16].map((length) => Array.from({ length }, (_, at) => at))
    const ask = async (body: object): Promise<string> => {
      await (await post(url, '/v1/completions', JSON.stringify({ model: 'm', ...body }))).text()
      return (await fetch(`${url}/metrics`)).text()
    }
    const batch = await ask({ prompt })
    expect(batch).toContain('warmroute_routed_prompt_tokens_total{model="m",worker="1"} 112')
    expect(batch).toContain('warmroute_cached_tokens_total{model="m",source="reported",worker="1"} 16')
    expect(batch).not.toContain('warmroute_compared_cached_tokens_total{')
    const single = await ask({ prompt: prompt.slice(0, 1) })
    expect(single).toContain('warmroute_routed_prompt_tokens_total{model="m",worker="1"} 144')
    expect(single).toContain('warmroute_compared_cached_tokens_total{model="m",source="reported",worker="1"} 16')
  })

  it('count the tokens of a stream once, though the client said `1` where only engines read a yes', async () => {
    const metrics = createMetrics()
    const { url, engines } = await open({ engines: 1, gateway: { metrics } })
    engines[0]!.respond = (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.end(chatFrames('m').join(''))
    }
    await (await post(url, '/v1/chat/completions', chatBody({ stream: true }))).text()
    const streamed = metrics.outputTokens.with({ model: 'm' }).value
    await (await post(url, '/v1/chat/completions', chatBody({ stream: 1 }))).text()
    expect([streamed > 1, metrics.outputTokens.with({ model: 'm' }).value]).toEqual([true, 2 * streamed])
  })

  it('count what the engine reports where its events hold several tokens', async () => {
    const metrics = createMetrics()
    const { url, engines } = await open({ engines: 1, gateway: { metrics } })
    const usage = { prompt_tokens: 5, completion_tokens: 7 }
    engines[0]!.respond = (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write('data: {"choices":[{"index":0,"delta":{"content":"one two three"}}]}\n\n')
      response.end(`data: {"choices":[],"usage":${JSON.stringify(usage)}}\n\ndata: [DONE]\n\n`)
    }
    const options = { stream: true, stream_options: { include_usage: true } }
    await (await post(url, '/v1/chat/completions', chatBody(options))).text()
    expect(metrics.outputTokens.with({ model: 'm' }).value).toBe(7)
    expect(metrics.outputSequenceTokens.with({ model: 'm' }).sum).toBe(7)
  })

  it('compare no caches where tokens are unknown and nothing else is remembered of a worker', async () => {
    const router = await InProcessRouter.create({ blockSize: 16, config: { useKvEvents: false } })
    const { url, gateway, engines } = await open({ engines: 1, router })
    const compared = async (): Promise<string[]> => {
      await (await post(url, '/v1/chat/completions', chatBody())).text() // without a tokenizer
      const text = await (await fetch(`${url}/metrics`)).text()
      return text.match(/^warmroute_compared_cached_tokens_total\{.*"reported".*/gm) ?? []
    }
    gateway.setWorker('m', { id: 1n, url: engines[0]!.url, engine: 'vllm', mode: 'exact' })
    expect(await compared()).toEqual([])
    gateway.setWorker('m', { id: 1n, url: engines[0]!.url, engine: 'vllm', mode: 'approximate' })
    expect(await compared()).toEqual([expect.stringMatching(/ 16$/)])
  })

  it('take the first tokens of streams alone: of a whole answer nobody knows when it began', async () => {
    const router = await InProcessRouter.create({ blockSize: 16, config: { useKvEvents: false } })
    const { url } = await open({ engines: 1, router })
    const counts = async (): Promise<unknown[]> => {
      const text = await (await fetch(`${url}/metrics`)).text()
      const names = ['frontend_time_to_first_token_seconds_count', 'component_router_time_to_first_token_seconds_count']
      const seen = names.map((name) => Number(new RegExp(`^dynamo_${name}\\{.*\\} (\\d+)$`, 'm').exec(text)?.[1]))
      return [
        ...seen,
        ...['time_to_first_token_seconds', 'input_sequence_tokens'].map((it) => text.includes(`last_${it}{`)),
      ]
    }
    await (await post(url, '/v1/chat/completions', chatBody())).text()
    expect(await counts()).toEqual([0, 0, false, true])
    await (await post(url, '/v1/chat/completions', chatBody({ stream: true }))).text()
    expect(await counts()).toEqual([1, 1, true, true])
  })

  it('keep the time between tokens that a stream showed, since a whole answer shows none', async () => {
    const metrics = createMetrics()
    const { url, engines } = await open({ engines: 1, gateway: { metrics } })
    const whole = engines[0]!.respond
    let sendRest = (): void => {}
    engines[0]!.respond = (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write('data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n')
      sendRest = () => void response.end('data: {"choices":[{"index":0,"delta":{"content":"y"}}]}\n\ndata: [DONE]\n\n')
    }
    const stream = (await post(url, '/v1/chat/completions', chatBody({ stream: true }))).body!.getReader()
    expect((await stream.read()).done).toBe(false)
    sendRest() // the first token has come and gone by now
    while (!(await stream.read()).done);
    const labels = { worker_id: '1', dp_rank: '0', worker_type: 'decode' }
    const shown = metrics.workerLastInterTokenLatency.with(labels).value
    expect(shown).toBeGreaterThan(0)
    engines[0]!.respond = whole
    await (await post(url, '/v1/chat/completions', chatBody())).text()
    expect(metrics.workerLastInterTokenLatency.with(labels).value).toBe(shown)
  })

  it('say of served models alone whether they are ready', async () => {
    const { url, gateway } = await open({ engines: 1 })
    await (await post(url, '/v1/chat/completions', chatBody({ model: 'nope' }))).text()
    const lines = async (): Promise<string[]> =>
      (await (await fetch(`${url}/metrics`)).text())
        .split('\n')
        .filter((it) => it.startsWith('dynamo_frontend_model_ready'))
    expect(await lines()).toEqual(['dynamo_frontend_model_ready{model="m"} 1'])
    gateway.removeWorker(1n)
    expect(await lines()).toEqual(['dynamo_frontend_model_ready{model="m"} 0'])
  })

  it('compare nothing where nobody looked at a cache, and say nothing of it to the client', async () => {
    const metrics = createMetrics()
    const { url } = await open({ engines: 1, gateway: { metrics } }) // takes turns
    const answer = await post(url, '/v1/chat/completions', chatBody())
    expect(answer.headers.get('x-warmroute-worker-id')).toBe('1')
    expect(answer.headers.get('x-warmroute-cached-tokens')).toBeNull()
    await answer.text()
    const text = await (await fetch(`${url}/metrics`)).text()
    expect(text).toContain('warmroute_cached_tokens_total{model="m",source="reported",worker="1"} 16')
    expect(text).not.toMatch(/^warmroute_compared_cached_tokens_total\{/m)
    expect(text).not.toMatch(/^warmroute_cached_tokens_total\{.*source="predicted"/m)
  })

  it('time embeddings apart from other requests', async () => {
    const metrics = createMetrics()
    const { url, engines } = await open({ engines: 1, gateway: { metrics } })
    const latency = (): number => metrics.embeddingLatency.with({ model: 'm' }).count
    await (await post(url, '/v1/chat/completions', chatBody())).text()
    expect(latency()).toBe(0)
    engines[0]!.respond = (_request, response) =>
      void response.writeHead(200, { 'content-type': 'application/json' }).end('{"object":"list","data":[]}')
    const embedded = await post(url, '/v1/embeddings', JSON.stringify({ model: 'm', input: 'a text' }))
    expect([embedded.status, await embedded.text()]).toEqual([200, '{"object":"list","data":[]}'])
    await vi.waitFor(() => expect(latency()).toBe(1))
  })

  it('say why requests were refused, and how many were moved', async () => {
    const metrics = createMetrics()
    const { url, engines, gateway } = await open({ engines: 2, gateway: { metrics } })
    engines[0]!.respond = (_request, response) => void response.destroy()
    await (await post(url, '/v1/chat/completions', chatBody())).text()
    expect(metrics.requestsRetried.with({ model: 'm' }).value).toBe(1)
    expect(metrics.modelMigrations.with({ model: 'm', migration_type: 'new_request' }).value).toBe(1)
    for (const id of [1n, 2n]) gateway.removeWorker(id)
    await (await post(url, '/v1/chat/completions', chatBody())).text()
    expect(metrics.requestsShed.with({ model: 'm', reason: 'not_ready' }).value).toBe(1)
  })
})

it('makes one span per request, and tells it how the request ended', async () => {
  const ended: { name: string; attributes: Attributes; events: string[] }[] = []
  const tracer = {
    startSpan(name: string, options: { attributes: Attributes }) {
      const record = { name, attributes: { ...options.attributes }, events: [] as string[] }
      return {
        setAttributes: (more: Attributes) => Object.assign(record.attributes, more),
        addEvent: (event: string) => record.events.push(event),
        setStatus: () => {},
        end: () => ended.push(record),
        spanContext: () => ({ traceId: '', spanId: '', traceFlags: 0 }),
      } as unknown as Span
    },
  } as unknown as Tracer
  const { url } = await open({ engines: 1, gateway: { tracer } })
  await (await post(url, '/v1/chat/completions', chatBody({ stream: true }), { 'x-request-id': 'mine' })).text()
  await (await post(url, '/v1/chat/completions', chatBody({ model: 'nope' }))).text()
  while (ended.length < 2) await new Promise((resolve) => setImmediate(resolve))
  expect(ended[0]).toMatchObject({
    name: 'warmroute.request',
    events: ['first_token'],
    attributes: {
      'warmroute.request_id': 'mine',
      'warmroute.model': 'm',
      'warmroute.worker_id': '1',
      'http.response.status_code': 200,
      'warmroute.output_tokens': 4,
    },
  })
  expect(ended[1]!.attributes['http.response.status_code']).toBe(404)
})

it('takes the tracer of the SDK that the process has, and the engine is told our context', async () => {
  const names: string[] = []
  const span = { setAttributes() {}, addEvent() {}, setStatus() {}, end() {}, spanContext: () => ({}) }
  const tracer = {
    startSpan(name: string) {
      names.push(name)
      return span as unknown as Span
    },
  } as unknown as Tracer
  trace.setGlobalTracerProvider({ getTracer: () => tracer })
  propagation.setGlobalPropagator({
    extract: (context) => context,
    inject: (context, carrier: Record<string, string>) => {
      if (trace.getSpan(context)) carrier['traceparent'] = 'ours'
    },
    fields: () => ['traceparent'],
  })
  try {
    const { url, engines } = await open({ engines: 1 })
    await (await post(url, '/v1/chat/completions', chatBody(), { traceparent: 'theirs' })).text()
    expect(names).toEqual(['warmroute.request'])
    expect(engines[0]!.seen[0]!.headers['traceparent']).toBe('ours')
  } finally {
    trace.disable()
    propagation.disable()
  }
})

it('logs states and requests, and never a prompt or a key', async () => {
  let text = ''
  const log = createLog({ level: 'debug', to: { write: (line: string) => void (text += line) } })
  const { url, gateway, engines } = await open({ engines: 1, gateway: { log } })
  gateway.setWorker('m', { id: 9n, url: engines[0]!.url, engine: 'vllm', apiKey: 'sk-secret' })
  await (
    await post(url, '/v1/chat/completions', chatBody({ messages: [{ role: 'user', content: 'my diary' }] }), {
      'x-request-id': 'r7',
      authorization: 'Bearer sk-client',
    })
  ).text()
  await (await post(url, '/v1/chat/completions', '{"my diary')).text()
  expect(text).toContain('"msg":"a worker joined"')
  expect(text).toContain('"request_id":"r7"')
  for (const secret of ['my diary', 'sk-secret', 'sk-client']) expect(text).not.toContain(secret)
})

it('serves over TLS', async () => {
  const read = (name: string): string =>
    readFileSync(new URL(`../../test/fixtures/tls/${name}.pem`, import.meta.url), 'utf8')
  const tls = { cert: read('cert'), key: read('key') }
  const { url } = await open({ engines: 1, gateway: { listen: { port: 0, tls } } })
  expect(url).toMatch(/^https:/)
  const status = await new Promise((resolve, reject) => {
    get(`${url}/live`, { ca: tls.cert, agent: false }, (response) => {
      response.resume()
      response.on('end', () => resolve(response.statusCode))
    }).on('error', reject)
  })
  expect(status).toBe(200)
})
