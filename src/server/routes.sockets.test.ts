// The routes of our own: models, operations, thresholds.
import { readFileSync } from 'node:fs'
import { describe, expect, it, vi } from 'vitest'
import { defaultWorkerConfig } from '../core/protocol/index.js'
import { createMetrics } from '../telemetry/index.js'
import { createPolicyRouter } from './policies/policy-router.js'
import { chatBody, errorOf, houseOfEachTest, json, openHouse, post } from './house.case.js'

const open = houseOfEachTest()

interface Described {
  readonly info: object
  readonly paths: object
}

describe('models', () => {
  it('wait at start for as many workers as they are told to, and never again', async () => {
    const { url, gateway, engines } = await open({ engines: 1, model: { name: 'm', minInitialWorkers: 2 } })
    const refused = await post(url, '/v1/chat/completions', chatBody())
    expect([refused.status, (await errorOf(refused)).code]).toEqual([503, 'WR_MODEL_NOT_READY'])
    expect((await fetch(`${url}/ready`)).status).toBe(503)
    expect(await json(await fetch(`${url}/v1/models/m/ready`))).toMatchObject({
      ready: false,
      reason: '1 of the 2 workers that the start waits for',
    })
    gateway.setWorker('m', { id: 9n, url: engines[0]!.url, engine: 'vllm' })
    expect((await post(url, '/v1/chat/completions', chatBody())).status).toBe(200)
    gateway.removeWorker(9n)
    expect((await post(url, '/v1/chat/completions', chatBody())).status).toBe(200)
  })

  it('are listed with aliases, one by one, and with their readiness', async () => {
    const { url, gateway } = await open({
      engines: 1,
      model: { name: 'org/m', aliases: ['short', 'odd/ready'], contextWindow: 4096 },
    })
    const { data } = (await json(await fetch(`${url}/v1/models`))) as unknown as { data: { id: string }[] }
    expect(data.map((entry) => entry.id)).toEqual(['org/m', 'short', 'odd/ready'])
    expect(await json(await fetch(`${url}/v1/models/org/m`))).toMatchObject({
      id: 'org/m',
      object: 'model',
      context_window: 4096,
    })
    expect(await json(await fetch(`${url}/v1/models/odd/ready`))).toMatchObject({ id: 'odd/ready', object: 'model' })
    expect(await json(await fetch(`${url}/v1/models/org/m/ready`))).toMatchObject({ model: 'org/m', ready: true })
    gateway.removeWorker(1n)
    expect(await json(await fetch(`${url}/v1/models/org/m/ready`))).toMatchObject({
      ready: false,
      reason: 'no workers',
    })
    expect(await json(await fetch(`${url}/v1/models`))).toEqual({ object: 'list', data: [] })
  })

  it('have the names of all their workers, whoever came first, and none that is another model', async () => {
    const { url, gateway, engines } = await open({ engines: 2 })
    const router = createPolicyRouter({ policy: 'random' })
    gateway.addModel({ name: 'taken', blockSize: 16, router })
    const ids = async (): Promise<string[]> => {
      const { data } = (await json(await fetch(`${url}/v1/models`))) as unknown as { data: { id: string }[] }
      return data.map(({ id }) => id)
    }
    expect(await ids()).toEqual(['m'])
    const second = { id: 2n, url: engines[1]!.url, engine: 'vllm' } as const
    gateway.setWorker('m', { ...second, aliases: ['short', 'taken'], adapters: ['french'] })
    expect(await ids()).toEqual(['m', 'short', 'french'])
    gateway.removeWorker(2n)
    const response = await post(url, '/v1/chat/completions', chatBody({ model: 'short' }))
    expect([response.status, response.headers.get('x-warmroute-worker-id')]).toEqual([200, '1'])
    await response.text()
    expect(JSON.parse(engines[0]!.seen[0]!.text)).toMatchObject({ model: 'm' })
    await router.close()
  })

  it('may have a name that a worker of another only told; not one that another was added with', async () => {
    const { url, gateway, engines } = await open({ engines: 2, model: { aliases: ['mine'] } })
    const router = createPolicyRouter({ policy: 'random' })
    const second = { id: 2n, url: engines[1]!.url, engine: 'vllm' } as const
    gateway.setWorker('m', { id: 1n, url: engines[0]!.url, engine: 'vllm', aliases: ['other'], adapters: ['third'] })
    gateway.addModel({ name: 'other', aliases: ['third'], blockSize: 16, router, workers: [second] })
    for (const model of ['other', 'third']) {
      const response = await post(url, '/v1/chat/completions', chatBody({ model }))
      expect([response.status, response.headers.get('x-warmroute-worker-id')]).toEqual([200, '2'])
      await response.text()
    }
    for (const name of ['m', 'mine', 'other', 'third'])
      expect(() => gateway.addModel({ name, blockSize: 16, router })).toThrow(`${name} belongs to another model`)
    await router.close()
  })

  it('send a request for an adapter only to workers that have it, where that is known', async () => {
    const { url, gateway, engines } = await open({ engines: 3 })
    const worker = (at: number, adapters?: readonly string[]) =>
      gateway.setWorker('m', { id: BigInt(at), url: engines[at - 1]!.url, engine: 'vllm', adapters })
    worker(1, [])
    worker(2, ['french'])
    const ask = async (headers: Record<string, string> = {}): Promise<readonly [number, string | null]> => {
      const response = await post(url, '/v1/chat/completions', chatBody({ model: 'french' }), headers)
      const text = await response.text()
      return [response.status, response.headers.get('x-warmroute-worker-id') ?? text]
    }
    const asked = new Set<string>()
    for (let at = 0; at < 6; at++) asked.add(String(await ask()))
    expect(asked).toEqual(new Set(['200,2', '200,3'])) // of the third nobody said what it has
    worker(3, [])
    for (let at = 0; at < 3; at++) expect(await ask()).toEqual([200, '2'])
    engines[1]!.respond = (_request, response) => void response.destroy()
    expect((await ask())[0]).toBe(502) // and nobody else is asked
    expect(await ask({ 'x-worker-instance-id': '1' })).toEqual([
      404,
      expect.stringContaining('Worker 1 has no adapter `french`.') as string,
    ])
    worker(2, [])
    expect(await ask()).toEqual([404, expect.stringContaining('WR_MODEL_NOT_FOUND') as string])
    expect(engines[0]!.seen).toEqual([])
  })

  it('say of a named worker that has the adapter and not the route that it is the route', async () => {
    const { url, gateway, engines } = await open({ engines: 2 })
    gateway.setWorker('m', { id: 1n, url: engines[0]!.url, engine: 'vllm', adapters: ['french'] })
    gateway.setWorker('m', { id: 2n, url: engines[1]!.url, engine: 'sglang', adapters: [] })
    const body = JSON.stringify({ model: 'french', text: 'a' })
    const response = await post(url, '/generate', body, { 'x-worker-instance-id': '1' })
    expect([response.status, await response.text()]).toEqual([404, expect.stringContaining('Worker 1 has no route')])
  })

  it("come in Anthropic's shape to Anthropic's clients", async () => {
    const { url } = await open({ engines: 1 })
    const list = await json(await fetch(`${url}/v1/models`, { headers: { 'anthropic-version': '2023-06-01' } }))
    expect(list).toMatchObject({ has_more: false, first_id: 'm', data: [{ type: 'model', id: 'm' }] })
    const unknown = await fetch(`${url}/v1/models/nope`, { headers: { 'anthropic-version': '2023-06-01' } })
    expect([unknown.status, await json(unknown)]).toMatchObject([
      404,
      { type: 'error', error: { type: 'not_found_error' } },
    ])
  })

  it('say the same of themselves whenever they are asked, and belong to nobody else', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: 1_700_000_000_000 })
    try {
      const { url } = await open({ engines: 1 })
      vi.setSystemTime(1_700_000_009_000)
      const own = await json(await fetch(`${url}/v1/models/m`))
      expect(own).toEqual({ id: 'm', object: 'model', created: 1_700_000_000, owned_by: 'warmroute' })
      const theirs = await json(await fetch(`${url}/v1/models/m`, { headers: { 'anthropic-version': '2023-06-01' } }))
      expect(theirs).toMatchObject({ type: 'model', id: 'm', created_at: '2023-11-14T22:13:20.000Z' })
    } finally {
      vi.useRealTimers()
    }
  })

  it('have the owner and the time that upstream gives them when strict', async () => {
    const { url } = await open({ engines: 1, gateway: { strict: 'dynamo' } })
    vi.useFakeTimers({ toFake: ['Date'], now: 1_900_000_000_000 })
    try {
      expect(await json(await fetch(`${url}/v1/models/m`))).toMatchObject({
        created: 1_900_000_000,
        owned_by: 'nvidia',
      })
    } finally {
      vi.useRealTimers()
    }
  })

  it('that are unknown are 404, in each envelope', async () => {
    const metrics = createMetrics()
    const { url } = await open({ engines: 1, gateway: { metrics } })
    const response = await post(url, '/v1/chat/completions', chatBody({ model: 'nope' }))
    expect(await errorOf(response)).toMatchObject({ status: 404, code: 'WR_MODEL_NOT_FOUND', type: 'not_found_error' })
    const anthropic = await json(await post(url, '/v1/messages', chatBody({ model: 'nope' })))
    expect(anthropic).toMatchObject({ type: 'error', error: { type: 'not_found_error' } })
    const labels = {
      model: 'unknown_model',
      endpoint: 'chat_completions',
      request_type: 'unary',
      status: 'error',
      error_type: 'not_found',
    }
    expect(metrics.requests.with(labels).value).toBe(1)
  })

  it("have upstream's flat error when strict", async () => {
    const { url } = await open({ engines: 1, gateway: { strict: 'dynamo' } })
    const response = await post(url, '/v1/chat/completions', chatBody({ model: 'nope' }))
    expect(await response.text()).toBe('{"message":"Model not found","type":"Not Found","code":404}')
  })
})

describe('operations', () => {
  it('answers live, health, ready, metrics and openapi', async () => {
    const { url, gateway } = await open({ engines: 1 })
    expect(await json(await fetch(`${url}/live`))).toEqual({ status: 'live', message: 'Service is live' })
    expect(await json(await fetch(`${url}/health`))).toMatchObject({
      status: 'healthy',
      instances: [{ instance_id: '1' }],
    })
    expect((await fetch(`${url}/ready`)).status).toBe(200)
    const metrics = await fetch(`${url}/metrics`)
    expect(metrics.headers.get('content-type')).toContain('text/plain; version=0.0.4')
    expect(await metrics.text()).toContain('dynamo_frontend_model_ready{model="m"} 1')
    const { info, paths } = (await json(await fetch(`${url}/openapi.json`))) as unknown as Described
    expect(info).toEqual({ title: 'Warmroute', version: JSON.parse(readFileSync('package.json', 'utf8')).version })
    expect(Object.keys(paths)).toContain('/v1/chat/completions')
    gateway.removeWorker(1n)
    expect((await fetch(`${url}/health`)).status).toBe(200)
    expect((await fetch(`${url}/ready`)).status).toBe(503)
  })

  it('echoes the request id on every route, and knows unknown ones', async () => {
    const { url } = await open({ engines: 1 })
    const headers = { 'x-request-id': 'abc' }
    expect((await fetch(`${url}/live`, { headers })).headers.get('x-request-id')).toBe('abc')
    const unknown = await fetch(`${url}/nowhere`, { headers })
    expect(unknown.headers.get('connection')).toBe('keep-alive')
    expect(await errorOf(unknown)).toMatchObject({ status: 404, message: 'Route not found: GET /nowhere' })
  })
})

describe('busy thresholds', () => {
  const nulls = {
    active_decode_blocks_threshold: null,
    active_prefill_tokens_threshold: null,
    active_prefill_tokens_threshold_frac: null,
  }

  async function change(url: string, body: object | string): Promise<{ status: number; body: object }> {
    const response = await post(url, '/busy_threshold', typeof body === 'string' ? body : JSON.stringify(body))
    return { status: response.status, body: (await response.json()) as object }
  }

  it('are read and changed, field by field', async () => {
    const { url } = await open({ engines: 1 })
    expect(await json(await fetch(`${url}/busy_threshold`))).toEqual({ thresholds: [{ model: 'm', ...nulls }] })
    expect(await change(url, { model: 'm', active_decode_blocks_threshold: 0.5 })).toEqual({
      status: 200,
      body: { model: 'm', ...nulls, active_decode_blocks_threshold: 0.5 },
    })
    expect(await change(url, { model: 'm', active_prefill_tokens_threshold: 10 })).toEqual({
      status: 200,
      body: { model: 'm', ...nulls, active_decode_blocks_threshold: 0.5, active_prefill_tokens_threshold: 10 },
    })
    expect(await change(url, { model: 'm' })).toMatchObject({
      status: 200,
      body: { active_prefill_tokens_threshold: 10 },
    })
  })

  it.each([
    [
      { model: 'm', active_decode_blocks_threshold: 1.5 },
      400,
      'active_decode_blocks_threshold must be between 0.0 and 1.0, got 1.5',
    ],
    [
      { model: 'm', active_prefill_tokens_threshold_frac: -1 },
      400,
      'active_prefill_tokens_threshold_frac must be finite and at least 0.0, got -1',
    ],
    [
      { model: 'x', active_decode_blocks_threshold: 0.5 },
      404,
      "Model 'x' not found. Thresholds can only be set for discovered models.",
    ],
    [
      { model: 'm', active_decode_blocks_threshold: 'high' },
      422,
      'active_decode_blocks_threshold: invalid type, expected a number',
    ],
    [
      { model: '', active_decode_blocks_threshold: 0.5 },
      404,
      "Model '' not found. Thresholds can only be set for discovered models.",
    ],
    [
      { model: 'm', active_prefill_tokens_threshold: 1.5 },
      422,
      'active_prefill_tokens_threshold: invalid value, expected an unsigned integer',
    ],
    [{ active_decode_blocks_threshold: 0.5 }, 422, 'missing field `model`'],
    ['{', 422, 'the body is not JSON'],
  ])('%j is %i', async (body, status, error) => {
    const { url } = await open({ engines: 1 })
    expect(await change(url, body)).toEqual({ status, body: { error } })
  })

  it('that are set while load is high hold at once, though nobody reported it before', async () => {
    const { url } = await open({ engines: 1 })
    const id = { 'x-request-id': 'held' }
    await (await post(url, '/router', '{"method":"new","tokens":[1,2,3]}', id)).text()
    const ask = async (): Promise<number> => {
      const response = await post(url, '/v1/chat/completions', chatBody())
      await response.text()
      return response.status
    }
    expect(await ask()).toBe(200)
    await change(url, { model: 'm', active_prefill_tokens_threshold: 0 })
    expect(await ask()).toBe(529)
    await (await post(url, '/router', '{"method":"mark_free"}', id)).text()
    expect(await ask()).toBe(200)
  })

  it('are taken back by null, and whoever was busy by them serves again', async () => {
    const { url } = await open({
      engines: 1,
      model: { thresholds: { activePrefillTokensThreshold: 0 } },
      respond: ({ text }, response) => {
        if (!text.includes('"stream":true')) return void response.end('{"choices":[]}')
        response.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: {"choices":[{"text":"a"}]}\n\n')
      },
    })
    const leaving = new AbortController()
    const headers = { 'content-type': 'application/json' }
    const body = chatBody({ stream: true })
    await fetch(`${url}/v1/completions`, { method: 'POST', headers, body, signal: leaving.signal })
    expect((await post(url, '/v1/chat/completions', chatBody())).status).toBe(529)
    expect(await change(url, { model: 'm', active_prefill_tokens_threshold: null })).toEqual({
      status: 200,
      body: { model: 'm', ...nulls },
    })
    expect((await post(url, '/v1/chat/completions', chatBody())).status).toBe(200)
    leaving.abort()
  })

  it('are left alone by null when strict, as upstream takes it for a field that is not there', async () => {
    const { url } = await open({
      engines: 1,
      gateway: { strict: 'dynamo' },
      model: { thresholds: { activePrefillTokensThreshold: 5 } },
    })
    expect(await change(url, { model: 'm', active_prefill_tokens_threshold: null })).toMatchObject({
      status: 200,
      body: { active_prefill_tokens_threshold: 5 },
    })
  })

  it('are 404 where the admin routes are switched off, for whoever asks', async () => {
    const { url } = await open({ engines: 1, gateway: { hasAdminRoutes: false } })
    expect((await fetch(`${url}/busy_threshold`)).status).toBe(404)
    expect((await change(url, { model: 'm' })).status).toBe(404)
    expect((await fetch(`${url}/workers`)).status).toBe(404)
    expect((await fetch(`${url}/health`)).status).toBe(200)
  })

  it('of an unknown model read as nulls', async () => {
    const { url } = await open({ engines: 1 })
    expect(await change(url, { model: 'x' })).toEqual({ status: 200, body: { model: 'x', ...nulls } })
  })

  it.each([
    [{}, 529, 'WR_ALL_WORKERS_OVERLOADED'],
    [{ overloadStatus: 503 }, 503, 'WR_ALL_WORKERS_OVERLOADED'],
  ])('shed requests when everybody is busy: %j', async (gateway, status, code) => {
    const metrics = createMetrics()
    const { url } = await open({
      engines: 1,
      gateway: { ...gateway, metrics },
      model: { thresholds: { activePrefillTokensThreshold: 0 } },
      respond: (_request, response) =>
        void response
          .writeHead(200, { 'content-type': 'text/event-stream' })
          .write('data: {"choices":[{"text":"a"}]}\n\n'),
    })
    const abort = new AbortController()
    await fetch(`${url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: chatBody({ stream: true }),
      signal: abort.signal,
    })
    const refused = await post(url, '/v1/chat/completions', chatBody())
    expect(refused.headers.get('retry-after')).toBe('1')
    expect(await errorOf(refused)).toMatchObject({ status, code, type: 'overloaded_error' })
    expect(metrics.modelRejection.with({ model: 'm', endpoint: 'chat_completions' }).value).toBe(1)
    abort.abort()
  })

  it('are no reason to count a model that is not ready among rejections, where overload has its status', async () => {
    const metrics = createMetrics()
    const { url, gateway } = await open({ engines: 1, gateway: { overloadStatus: 503, metrics } })
    gateway.removeWorker(1n)
    const response = await post(url, '/v1/chat/completions', chatBody())
    const { code, type } = await errorOf(response)
    expect([response.status, code, type]).toEqual([503, 'WR_MODEL_NOT_READY', 'service_unavailable'])
    expect(metrics.requestsShed.with({ model: 'm', reason: 'not_ready' }).value).toBe(1)
    expect(metrics.modelRejection.with({ model: 'm', endpoint: 'chat_completions' }).value).toBe(0)
  })

  it('shed a request of whose workers all are busy, whoever else is idle', async () => {
    const { url } = await open({
      engines: 0,
      model: {
        thresholds: { activePrefillTokensThreshold: 0 },
        workers: [
          {
            id: 1n,
            url: 'http://127.0.0.1:1',
            engine: 'sglang',
            config: { ...defaultWorkerConfig, taints: new Set(['a']) },
          },
          { id: 2n, url: 'http://127.0.0.1:2', engine: 'vllm' },
        ],
      },
    })
    const id = { 'x-request-id': 'held' }
    expect(await (await post(url, '/router', '{"method":"new","tokens":[1,2,3]}', id)).json()).toMatchObject({
      worker_id: 1,
    })
    const needs = (taint: string): string => chatBody({ nvext: { routing_constraints: { required_taints: [taint] } } })
    for (const refused of [
      await post(url, '/generate', '{"model":"m","text":"a"}'),
      await post(url, '/v1/chat/completions', needs('a')),
    ]) {
      expect(refused.headers.get('retry-after')).toBe('1')
      expect(await errorOf(refused)).toMatchObject({ status: 529, code: 'WR_ALL_WORKERS_OVERLOADED' })
    }
    expect(await errorOf(await post(url, '/v1/chat/completions', needs('b')))).toMatchObject({
      code: 'WR_NO_ENDPOINTS',
    })
    await (await post(url, '/router', '{"method":"mark_free"}', id)).text()
  })

  it('shed with the sentences of both generations when strict', async () => {
    for (const [overloadStatus, body] of [
      [529, '{"message":"Service temporarily overloaded","type":"Overloaded","code":529}'],
      [
        503,
        '{"message":"ResourceExhausted: All workers are busy, please retry later","type":"Service Unavailable","code":503}',
      ],
    ] as const) {
      const one = await openHouse({
        engines: 1,
        gateway: { strict: 'dynamo', overloadStatus, limits: { requestsMax: 0 } },
      })
      expect(await (await post(one.url, '/v1/chat/completions', chatBody())).text()).toBe(body)
      await one.close()
    }
  })
})
