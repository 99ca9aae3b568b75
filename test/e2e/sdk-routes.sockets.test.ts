// Goal: routes beside chat work with the clients that people use, and so do aborts, deadlines and drains.
// Method: the real clients against simulated vLLM servers; an embedding model, which those are not, is a scripted engine.
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startFakeEngine } from '../../src/server/fake-engine.case.js'
import { createPolicyRouter } from '../../src/server/policies/policy-router.js'
import type { SimHouse } from './sim-house.js'
import { openSimHouse } from './sim-house.js'

let house: SimHouse
let openai: OpenAI
let anthropic: Anthropic

beforeAll(async () => {
  house = await openSimHouse(
    ['vllm', 'vllm'],
    { deadlines: { idleMs: 1_500, noProgressMs: 1_000 } },
    { isScaleOut: true },
  )
  openai = new OpenAI({ baseURL: `${house.url}/v1`, apiKey: 'none', maxRetries: 0 })
  anthropic = new Anthropic({ baseURL: house.url, apiKey: 'none', maxRetries: 0 })
})

afterAll(() => house.close())

const chat = (content: string) => ({ model: 'sim', messages: [{ role: 'user' as const, content }], max_tokens: 4 })

describe('responses', () => {
  const input = 'Tell me of the sea, slowly. '.repeat(30)

  it('are answered whole', async () => {
    const answer = await openai.responses.create({ model: 'sim', input: 'Hi', max_output_tokens: 6 })
    expect(answer.output_text).not.toBe('')
    expect(answer.usage!.output_tokens).toBe(6)
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
    expect(types.at(-1)).toBe('response.completed')
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

it('embeddings arrive as numbers, whichever way they travel', async () => {
  const numbers = [0.5, -1.25, 3]
  const engine = await startFakeEngine(({ text }, response) => {
    const { encoding_format: format } = JSON.parse(text) as { encoding_format: string }
    const embedding = format === 'base64' ? Buffer.from(new Float32Array(numbers).buffer).toString('base64') : numbers
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(
      JSON.stringify({
        object: 'list',
        model: 'e',
        data: [{ object: 'embedding', index: 0, embedding }],
        usage: { prompt_tokens: 3, total_tokens: 3 },
      }),
    )
  })
  const router = createPolicyRouter({ policy: 'least-loaded' })
  house.gateway.addModel({
    name: 'e',
    blockSize: 16,
    router,
    workers: [{ id: 77n, url: engine.url, engine: 'vllm' }],
  })
  for (const asked of [{}, { encoding_format: 'float' as const }]) {
    const answer = await openai.embeddings.create({ model: 'e', input: 'three words here', ...asked })
    expect(answer.data[0]!.embedding).toEqual(numbers)
  }
  await house.gateway.removeModel('e')
  await router.close()
  await engine.close()
})

describe('a worker', () => {
  it('that hangs before its first byte is replaced, and the client does not notice', async () => {
    house.engines[1]!.arm([fault('hang_before_headers')]) // the other one is asked for tokens
    for (let at = 0; at < 3; at++) {
      const { choices } = await openai.chat.completions.create(chat(`${at} ${'new words '.repeat(at * 7)}`))
      expect(choices).toHaveLength(1)
    }
    house.engines[1]!.clearFaults()
  })

  it('that hangs in the middle ends the stream with an error, not with silence', async () => {
    for (const engine of house.engines) engine.arm([{ ...fault('hang_mid_stream'), after_chunks: 2 }])
    const stream = await openai.chat.completions.create({ ...chat('count'), max_tokens: 40, stream: true })
    await expect(
      (async () => {
        for await (const _chunk of stream);
      })(),
    ).rejects.toMatchObject({ code: 'WR_ENGINE_TIMEOUT' })
    for (const engine of house.engines) engine.clearFaults()
    await idle()
  })

  it('that is drained ends its streams and gets no new ones', async () => {
    const streams = await Promise.all(
      [0, 1].map((at) =>
        openai.chat.completions
          .create({ ...chat(`drain ${at}`), max_tokens: 400, stream: true }, { headers: pin(at + 1) })
          .withResponse(),
      ),
    )
    const drained = house.gateway.drainWorker(2n)
    const counts = await Promise.all(
      streams.map(async ({ data }) => {
        let tokens = 0
        for await (const chunk of data) tokens += chunk.choices[0]?.delta.content ? 1 : 0
        return tokens
      }),
    )
    await drained
    expect(Math.min(...counts)).toBeGreaterThan(100)
    const { response } = await openai.chat.completions.create(chat('after')).withResponse()
    expect(response.headers.get('x-warmroute-worker-id')).toBe('1')
    await expect(openai.chat.completions.create(chat('pinned'), { headers: pin(2) })).rejects.toMatchObject({
      status: expect.any(Number),
    })
  })
})

function pin(worker: number): Record<string, string> {
  return { 'x-worker-instance-id': String(worker) }
}

function fault(name: 'hang_before_headers' | 'hang_mid_stream') {
  return { fault: name, at_ms: 0, share: 1, ms: 0, status: 503, after_chunks: 0, batches: 1, tokens: 8, seconds: 1 }
}

/** Bookings end in the turn in which an answer does; the client hears of it a little earlier. */
async function idle(): Promise<void> {
  while (house.gateway.inFlight > 0) await new Promise((resolve) => setImmediate(resolve))
  expect((await house.router.loads()).every((load) => load.activeRequests === 0)).toBe(true)
}
