// Goal: a worker that hangs or is drained is no misfortune of a client, or one that it can understand.
// Method: the real client against simulated servers that are told to misbehave.
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { SimHouse } from './sim-house.js'
import { openSimHouse } from './sim-house.js'

describe.each(['vllm', 'sglang'] as const)('a worker that is a simulated %s', (engine) => {
  let house: SimHouse
  let openai: OpenAI

  beforeAll(async () => {
    house = await openSimHouse([engine, engine], { deadlines: { idleMs: 1_500, noProgressMs: 1_000 } })
    openai = new OpenAI({ baseURL: `${house.url}/v1`, apiKey: 'none', maxRetries: 0 })
  })

  afterAll(() => house.close())

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

  const chat = (content: string) => ({ model: 'sim', messages: [{ role: 'user' as const, content }], max_tokens: 4 })
})
