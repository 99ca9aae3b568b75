// Disaggregated serving end to end: `warmroute serve` in front of simulated prefill and decode servers, over real sockets.
import OpenAI from 'openai'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { settled } from '../../src/cli/serve-house.case.js'
import { startSimEngine } from '../../src/sim/index.js'
import type { PairHouse, PairHouseOptions } from './pair-house.js'
import { openPairHouse, post } from './pair-house.js'

let house: PairHouse | undefined
afterEach(async () => {
  await house?.close()
  house = undefined
})

async function open(options: PairHouseOptions): Promise<PairHouse> {
  return (house = await openPairHouse(options))
}

const messages = [
  { role: 'system' as const, content: 'You are a careful assistant who counts. '.repeat(20) },
  { role: 'user' as const, content: 'Count.' },
]

describe.each(['vllm', 'sglang'] as const)('%s', (engine) => {
  it('prefills on one worker and decodes on another, with the words that one worker alone would say', async () => {
    const { url, prefill, decode } = await open({ engine })
    const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 })
    const alone = await startSimEngine({ engine, models: ['sim'], blockTokens: 16, speedup: 100, healthMs: 0 })
    try {
      const body = { model: 'sim', messages, max_tokens: 8, temperature: 0 }
      const control = (await (await post(alone.url, '/v1/chat/completions', body)).json()) as {
        choices: { message: { content: string } }[]
      }
      const { data: whole, response } = await openai.chat.completions.create(body).withResponse()
      expect(whole.choices[0]!.message.content).toBe(control.choices[0]!.message.content)
      expect(whole.usage!.completion_tokens).toBe(8)
      expect(['1', '2']).toContain(response.headers.get('x-warmroute-prefill-worker-id'))
      expect(['3', '4']).toContain(response.headers.get('x-warmroute-worker-id'))
      let text = ''
      for await (const chunk of await openai.chat.completions.create({ ...body, stream: true }))
        text += chunk.choices[0]?.delta.content ?? ''
      expect(text).toBe(control.choices[0]!.message.content)
      const text3 = await openai.completions.create({ model: 'sim', prompt: 'once upon', max_tokens: 3 })
      expect(text3.choices).toHaveLength(1)
    } finally {
      await alone.close()
    }
    const requests = (side: typeof prefill): number => side.reduce((sum, sim) => sum + sim.stats().requests, 0)
    expect(requests(prefill)).toBeGreaterThanOrEqual(3)
    const generated = prefill.reduce((sum, sim) => sum + sim.stats().ranks[0]!.generated_tokens, 0)
    expect(generated).toBe(3) // one token per prefill, and nothing else
    expect(requests(decode)).toBeGreaterThanOrEqual(3)
  })
})

it.each([
  ['vLLM says it in development mode', 'engine', { isDevMode: true }],
  ['labels say it', 'labels', {}],
] as const)('which half a worker does: %s', async (_says, roleFrom, sim) => {
  const { url, served } = await open({ engine: 'vllm', prefill: 1, decode: 1, roleFrom, sim })
  expect(served.assembly.reports().map(({ role }) => role)).toEqual(['prefill', 'decode'])
  const response = await post(url, '/v1/chat/completions', { model: 'sim', messages, max_tokens: 2 })
  expect(response.headers.get('x-warmroute-prefill-worker-id')).toBe('1')
})

it('SGLang: each half runs on the rank that was chosen for it, and the room leads there', async () => {
  const { url, prefill, decode } = await open({ engine: 'sglang', prefill: 1, decode: 1, sim: { ranks: 2 } })
  const headers = {
    'x-prefill-instance-id': '1',
    'x-prefill-dp-rank': '1',
    'x-worker-instance-id': '2',
    'x-dp-rank': '0',
  }
  for (let at = 0; at < 3; at++) {
    const body = { model: 'sim', messages: [{ role: 'user', content: `Count from ${at}.` }], max_tokens: 4 }
    const response = await post(url, '/v1/chat/completions', body, headers)
    expect([response.status, response.headers.get('x-warmroute-prefill-dp-rank')]).toEqual([200, '1'])
  }
  const generated = ([sim]: typeof prefill): number[] => sim!.stats().ranks.map((rank) => rank.generated_tokens)
  expect([generated(prefill), generated(decode)]).toEqual([
    [0, 3],
    [12, 0],
  ])
  for (
    let at = 0;
    at < 6;
    at++ // unpinned: whatever rank is chosen, both halves agree on it
  )
    expect((await post(url, '/v1/completions', { model: 'sim', prompt: `once ${at}`, max_tokens: 2 })).status).toBe(200)
})

it('a prefill that is cached is found again by its events', async () => {
  const { url, served, prefill, decode } = await open({ engine: 'vllm' })
  const said: (string | null)[][] = []
  for (let at = 0; at < 3; at++) {
    const body = { model: 'sim', messages: [...messages, { role: 'user', content: `And ${at}?` }], max_tokens: 2 }
    const response = await post(url, '/v1/chat/completions', body)
    const { usage } = (await response.json()) as { usage: { prompt_tokens_details: { cached_tokens: number } } }
    said.push([
      response.headers.get('x-warmroute-prefill-worker-id'),
      response.headers.get('x-warmroute-cached-tokens'),
      String(usage.prompt_tokens_details.cached_tokens),
    ])
    await settled(served, [...prefill, ...decode])
  }
  const [first, second, third] = said
  expect(first!.slice(1)).toEqual(['0', '0'])
  expect([second![0], third![0]]).toEqual([first![0], first![0]]) // the warm prefill worker
  expect(Number(second![1])).toBeGreaterThan(100)
  expect(second![1]).toBe(second![2]) // what was foretold is what the engine reports
  expect(third![1]).toBe(third![2])
})

it('prefill workers that die are replaced, and a model whose last one left goes on alone', async () => {
  const { url, prefill } = await open({ engine: 'vllm', words: ['--connect-timeout-ms', '300'] })
  const ask = async (content: string): Promise<Response> =>
    post(url, '/v1/chat/completions', { model: 'sim', messages: [{ role: 'user', content }], max_tokens: 2 })
  expect((await ask('one')).headers.get('x-warmroute-prefill-skipped')).toBeNull()
  await prefill[0]!.close()
  for (const word of ['two', 'three', 'four']) {
    const response = await ask(word)
    expect([response.status, response.headers.get('x-warmroute-prefill-worker-id')]).toEqual([200, '2'])
  }
  await prefill[1]!.close()
  expect((await ask('five')).headers.get('x-warmroute-prefill-skipped')).toBe('prefill_failed')
  await vi.waitFor(
    async () => expect((await ask('six')).headers.get('x-warmroute-prefill-skipped')).toBe('deactivated'),
    {
      timeout: 8_000,
      interval: 100,
    },
  )
})
