// Goal: what engines offer beside OpenAI's and Anthropic's own routes reaches a worker that has it, through the same client.
// Method: the real client's `post` against simulated servers; models that pool instead of generating are scripted engines.
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startFakeEngine } from '../../src/server/fake-engine.case.js'
import { createPolicyRouter } from '../../src/server/policies/policy-router.js'
import type { SimHouse } from './sim-house.js'
import { openSimHouse } from './sim-house.js'

describe.each(['vllm', 'sglang'] as const)('a simulated %s', (engine) => {
  let house: SimHouse
  let openai: OpenAI
  beforeAll(async () => {
    house = await openSimHouse([engine, engine])
    openai = new OpenAI({ baseURL: house.url, apiKey: 'none', maxRetries: 0 })
  })
  afterAll(() => house.close())

  it('names tokens and spells them again', async () => {
    const prompt = 'The sea is calm tonight.'
    const named = await openai.post<{ tokens: number[]; count: number }>('/tokenize', {
      body: { model: 'sim', prompt, add_special_tokens: false },
    })
    expect(named.tokens).toHaveLength(named.count)
    const spelt = await openai.post<{ prompt?: string; text?: string }>('/detokenize', {
      body: { model: 'sim', tokens: named.tokens },
    })
    expect(engine === 'vllm' ? spelt.prompt : spelt.text).toBe(prompt)
  })

  it('answers for itself where it has no such route', async () => {
    for (const path of ['/v1/rerank', '/v1/score', '/pooling', '/classify'])
      await expect(openai.post(path, { body: { model: 'sim', input: 'x' } })).rejects.toMatchObject({ status: 404 })
  })

  if (engine === 'vllm') {
    it('has no /generate, and says so', async () => {
      await expect(openai.post('/generate', { body: { model: 'sim', text: 'x' } })).rejects.toMatchObject({
        status: 404,
      })
    })
    return
  }

  it('generates, whole and as a stream', async () => {
    const body = { model: 'sim', text: 'Once upon a time', sampling_params: { max_new_tokens: 6 } }
    const whole = await openai.post<Generated>('/generate', { body })
    expect(whole.output_ids).toHaveLength(6)
    expect(whole.meta_info.completion_tokens).toBe(6)
    const stream = await openai.post('/generate', { body: { ...body, stream: true }, stream: true })
    let last: Generated | undefined
    for await (const chunk of stream as AsyncIterable<Generated>) last = chunk
    expect(last!.meta_info.completion_tokens).toBe(6)
  })

  it('is routed by the tokens of what it generates from', async () => {
    const text = 'A keeper of a lighthouse wrote to his sister. '.repeat(20)
    const ask = () =>
      openai.post('/generate', { body: { model: 'sim', text, sampling_params: { max_new_tokens: 2 } } }).asResponse()
    const worker = (await ask()).headers.get('x-warmroute-worker-id')
    const again = await ask()
    expect(again.headers.get('x-warmroute-worker-id')).toBe(worker)
    const { meta_info: meta } = (await again.json()) as Generated
    expect(meta.cached_tokens).toBeGreaterThan(100)
  })
})

interface Generated {
  readonly output_ids: readonly number[]
  readonly meta_info: { readonly completion_tokens: number; readonly cached_tokens: number }
}

it.each([
  { path: '/v1/rerank', body: { query: 'sea', documents: ['calm', 'rough'], top_n: 1 } },
  { path: '/v1/score', body: { text_1: 'sea', text_2: ['calm', 'rough'] } },
  { path: '/pooling', body: { input: ['sea', 'calm'] } },
  { path: '/classify', body: { input: 'sea' } },
])('$path reaches a model that pools as it was asked, and its answer comes back', async ({ path, body }) => {
  const seen: unknown[] = []
  const engine = await startFakeEngine((request, response) => {
    seen.push({ path: request.path, body: JSON.parse(request.text) as unknown })
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ object: 'list', data: [{ index: 0, score: 0.25 }] }))
  })
  const house = await openSimHouse(['vllm'])
  const router = createPolicyRouter({ policy: 'least-loaded' })
  const workers = [{ id: 77n, url: engine.url, engine: 'vllm' as const }]
  house.gateway.addModel({ name: 'pools', blockSize: 16, router, workers })
  const openai = new OpenAI({ baseURL: house.url, apiKey: 'none', maxRetries: 0 })
  const answer = await openai.post(path, { body: { model: 'pools', ...body } })
  expect(answer).toEqual({ object: 'list', data: [{ index: 0, score: 0.25 }] })
  expect(seen).toEqual([{ path, body: { model: 'pools', ...body } }])
  expect((await router.loads()).every((load) => load.activeRequests === 0)).toBe(true)
  await house.gateway.removeModel('pools')
  await router.close()
  await engine.close()
  await house.close()
})
