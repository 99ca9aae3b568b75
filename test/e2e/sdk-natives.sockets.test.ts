// Goal: what engines offer beside OpenAI's and Anthropic's own routes reaches a worker that has it, through the same client.
// Method: the real client's `post` against simulated servers that generate; sdk-pooling has those that pool.
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
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

  it('says for itself that its model does not pool', async () => {
    const refused = { status: engine === 'vllm' ? 404 : 400 }
    for (const path of ['/v1/embeddings', '/v1/rerank', '/v1/classify'])
      await expect(
        openai.post(path, { body: { model: 'sim', input: 'x', query: 'x', documents: ['y'] } }),
      ).rejects.toMatchObject(refused)
  })

  if (engine === 'vllm') {
    it('has no /generate: that is said at once, and why', async () => {
      await expect(openai.post('/generate', { body: { model: 'sim', text: 'x' } })).rejects.toMatchObject({
        status: 404,
        code: 'WR_ROUTE_NOT_FOUND',
        message: expect.stringContaining('No engine that serves `sim` has a route for POST /generate'),
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
    expect(again.headers.get('x-warmroute-cached-tokens')).toBe(String(meta.cached_tokens))
  })
})

interface Generated {
  readonly output_ids: readonly number[]
  readonly meta_info: { readonly completion_tokens: number; readonly cached_tokens: number }
}
