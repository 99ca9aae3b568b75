// Disaggregated serving end to end: `warmroute serve` in front of simulated prefill and decode servers, over real sockets.
import OpenAI from 'openai'
import { afterEach, describe, expect, it } from 'vitest'
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
