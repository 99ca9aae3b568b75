// Goal: Responses and Messages work with the clients that people use, and are routed by the tokens that the engine sees.
// Method: the real clients against simulated servers of each engine.
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { SimHouse } from './sim-house.js'
import { openSimHouse } from './sim-house.js'

describe.each(['vllm', 'sglang'] as const)('a simulated %s', (engine) => {
  let house: SimHouse
  let openai: OpenAI
  let anthropic: Anthropic

  beforeAll(async () => {
    house = await openSimHouse([engine, engine], {}, { isScaleOut: true })
    openai = new OpenAI({ baseURL: `${house.url}/v1`, apiKey: 'none', maxRetries: 0 })
    anthropic = new Anthropic({ baseURL: house.url, apiKey: 'none', maxRetries: 0 })
  })

  afterAll(() => house.close())

  describe('responses', () => {
    const input = 'Tell me of the sea, slowly. '.repeat(30)

    it('are answered whole', async () => {
      const answer = await openai.responses.create({ model: 'sim', input: 'Hi', max_output_tokens: 6 })
      expect(answer.output_text).not.toBe('')
      expect(answer.usage!.output_tokens).toBe(engine === 'vllm' ? 6 : 4) // SGLang keeps two to itself
    })

    it('are streamed event by event', async () => {
      const stream = await openai.responses.create({ model: 'sim', input: 'Hi', max_output_tokens: 6, stream: true })
      const types: string[] = []
      let text = ''
      for await (const event of stream) {
        types.push(event.type)
        if (event.type === 'response.output_text.delta') text += event.delta
      }
      expect(types[0]).toBe('response.created')
      expect(types.at(-1)).toBe(engine === 'vllm' ? 'response.completed' : 'response.incomplete')
      expect(text).not.toBe('')
    })

    it('are routed by the tokens that the engine sees: foretold is what it reports', async () => {
      const ask = () =>
        openai.responses.create({ model: 'sim', instructions: 'Be brief.', input, max_output_tokens: 2 }).withResponse()
      await ask()
      const { data, response } = await ask()
      const foretold = Number(response.headers.get('x-warmroute-cached-tokens'))
      expect(foretold).toBeGreaterThan(100)
      expect(data.usage!.input_tokens_details.cached_tokens).toBe(foretold)
    })
  })

  describe('messages', () => {
    it('are counted', async () => {
      const { input_tokens: tokens } = await anthropic.messages.countTokens({
        model: 'sim',
        messages: [{ role: 'user', content: 'How many are these?' }],
      })
      expect(tokens).toBeGreaterThan(4)
    })

    it('are routed by the tokens that the engine sees', async () => {
      const ask = () =>
        anthropic.messages
          .create({
            model: 'sim',
            max_tokens: 2,
            system: 'You keep the lighthouse. '.repeat(30),
            messages: [{ role: 'user', content: 'Hi' }],
          })
          .withResponse()
      await ask()
      const { data, response } = await ask()
      const foretold = Number(response.headers.get('x-warmroute-cached-tokens'))
      expect(foretold).toBeGreaterThan(100)
      expect(data.usage.cache_read_input_tokens).toBe(foretold)
    })

    it('may be given up in the middle', async () => {
      const stream = anthropic.messages.stream({
        model: 'sim',
        max_tokens: 4_000,
        messages: [{ role: 'user', content: 'Go on and on' }],
      })
      stream.on('text', () => stream.abort())
      await expect(stream.finalMessage()).rejects.toThrow(Anthropic.APIUserAbortError)
      await idle()
    })
  })

  describe('what cannot be served', () => {
    it('is said in the words of the route', async () => {
      await expect(openai.responses.create({ model: 'nope', input: 'x' })).rejects.toMatchObject({
        status: 404,
        code: 'WR_MODEL_NOT_FOUND',
      })
      await expect(
        anthropic.messages.countTokens({ model: 'nope', messages: [{ role: 'user', content: 'x' }] }),
      ).rejects.toMatchObject({ status: 404, error: { type: 'error', error: { type: 'not_found_error' } } })
      await expect(openai.responses.create({ model: 'sim' })).rejects.toMatchObject({ status: 400 })
    })
  })

  /** Bookings end in the turn in which an answer does; the client hears of it a little earlier. */
  async function idle(): Promise<void> {
    while (house.gateway.inFlight > 0) await new Promise((resolve) => setImmediate(resolve))
    expect((await house.router.loads()).every((load) => load.activeRequests === 0)).toBe(true)
  }
})
