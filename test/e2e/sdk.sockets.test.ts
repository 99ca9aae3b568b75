// Goal: what people do with their clients works, whichever engines are behind, and whoever of them misbehaves.
// Method: the real clients against fleets of simulated vLLM, of simulated SGLang, and of both.
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { SimHouse } from './sim-house.js'
import { openSimHouse } from './sim-house.js'

describe.each<{ of: string; fleet: readonly ('vllm' | 'sglang')[] }>([
  { of: 'vLLM', fleet: ['vllm', 'vllm', 'vllm'] },
  { of: 'SGLang', fleet: ['sglang', 'sglang', 'sglang'] },
  { of: 'both', fleet: ['vllm', 'sglang', 'vllm'] },
])('before a fleet of $of', ({ fleet }) => {
  let house: SimHouse
  let openai: OpenAI
  let anthropic: Anthropic

  beforeAll(async () => {
    house = await openSimHouse(fleet)
    openai = new OpenAI({ baseURL: `${house.url}/v1`, apiKey: 'none', maxRetries: 0 })
    anthropic = new Anthropic({ baseURL: house.url, apiKey: 'none', maxRetries: 0 })
  })

  afterAll(() => house.close())

  const messages = [
    { role: 'system' as const, content: 'You are a careful assistant. '.repeat(20) },
    { role: 'user' as const, content: 'Count.' },
  ]

  describe('the openai client', () => {
    it('lists models', async () => {
      const ids: string[] = []
      for await (const model of openai.models.list()) ids.push(model.id)
      expect(ids).toEqual(['sim'])
      expect((await openai.models.retrieve('sim')).id).toBe('sim')
    })

    it('completes a chat, whole and as a stream', async () => {
      const whole = await openai.chat.completions.create({ model: 'sim', messages, max_tokens: 8 })
      expect(whole.choices[0]!.message.content).toBeTruthy()
      expect(whole.usage!.completion_tokens).toBe(8)
      const stream = await openai.chat.completions.create({ model: 'sim', messages, max_tokens: 8, stream: true })
      let text = ''
      for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? ''
      expect(text).not.toBe('')
    })

    it('gets the usage at the end of a stream when it asks', async () => {
      const stream = await openai.chat.completions.create({
        model: 'sim',
        messages,
        max_tokens: 4,
        stream: true,
        stream_options: { include_usage: true },
      })
      let usage
      for await (const chunk of stream) usage = chunk.usage ?? usage
      expect(usage).toMatchObject({ completion_tokens: 4 })
    })

    it('sends tools', async () => {
      const tools = [
        {
          type: 'function' as const,
          function: { name: 'f', parameters: { type: 'object', properties: { x: { type: 'number', default: 1.5 } } } },
        },
      ]
      const answer = await openai.chat.completions.create({
        model: 'sim',
        messages,
        tools,
        tool_choice: 'none',
        max_tokens: 2,
      })
      expect(answer.choices).toHaveLength(1)
    })

    it('completes text, tokens and batches', async () => {
      expect((await openai.completions.create({ model: 'sim', prompt: 'once', max_tokens: 3 })).choices).toHaveLength(1)
      expect(
        (await openai.completions.create({ model: 'sim', prompt: [1, 2, 3], max_tokens: 3 })).usage!.prompt_tokens,
      ).toBe(3)
      expect(
        (await openai.completions.create({ model: 'sim', prompt: ['a', 'b'], max_tokens: 3 })).choices,
      ).toHaveLength(2)
      const stream = await openai.completions.create({ model: 'sim', prompt: 'once', max_tokens: 3, stream: true })
      let chunks = 0
      for await (const _chunk of stream) chunks++
      expect(chunks).toBeGreaterThanOrEqual(3)
    })

    it('understands our errors', async () => {
      await expect(openai.chat.completions.create({ model: 'nope', messages })).rejects.toMatchObject({
        status: 404,
        code: 'WR_MODEL_NOT_FOUND',
        param: 'model',
      })
      await expect(openai.chat.completions.create({ model: 'sim', messages: 'x' as never })).rejects.toMatchObject({
        status: 400,
      })
    })

    it('may stop in the middle', async () => {
      const stream = await openai.chat.completions.create({ model: 'sim', messages, max_tokens: 4000, stream: true })
      for await (const _chunk of stream) break
      stream.controller.abort()
      await idle()
    })
  })

  describe('the Anthropic client', () => {
    it('sends messages, whole and as a stream', async () => {
      const whole = await anthropic.messages.create({
        model: 'sim',
        max_tokens: 6,
        messages: [{ role: 'user', content: 'Hi' }],
      })
      expect(whole.type).toBe('message')
      expect(whole.usage.output_tokens).toBe(6)
      const stream = anthropic.messages.stream({
        model: 'sim',
        max_tokens: 6,
        system: 'Be brief.',
        messages: [{ role: 'user', content: 'Hi' }],
      })
      const final = await stream.finalMessage()
      expect(final.usage.output_tokens).toBe(6)
    })

    it('lists models and asks for one', async () => {
      const models = []
      for await (const model of anthropic.models.list()) models.push(model)
      expect(models).toEqual([await anthropic.models.retrieve('sim')])
      expect(models[0]).toMatchObject({ type: 'model', id: 'sim', display_name: 'sim', lifecycle: 'active' })
      expect(Date.parse(models[0]!.created_at)).toBeGreaterThan(0)
      await expect(anthropic.models.retrieve('nope')).rejects.toThrow(Anthropic.NotFoundError)
    })

    it('understands our errors', async () => {
      await expect(
        anthropic.messages.create({ model: 'nope', max_tokens: 6, messages: [{ role: 'user', content: 'Hi' }] }),
      ).rejects.toMatchObject({ status: 404, error: { type: 'error', error: { type: 'not_found_error' } } })
    })
  })

  describe('KV routing', () => {
    it('keeps a conversation on the worker that knows it, and predicts what the engine reports', async () => {
      const talk = [...messages]
      const workers: (string | null)[] = []
      for (let turn = 0; turn < 4; turn++) {
        const { data, response } = await openai.chat.completions
          .create({ model: 'sim', messages: talk, max_tokens: 16 })
          .withResponse()
        workers.push(response.headers.get('x-warmroute-worker-id'))
        const predicted = Number(response.headers.get('x-warmroute-cached-tokens'))
        const reported = data.usage!.prompt_tokens_details?.cached_tokens ?? 0
        if (turn > 1) expect(reported).toBeGreaterThanOrEqual(predicted)
        if (turn > 1) expect(predicted).toBeGreaterThan(0)
        talk.push({ role: 'assistant' as never, content: data.choices[0]!.message.content! })
        talk.push({ role: 'user', content: `And then, for the ${turn}th time?` })
      }
      expect(new Set(workers.slice(1)).size).toBe(1)
    })
  })

  describe('workers that misbehave', () => {
    it('are replaced when they refuse or hang up, and clients do not notice', async () => {
      house.engines[0]!.arm([
        { fault: 'status', at_ms: 0, share: 1, ms: 0, status: 503, after_chunks: 0, batches: 1, tokens: 8, seconds: 1 },
      ])
      for (let at = 0; at < 4; at++) {
        const { choices } = await openai.chat.completions.create({
          model: 'sim',
          messages: [{ role: 'user', content: `something new ${at} ${'x'.repeat(200)}` }],
          max_tokens: 2,
        })
        expect(choices).toHaveLength(1)
      }
      house.engines[0]!.clearFaults()
    })

    it('are forgotten when they restart, and serve again', async () => {
      await house.engines[2]!.restart(10)
      for (let at = 0; at < 6; at++)
        await openai.chat.completions.create({
          model: 'sim',
          messages: [{ role: 'user', content: `after the restart ${at} ${'y'.repeat(100 * at)}` }],
          max_tokens: 2,
        })
      await idle()
    })
  })

  /** Bookings end in the turn in which an answer does; the client hears of it a little earlier. */
  async function idle(): Promise<void> {
    while (house.gateway.inFlight > 0) await new Promise((resolve) => setImmediate(resolve))
    expect((await house.router.loads()).every((load) => load.activeRequests === 0)).toBe(true)
  }
})
