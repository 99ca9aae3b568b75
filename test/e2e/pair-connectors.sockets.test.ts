// Every way in which KV gets from a prefill server to a decode server, end to end: `warmroute serve` in front of simulated
// servers that speak it, over real sockets, asked by the `openai` client.
import OpenAI from 'openai'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { parseFaults, startSimEngine } from '../../src/sim/index.js'
import type { SimEngine } from '../../src/sim/index.js'
import type { PairHouse, PairHouseOptions } from './pair-house.js'
import { openPairHouse, post } from './pair-house.js'

let house: PairHouse | undefined
afterEach(async () => {
  await house?.close() // where nothing may be held, run or be connected any more
  house = undefined
})

async function open(options: PairHouseOptions): Promise<PairHouse & { readonly openai: OpenAI }> {
  house = await openPairHouse(options)
  return { ...house, openai: new OpenAI({ baseURL: `${house.url}/v1`, apiKey: 'none', maxRetries: 0 }) }
}

const shapes: readonly Pick<PairHouseOptions, 'engine' | 'connector'>[] = [
  { engine: 'vllm', connector: 'nixl' },
  { engine: 'vllm', connector: 'nixl_push' },
  { engine: 'vllm', connector: 'mooncake' },
  { engine: 'vllm', connector: 'shared_cache' },
  { engine: 'sglang' },
]

const messages = [
  { role: 'system' as const, content: 'You are a careful assistant who counts. '.repeat(20) },
  { role: 'user' as const, content: 'Count.' },
]
const body = { model: 'sim', messages, max_tokens: 8, temperature: 0 }

const sum = (side: readonly SimEngine[], of: (engine: SimEngine) => number): number =>
  side.reduce((total, engine) => total + of(engine), 0)
const generated = (engine: SimEngine): number => engine.stats().ranks[0]!.generated_tokens

describe.each(shapes)('$engine $connector', (shape) => {
  it('says what one server alone would say, whole and streamed, chat and completions', async () => {
    const { openai, prefill, decode, metrics } = await open(shape)
    const alone = await startSimEngine({ ...shape, models: ['sim'], blockTokens: 16, speedup: 100, healthMs: 0 })
    const control = new OpenAI({ baseURL: `${alone.url}/v1`, apiKey: 'none', maxRetries: 0 })
    try {
      const expected = (await control.chat.completions.create(body)).choices[0]!.message.content
      const { data, response } = await openai.chat.completions.create(body).withResponse()
      expect(data.choices[0]!.message.content).toBe(expected)
      expect(['1', '2']).toContain(response.headers.get('x-warmroute-prefill-worker-id'))
      expect(['3', '4']).toContain(response.headers.get('x-warmroute-worker-id'))
      let text = ''
      for await (const chunk of await openai.chat.completions.create({ ...body, stream: true }))
        text += chunk.choices[0]?.delta.content ?? ''
      expect(text).toBe(expected)
      const asked = { model: 'sim', prompt: 'once upon a time there was', max_tokens: 3, temperature: 0 }
      const plain = await openai.completions.create(asked)
      expect(plain.choices[0]!.text).toBe((await control.completions.create(asked)).choices[0]!.text)
    } finally {
      await alone.close()
    }
    expect(sum(prefill, generated)).toBe(3) // one token per prefill, and nothing else
    expect(sum(decode, generated)).toBe(8 + 8 + 3)
    expect(await metrics()).not.toMatch(/remote_prefill_skipped_total\{[^}]*\} [1-9]/)
  })

  it('a prefill server that dies is replaced', async () => {
    const { openai, prefill } = await open({ ...shape, rendezvousMs: 2_000, words: ['--connect-timeout-ms', '300'] })
    await prefill[0]!.close()
    for (const word of ['one', 'two', 'three']) {
      const asked = { ...body, messages: [{ role: 'user' as const, content: word }] }
      const { response } = await openai.chat.completions.create(asked).withResponse()
      expect(response.headers.get('x-warmroute-prefill-worker-id')).toBe('2')
    }
  })

  it('a client that leaves takes both legs along, and nothing is held for it', async () => {
    const { openai, prefill, decode } = await open({ ...shape, sim: { speedup: 1 }, leaseMs: 20_000 })
    const client = new AbortController()
    const asked = { ...body, max_tokens: 5_000, stream: true as const }
    const stream = await openai.chat.completions.create(asked, { signal: client.signal })
    for await (const _chunk of stream) client.abort()
    await vi.waitFor(() => {
      expect(sum([...prefill, ...decode], (engine) => engine.stats().in_flight)).toBe(0)
      expect(sum(prefill, (engine) => engine.stats().held)).toBe(0)
    })
  })
})

describe('what was recorded to go wrong between real servers, through the gateway', () => {
  it('parameters without blocks never reach a decode server, which they would end', async () => {
    const { openai, prefill, decode, metrics } = await open({ engine: 'vllm', leaseMs: 400 })
    for (const engine of prefill) engine.arm([fault('transfer_missing_keys', 1)])
    const { response } = await openai.chat.completions.create(body).withResponse()
    expect(response.headers.get('x-warmroute-prefill-skipped')).toBe('prefill_failed') // both workers said it
    const again = await openai.chat.completions.create(body).withResponse()
    expect(again.response.headers.get('x-warmroute-prefill-skipped')).toBeNull()
    expect(sum(decode, (engine) => engine.stats().restarts)).toBe(0)
    expect(await metrics()).toMatch(/warmroute_prefill_legs_total\{model="sim",outcome="failed",worker="1"\} 1/)
  })

  it('a wrong port fails the decode, and another gets a prefill of its own', async () => {
    const { openai, prefill, metrics } = await open({ engine: 'vllm', prefill: 1, leaseMs: 2_000, connectMs: 400 })
    prefill[0]!.arm([fault('transfer_wrong_port', 1)])
    const answer = await openai.chat.completions.create(body)
    expect(answer.choices[0]!.message.content).not.toBe('')
    expect(generated(prefill[0]!)).toBe(2)
    expect(await metrics()).toContain('warmroute_held_kv_released_total{how="decode_failed",model="sim"} 1')
    await vi.waitFor(() => expect(prefill[0]!.stats().held).toBe(0)) // by its lease, at the latest
  })

  it('a wrong port everywhere is an error that names the leg', async () => {
    const { url, prefill } = await open({ engine: 'vllm', leaseMs: 600, connectMs: 100 })
    for (const engine of prefill) engine.arm([fault('transfer_wrong_port')])
    const response = await post(url, '/v1/chat/completions', body)
    expect([response.status, await response.text()]).toMatchObject([
      500,
      expect.stringContaining('Internal server error'),
    ])
  })

  it('a decode that cannot be in time is never sent: no server reads after a lease', async () => {
    const { openai, prefill, decode, metrics } = await open({ engine: 'vllm', leaseMs: 1 })
    const { response } = await openai.chat.completions.create(body).withResponse()
    expect(response.headers.get('x-warmroute-prefill-skipped')).toBe('prefill_failed')
    expect(await metrics()).toMatch(/warmroute_prefill_lease_missed_total\{model="sim"\} [1-9]/)
    expect(sum([...prefill, ...decode], (engine) => engine.stats().late_reads)).toBe(0)
  })

  it('parameters that were used are not sent again: who tries a second time gets a prefill of its own', async () => {
    // It fails whatever it is asked: who looked at it would take it away before a request gets there.
    const { openai, prefill, decode, metrics } = await open({ engine: 'vllm', watchMs: 600_000 })
    decode[0]!.arm([fault('status')])
    let requests = 0
    let retried = 0
    while (retried === 0 && requests < 20) {
      const asked = { ...body, messages: [{ role: 'user' as const, content: `Count from ${requests++}.` }] }
      expect((await openai.chat.completions.create(asked)).choices).toHaveLength(1)
      retried = Number(/requests_retried_total\{model="sim"\} (\d+)/.exec(await metrics())?.[1] ?? 0)
    }
    expect([retried, sum(prefill, generated)]).toEqual([1, requests + 1])
    expect(sum(prefill, (engine) => engine.stats().late_reads)).toBe(0)
    await Promise.all(prefill.map((engine) => engine.restart())) // or what nobody may read again is held for all of its lease
  })

  it("a client's own parameters, taken from a prefill server behind our back, reach nobody", async () => {
    const { url, prefill, openai } = await open({ engine: 'vllm', leaseMs: 500 })
    const params = { do_remote_decode: true, do_remote_prefill: false }
    const direct = await post(prefill[0]!.url, '/v1/chat/completions', {
      ...body,
      max_tokens: 1,
      kv_transfer_params: params,
    })
    const { kv_transfer_params: stolen } = (await direct.json()) as { kv_transfer_params: object }
    const expected = (await openai.chat.completions.create(body)).choices[0]!.message.content
    const answer = await post(url, '/v1/chat/completions', { ...body, kv_transfer_params: stolen })
    expect(await answer.json()).toMatchObject({ choices: [{ message: { content: expected } }] })
  })
})

it('SGLang: several prompts in one request meet in a room each', async () => {
  const { openai, prefill, decode } = await open({ engine: 'sglang', prefill: 1, decode: 1, sim: { ranks: 2 } })
  const answer = await openai.completions.create({ model: 'sim', prompt: ['one', 'two', 'three'], max_tokens: 4 })
  expect(answer.choices).toHaveLength(3)
  const tokens = ([engine]: readonly SimEngine[]): number[] =>
    engine!.stats().ranks.map((rank) => rank.generated_tokens)
  expect(tokens(prefill).toSorted((a, b) => a - b)).toEqual([0, 3]) // all of them on the rank that was chosen
  expect(tokens(decode).reduce((all, it) => all + it)).toBe(12)
})

it('SGLang: several answers to one prompt are refused before they hang', async () => {
  const { url } = await open({ engine: 'sglang', prefill: 1, decode: 1 })
  const response = await post(url, '/v1/chat/completions', { ...body, n: 2 })
  expect([response.status, await response.text()]).toMatchObject([501, expect.stringContaining('sequences')])
})

function fault(kind: 'transfer_missing_keys' | 'transfer_wrong_port' | 'status', count?: number) {
  return parseFaults({
    fault: kind,
    ...(count === undefined ? {} : { count }),
    ...(kind === 'status' ? { status: 500 } : {}),
  })[0]!
}
