// What is sent to engines, and what of their answers reaches clients.
import { describe, expect, it, vi } from 'vitest'
import { InProcessRouter } from '../routing/index.js'
import { createMetrics } from '../telemetry/index.js'
import type { FakeEngine, Responder } from './fake-engine.case.js'
import { answerChat } from './fake-engine.case.js'
import { chatBody, errorOf, houseOfEachTest, json, openHouse, post } from './house.case.js'
import { hashKey } from './http/keys.js'
import { endpointRows } from './request/endpoints.js'
import { engineControlFields } from './request/engine-fields.js'
import type { PromptRequest, PromptTokenizer } from './request/prompt.js'

const open = houseOfEachTest()

describe('routes that end in an engine', () => {
  it.each(endpointRows.map((row) => row.path))('%s is forwarded as it is', async (path) => {
    const { url, engines } = await open({ engines: 1, engine: 'unknown' }) // an engine we know may call it otherwise
    const body = JSON.stringify({
      model: 'm',
      input: 'x',
      prompt: 'x',
      text: 'x',
      messages: [],
      query: 'q',
      documents: ['d'],
    })
    const response = await post(url, path, body)
    expect(response.status).toBe(200)
    await response.text()
    expect(engines[0]!.seen[0]).toMatchObject({ path, text: body })
  })

  it.each(endpointRows.map((row) => row.path))('%s takes POST only', async (path) => {
    const { url } = await open({ engines: 1 })
    const response = await fetch(url + path)
    expect(response.status).toBe(405)
    expect(response.headers.get('allow')).toBe('POST')
    await response.text()
  })
})

describe('what an engine is sent', () => {
  it('never gets fields that steer it, in whatever spelling', async () => {
    const { url, engines } = await open({ engines: 1 })
    const body = String.raw`{"model":"m","kv_transfer_params":{"do_remote_prefill":true},"priority":-5,"\u0070riority":9,"bootstrap_host":"x","bootstrap_room":1,"data_parallel_rank":7,"routed_dp_rank":3,"rid":"x","vllm_xargs":{"kv_transfer_params":"x"},"messages":[],"nvext":{}}`
    await (
      await post(url, '/v1/chat/completions', body, {
        'x-vllm-priority': '-9',
        'x-override-rid': 'x',
        'x-data-parallel-rank': '0',
      })
    ).text()
    const seen = engines[0]!.seen[0]!
    expect(seen.text).toBe('{"model":"m","messages":[]}')
    expect(seen.headers['x-vllm-priority']).toBeUndefined()
    expect(seen.headers['x-override-rid']).toBeUndefined()
  })

  it.each([
    ['without them', 0, '{"model":"m","messages":[],"nvext":{}}'],
    ['or not at all, where the body is too long to be cut at once', 4 << 20, undefined],
  ])('is asked for the tokens of a body %s', async (_says, blanks, text) => {
    const asked: Pick<PromptRequest, 'body' | 'bytes'>[] = []
    const tokenizer: PromptTokenizer = { tokenize: ({ body, bytes }) => void asked.push({ body, bytes }) }
    const router = await InProcessRouter.create({ blockSize: 16, config: { useKvEvents: false } })
    const { url } = await open({ engines: 1, router, model: { tokenizer } })
    const body = `{"model":"m","kv_transfer_params":{},"messages":[],"priority":1,"nvext":{}${' '.repeat(blanks)}}`
    await (await post(url, '/v1/chat/completions', body)).text()
    expect(asked.map(({ bytes }) => Buffer.from(bytes).toString())).toEqual(text === undefined ? [] : [text])
    expect(asked.map((it) => it.body)).toEqual(text === undefined ? [] : [JSON.parse(text)])
  })

  // SGLang's own route takes what its parts tell each other: where to fetch media from, whom to answer.
  it.each(['vllm', 'sglang', 'trtllm', 'unknown'] as const)('%s never gets any of them', async (engine) => {
    const { url, engines } = await open({ engines: 1, engine })
    const fields = Object.fromEntries(engineControlFields.map((name) => [name, { kv_transfer_params: 1 }]))
    const path = engine === 'sglang' ? '/generate' : '/v1/completions'
    await (await post(url, path, JSON.stringify({ model: 'm', ...fields, prompt: 'a', text: 'a' }))).text()
    expect(engines[0]!.seen.map(({ text }) => text)).toEqual(['{"model":"m","prompt":"a","text":"a"}'])
    expect(engineControlFields).toEqual(
      expect.arrayContaining(['disaggregated_params', 'encoder_urls', 'http_worker_ipc']),
    )
  })

  it('is never asked to announce what it holds already, and keeps its other arguments as they were written', async () => {
    const { url, engines } = await open({ engines: 1, gateway: { allowedEngineFields: ['vllm_xargs'] } })
    const body = String.raw`{"model":"m","vllm_xargs":{"a":1.0,"kv_cache_report\u005fmode":"full", "b":12345678901234567890},"messages":[]}`
    await (await post(url, '/v1/chat/completions', body)).text()
    expect(engines[0]!.seen[0]!.text).toBe(
      '{"model":"m","messages":[],"vllm_xargs":{"a":1.0,"b":12345678901234567890}}',
    )
  })

  it('gets them where the configuration allows it', async () => {
    const { url, engines } = await open({ engines: 1, gateway: { allowedEngineFields: ['priority'] } })
    await (await post(url, '/v1/chat/completions', chatBody({ priority: -5 }))).text()
    expect(JSON.parse(engines[0]!.seen[0]!.text)).toMatchObject({ priority: -5 })
  })

  it('is told its rank when it has several', async () => {
    const { url, engines, gateway } = await open({ engines: 1 })
    const config = { dataParallelStartRank: 4, dataParallelSize: 2 }
    gateway.setWorker('m', { id: 1n, url: engines[0]!.url, engine: 'vllm', config })
    for (let at = 0; at < 2; at++) await (await post(url, '/v1/chat/completions', chatBody())).text()
    expect(engines[0]!.seen.map((seen) => seen.headers['x-data-parallel-rank'])).toEqual(['0', '1'])
  })

  it("keeps the client's key to itself when it has keys of its own, and sends the worker's", async () => {
    const { url, engines, gateway } = await open({ engines: 1, gateway: { apiKeyHashes: [hashKey('client')] } })
    gateway.setWorker('m', { id: 1n, url: engines[0]!.url, engine: 'vllm', apiKey: 'engine-key' })
    await (await post(url, '/v1/chat/completions', chatBody(), { authorization: 'Bearer client' })).text()
    expect(engines[0]!.seen[0]!.headers.authorization).toBe('Bearer engine-key')
    expect(JSON.stringify(gateway.workers())).not.toContain('engine-key')
  })

  it.each([
    ['where neither we nor the worker have one', [], 'Bearer client'],
    ['never where we have', [hashKey('client')], undefined],
  ])("gets the client's key: %s", async (_says, apiKeyHashes, expected) => {
    const { url, engines } = await open({ engines: 1, gateway: { apiKeyHashes } })
    await (await post(url, '/v1/chat/completions', chatBody(), { authorization: 'Bearer client' })).text()
    expect(engines[0]!.seen[0]!.headers.authorization).toBe(expected)
  })

  it.each([
    ['vllm', 'x-vllm-priority', undefined],
    ['sglang', undefined, 7],
  ] as const)('gets a priority where the configuration allows it: %s', async (engine, header, field) => {
    for (const allowedEngineFields of [[], ['priority']]) {
      const one = await openHouse({ engines: 1, engine, gateway: { allowedEngineFields } })
      const headers = { 'x-dynamo-request-priority': '7' }
      await (await post(one.url, '/v1/chat/completions', chatBody(), headers)).text()
      const seen = one.engines[0]!.seen[0]!
      const told =
        header === undefined ? (JSON.parse(seen.text) as { priority?: number }).priority : seen.headers[header]
      const expected = allowedEngineFields.length === 0 ? undefined : (field ?? '-7') // vLLM serves low numbers first
      expect(told).toBe(expected)
      await one.close()
    }
  })

  it.each([
    ['x-dynamo-session-id', 's'],
    ['x-claude-code-session-id', 's'],
    ['thread-id', 's'],
    ['x-session-id', 's'],
  ])('is told the conversation that %s names', async (name, id) => {
    const { url, engines } = await open({ engines: 1 })
    await (await post(url, '/v1/chat/completions', chatBody(), { [name]: id })).text()
    expect(engines[0]!.seen[0]!.headers['x-session-id']).toBe(id)
  })

  it('gets the request id, also by its older name where that is a UUID', async () => {
    const { url, engines } = await open({ engines: 1 })
    const uuid = '0b8f1c52-6a0e-4d1c-9f5e-2f1f4e7a9b10'
    const ask = async (headers: Record<string, string>): Promise<(string | null)[]> => {
      const response = await post(url, '/v1/chat/completions', chatBody(), headers)
      await response.text()
      return [response.headers.get('x-request-id'), engines[0]!.seen.at(-1)!.headers['x-request-id'] as string]
    }
    expect(await ask({ 'x-dynamo-request-id': uuid })).toEqual([uuid, uuid])
    expect(await ask({ 'x-dynamo-request-id': uuid, 'x-request-id': 'mine' })).toEqual(['mine', 'mine'])
    const [made, told] = await ask({ 'x-dynamo-request-id': 'no-uuid' })
    expect([made === told, made === 'no-uuid']).toEqual([true, false])
  })

  it("gets what Anthropic's clients say of their version", async () => {
    const { url, engines } = await open({ engines: 1 })
    const headers = { 'anthropic-version': '2023-06-01', 'anthropic-beta': 'a,b', 'user-agent': 'me', accept: 'x/y' }
    await (await post(url, '/v1/messages', chatBody(), headers)).text()
    expect(engines[0]!.seen[0]!.headers).toMatchObject(headers)
  })

  it('gets the trace context, the request id, and no other header', async () => {
    const { url, engines } = await open({ engines: 1 })
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
    const response = await post(url, '/v1/chat/completions', chatBody(), {
      traceparent,
      'x-request-id': 'mine',
      cookie: 'a=b',
      'x-secret': 's',
    })
    expect(response.headers.get('x-request-id')).toBe('mine')
    await response.text()
    const { headers } = engines[0]!.seen[0]!
    expect(headers).toMatchObject({ traceparent, 'x-request-id': 'mine' })
    expect(headers.cookie).toBeUndefined()
    expect(headers['x-secret']).toBeUndefined()
  })

  it('gets the model name that it knows', async () => {
    const { url, engines } = await open({ engines: 1, model: { aliases: ['short'], adapters: ['adapter'] } })
    await (await post(url, '/v1/chat/completions', chatBody({ model: 'short' }))).text()
    await (await post(url, '/v1/chat/completions', chatBody({ model: 'adapter' }))).text()
    expect(engines[0]!.seen.map((seen) => (JSON.parse(seen.text) as { model: string }).model)).toEqual(['m', 'adapter'])
  })

  it('gets the tenant as its cache salt', async () => {
    const { url, engines } = await open({ engines: 1 })
    await (await post(url, '/v1/chat/completions', chatBody({ cache_salt: 'b' }), { 'x-tenant-id': 'a' })).text()
    expect(JSON.parse(engines[0]!.seen[0]!.text)).toMatchObject({ cache_salt: 'a' })
  })
})

const asksOf = ({ seen }: FakeEngine): boolean[] => seen.map(({ text }) => text.includes('"include_usage":true'))

describe('usage that we ask for', () => {
  it('is asked for in one stream of eight unless told', async () => {
    const { url, engines } = await open({ engines: 1, gateway: { usageSampleEvery: undefined as never } })
    for (let at = 0; at < 16; at++) await (await post(url, '/v1/chat/completions', chatBody({ stream: true }))).text()
    const isAsked = engines[0]!.seen.map(({ text }) => text.includes('include_usage'))
    expect(isAsked.flatMap((asked, at) => (asked ? [at] : []))).toEqual([1, 9]) // the first one shows whether the worker tells it unasked
  })

  it('is asked for in one stream of a few, and the client does not see it', async () => {
    const { url, engines } = await open({ engines: 1, gateway: { usageSampleEvery: 2 } })
    const texts: string[] = []
    for (let at = 0; at < 5; at++)
      texts.push(await (await post(url, '/v1/chat/completions', chatBody({ stream: true }))).text())
    expect(asksOf(engines[0]!)).toEqual([false, true, false, true, false])
    expect(new Set(texts).size).toBe(1)
  })

  // Engines read more than `true` as a yes, some take `{}` for one, and vLLM marks the end of every choice by it.
  it.each<Record<string, unknown>>([
    { stream_options: { include_usage: 'yes' } },
    { stream_options: { include_usage: 1 } },
    { stream_options: {} },
    { stream_options: { include_usage: false, continuous_usage_stats: true } },
    { n: 2 },
    { n: '2' },
    { prompt: ['a', 'b'] },
    { prompt: [[1], [2]] },
    { nvext: { extra_fields: ['timing'] } },
  ])('is not asked for with %j', async (fields) => {
    const { url, engines } = await open({ engines: 1, gateway: { usageSampleEvery: 1 } })
    const path = 'prompt' in fields ? '/v1/completions' : '/v1/chat/completions'
    await (await post(url, path, chatBody({ stream: true }))).text()
    await (await post(url, path, chatBody({ stream: true, ...fields }))).text()
    const asked = engines[0]!.seen.map((seen) => (JSON.parse(seen.text) as { stream_options?: unknown }).stream_options)
    expect(asked).toEqual([undefined, fields['stream_options']])
  })

  it.each<Record<string, unknown>>([
    { stream_options: null },
    { stream_options: { include_usage: false } },
    { n: 1 },
    { n: null },
    { prompt: ['a'] },
    { prompt: [1, 2] },
  ])('is asked for with %j', async (fields) => {
    const { url, engines } = await open({ engines: 1, gateway: { usageSampleEvery: 1 } })
    const path = 'prompt' in fields ? '/v1/completions' : '/v1/chat/completions'
    await (await post(url, path, chatBody({ stream: true }))).text()
    await (await post(url, path, chatBody({ stream: true, ...fields }))).text()
    expect(asksOf(engines[0]!)).toEqual([false, true])
  })

  it('is never asked for, nor taken out, where the engine tells everybody', async () => {
    const respond: Responder = (request, response) =>
      answerChat(
        { ...request, text: JSON.stringify({ ...JSON.parse(request.text), stream_options: { include_usage: true } }) },
        response,
      )
    const { url, engines } = await open({ engines: 1, respond, gateway: { usageSampleEvery: 1 } })
    for (let at = 0; at < 4; at++) {
      const text = await (await post(url, '/v1/chat/completions', chatBody({ stream: true }))).text()
      expect(text).toContain('"cached_tokens":16')
    }
    expect(asksOf(engines[0]!)).toEqual([false, false, false, false])
  })

  it('stays when the client asked for it', async () => {
    const { url } = await open({ engines: 1, gateway: { usageSampleEvery: 1 } })
    const body = chatBody({ stream: true, stream_options: { include_usage: true } })
    expect(await (await post(url, '/v1/chat/completions', body)).text()).toContain('"cached_tokens":16')
  })

  it('feeds the metrics', async () => {
    const metrics = createMetrics()
    const { url } = await open({ engines: 1, gateway: { usageSampleEvery: 1, metrics } })
    for (let at = 0; at < 2; at++) await (await post(url, '/v1/chat/completions', chatBody({ stream: true }))).text()
    expect(metrics.cachedTokens.with({ model: 'm' }).sum).toBe(16)
    expect(metrics.outputSequenceTokens.with({ model: 'm' }).sum).toBe(8)
    expect(metrics.timeToFirstToken.with({ model: 'm' }).count).toBe(2)
    expect(metrics.outputTokens.with({ model: 'm' }).value).toBe(8)
  })
})

describe('nvext', () => {
  it('tells the worker in every chunk and the timing in the last, when asked', async () => {
    const { url } = await open({ engines: 1 })
    const nvext = { extra_fields: ['worker_id', 'timing'] }
    const text = await (await post(url, '/v1/chat/completions', chatBody({ stream: true, nvext }))).text()
    const chunks = text
      .split('\n\n')
      .filter((event) => event.startsWith('data: {'))
      .map((event) => JSON.parse(event.slice(6)) as { nvext?: { worker_id?: object; timing?: object } })
    expect(
      chunks.every((chunk) => (chunk.nvext!.worker_id as { decode_worker_id: number }).decode_worker_id === 1),
    ).toBe(true)
    expect(chunks.map((chunk) => chunk.nvext?.timing !== undefined)).toEqual([false, false, false, false, true])
    const whole = await json(await post(url, '/v1/chat/completions', chatBody({ nvext })))
    expect(whole['nvext']).toMatchObject({
      worker_id: { decode_worker_id: 1, decode_dp_rank: 0 },
      timing: { total_time_ms: expect.any(Number) },
    })
  })

  it('tells where the time went, and how much of the prompt was cached where the router looks', async () => {
    let now = 0
    const router = await InProcessRouter.create({ blockSize: 16, config: { useKvEvents: false } })
    const respond: Responder = (request, response) => {
      now += 90
      answerChat(request, response)
    }
    const { url } = await open({ engines: 1, respond, router, gateway: { now: () => now } })
    const prompt = Array.from({ length: 64 }, (_, at) => at)
    const timings: unknown[] = []
    for (const stream of [true, false]) {
      const body = JSON.stringify({ model: 'm', prompt, stream, nvext: { extra_fields: ['timing'] } })
      const text = await (await post(url, '/v1/completions', body)).text()
      timings.push(JSON.parse(/"timing":(\{[^}]*\})/.exec(text)![1]!))
    }
    const request_received_ms = expect.any(Number) as number
    expect(timings).toEqual([
      {
        request_received_ms,
        prefill_wait_time_ms: 0,
        prefill_time_ms: 90,
        ttft_ms: 90,
        total_time_ms: 90,
        kv_hit_rate: 0,
      },
      { request_received_ms, prefill_wait_time_ms: 0, total_time_ms: 90, kv_hit_rate: 1 }, // its first token nobody saw
    ])
  })

  it('answers a dry run with the choice, and sends nothing', async () => {
    const { url, engines } = await open({ engines: 1 })
    const nvext = { annotations: ['query_instance_id:'], token_data: [1, 2, 3] }
    const answer = await json(await post(url, '/v1/chat/completions', chatBody({ nvext })))
    expect(answer).toMatchObject({ choices: [], nvext: { worker_id: { decode_worker_id: 1 } } })
    expect(engines[0]!.seen).toHaveLength(0)
  })

  it('pins with 64 bits, by field and by header', async () => {
    const { url, engines, gateway } = await open({ engines: 2 })
    const id = 7_587_891_281_668_871_552n
    gateway.setWorker('m', { id, url: engines[1]!.url, engine: 'vllm' })
    gateway.removeWorker(2n)
    const body = chatBody().replace('{', `{"nvext":{"backend_instance_id":${id}},`)
    const byField = await post(url, '/v1/chat/completions', body)
    const byHeader = await post(url, '/v1/chat/completions', chatBody(), { 'x-dynamo-worker-instance-id': String(id) })
    for (const response of [byField, byHeader]) {
      expect(response.headers.get('x-warmroute-worker-id')).toBe(String(id))
      await response.text()
    }
  })

  it.each([
    ['a text as an id', { backend_instance_id: 'x' }],
    ['a list as hints', { agent_hints: [] }],
    ['a fraction as a rank', { dp_rank: 1.5 }],
    ['agent_context', { agent_context: {} }],
    ['a session without an id', { session_control: { action: 'open' } }],
    ['an unknown action', { session_control: { session_id: 's', action: 'jump' } }],
    ['tokens that are none', { token_data: [-1] }],
  ])('refuses %s', async (_says, nvext) => {
    const { url, engines } = await open({ engines: 1 })
    const response = await post(url, '/v1/chat/completions', chatBody({ nvext }))
    expect(await errorOf(response)).toMatchObject({
      status: 400,
      type: 'invalid_request_error',
      code: 'WR_INVALID_BODY',
    })
    expect(engines[0]!.seen).toHaveLength(0)
  })
})

describe('sessions inside a worker', () => {
  const control = (action?: string): object => ({
    nvext: { session_control: { session_id: 's', action, timeout: 60 } },
  })

  it('are opened on the chosen worker, keep their requests there, and are closed after the last', async () => {
    const { url, engines, gateway } = await open({ engines: 2 })
    for (const at of [0, 1]) gateway.setWorker('m', { id: BigInt(at + 1), url: engines[at]!.url, engine: 'sglang' })
    for (const action of ['open', undefined, undefined, 'close'])
      await (await post(url, '/v1/chat/completions', chatBody(control(action)))).text()
    while (engines[0]!.seen.length < 6) await new Promise((resolve) => setImmediate(resolve))
    expect(engines[0]!.seen.map((seen) => seen.path)).toEqual([
      '/open_session',
      '/v1/chat/completions',
      '/v1/chat/completions',
      '/v1/chat/completions',
      '/v1/chat/completions',
      '/close_session',
    ])
    expect(JSON.parse(engines[0]!.seen[0]!.text)).toEqual({ capacity_of_str_len: 65_536, session_id: 's', timeout: 90 })
    expect(JSON.parse(engines[0]!.seen[5]!.text)).toEqual({ session_id: 's' })
    for (const seen of engines[0]!.seen.slice(1, 5))
      expect(JSON.parse(seen.text)).toMatchObject({ model: 'm', session_params: { id: 's' } })
    expect(engines[1]!.seen).toHaveLength(0)
  })

  it('are found and prolonged by a dry run, which runs nowhere', async () => {
    let now = 0
    const { url, engines, gateway } = await open({ engines: 2, gateway: { now: () => now } })
    for (const at of [0, 1]) gateway.setWorker('m', { id: BigInt(at + 1), url: engines[at]!.url, engine: 'sglang' })
    const opened = await post(url, '/v1/chat/completions', chatBody(control('open')))
    await opened.text()
    const worker = Number(opened.headers.get('x-warmroute-worker-id'))
    const dry = chatBody({
      nvext: { session_control: { session_id: 's' }, annotations: ['query_instance_id:'], token_data: [1, 2, 3] },
    })
    const paths = (): string[] => engines[worker - 1]!.seen.map((seen) => seen.path)
    for (now of [50_000, 100_000, 150_000])
      expect(await json(await post(url, '/v1/chat/completions', dry))).toMatchObject({
        nvext: { worker_id: { decode_worker_id: worker } },
      })
    expect(paths()).toEqual(['/open_session', '/v1/chat/completions'])
    now = 210_000 // a minute of silence, as the request said
    await (await post(url, '/v1/chat/completions', dry)).text()
    await vi.waitFor(() => expect(paths().at(-1)).toBe('/close_session'))
  })

  it('that nobody asks for again are closed by a look every 30 s', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    let now = 0
    const { url, engines, gateway } = await open({ engines: 1, gateway: { now: () => now } })
    gateway.setWorker('m', { id: 1n, url: engines[0]!.url, engine: 'sglang' })
    await (await post(url, '/v1/chat/completions', chatBody(control('open')))).text()
    vi.advanceTimersByTime(30_000)
    now = 60_000 // what the request said
    vi.advanceTimersByTime(29_999)
    await new Promise((resolve) => setImmediate(resolve))
    expect(engines[0]!.seen.map((seen) => seen.path)).toEqual(['/open_session', '/v1/chat/completions'])
    vi.advanceTimersByTime(1)
    vi.useRealTimers()
    await vi.waitFor(() => expect(engines[0]!.seen.at(-1)!.path).toBe('/close_session'))
  })

  it('are named to the engine by us alone, and only while they are open there', async () => {
    const { url, engines, gateway } = await open({ engines: 1 })
    gateway.setWorker('m', { id: 1n, url: engines[0]!.url, engine: 'sglang' })
    const own = { session_params: { id: 'mine', rid: 'r', replace: true } }
    for (const action of [undefined, 'open'])
      await (await post(url, '/v1/chat/completions', chatBody({ ...own, ...control(action) }))).text()
    const [before, , inside] = engines[0]!.seen.map((seen) => JSON.parse(seen.text) as Record<string, unknown>)
    expect(before).not.toHaveProperty('session_params')
    expect(inside!['session_params']).toEqual({ id: 's' })
  })

  it('that cannot be opened fail the request and leak no booking', async () => {
    const refuse: Responder = (_request, response) => void response.writeHead(500).end()
    const { url, engines, gateway, loads } = await open({ engines: 1, respond: refuse })
    gateway.setWorker('m', { id: 1n, url: engines[0]!.url, engine: 'sglang' })
    const response = await post(url, '/v1/chat/completions', chatBody(control('open')))
    expect(await errorOf(response)).toMatchObject({ status: 502, code: 'WR_SESSION_OPEN_FAILED' })
    expect((await loads())[0]!.activeRequests).toBe(0)
  })
})
