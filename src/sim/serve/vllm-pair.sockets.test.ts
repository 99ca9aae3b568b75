import { afterEach, expect, it, vi } from 'vitest'
import { readExchanges } from './recorded-http.case.js'
import type { SimEngine } from './sim-engine.js'
import { startSimEngine } from './sim-engine.js'
import type { PairOptions } from './sim-options.js'

const engines: SimEngine[] = []
afterEach(async () => {
  for (const engine of engines.splice(0)) await engine.close()
})

async function start(pair: Partial<PairOptions> = {}, blocks = 300): Promise<SimEngine> {
  const engine = await startSimEngine({
    engine: 'vllm',
    models: ['tiny'],
    blockTokens: 32,
    blocks,
    speedup: 1000,
    pair: { kind: 'nixl', connectMs: 60, ...pair },
  })
  engines.push(engine)
  return engine
}

type Reply = Record<string, unknown> & {
  choices: { text: string }[]
  kv_transfer_params: Record<string, unknown> | null
  usage: { prompt_tokens_details: { cached_tokens: number } }
}

async function post(engine: SimEngine, body: Record<string, unknown>, route = '/v1/completions'): Promise<Response> {
  return fetch(engine.url + route, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'tiny', temperature: 0, ...body }),
    signal: AbortSignal.timeout(5000),
  })
}

async function complete(engine: SimEngine, body: Record<string, unknown>): Promise<Reply> {
  const reply = await post(engine, body)
  expect(reply.status).toBe(200)
  return (await reply.json()) as Reply
}

function prompt(seed: number, length = 100): number[] {
  return Array.from({ length }, (_, index) => 300 + ((seed * 131 + index * 7) % 9000))
}

const askPrefill = { max_tokens: 1, kv_transfer_params: { do_remote_decode: true, do_remote_prefill: false } }

it('answers a prefill with the parameters that a real vLLM gave, and a decode with null', async () => {
  const [prefill, decode] = [await start(), await start()]
  const recorded = readExchanges('vllm/pd-nixl.jsonl.gz')
    .filter(({ step }) => step === '01-completions')
    .map(({ response_text: text }) => JSON.parse(text) as Reply)
  const held = await complete(prefill, { prompt: prompt(1, 150), ...askPrefill })
  expect(Object.keys(held)).toEqual(Object.keys(recorded[0]!))
  expect(Object.keys(held.kv_transfer_params!)).toEqual(Object.keys(recorded[0]!.kv_transfer_params!))
  expect(held.kv_transfer_params).toMatchObject({
    remote_num_tokens: 150,
    transfer_mode: 'pull',
    remote_block_ids: [[1, 2, 3, 4, 5]],
  })
  const answer = await complete(decode, {
    prompt: prompt(1, 150),
    max_tokens: 6,
    kv_transfer_params: held.kv_transfer_params,
  })
  expect(answer.kv_transfer_params).toBeNull()
  expect(answer.usage.prompt_tokens_details.cached_tokens).toBe(0) // what the prefill side had cached
})

it('decodes what an aggregated engine would say, caches the prompt, and lets the prefill side go', async () => {
  const [prefill, decode] = [await start(), await start()]
  const control = await complete(prefill, { prompt: prompt(2), max_tokens: 6 })
  const held = await complete(prefill, { prompt: prompt(2), ...askPrefill })
  expect(prefill.stats().ranks[0]!.active_blocks).toBe(4)
  const answer = await complete(decode, {
    prompt: prompt(2),
    max_tokens: 6,
    kv_transfer_params: held.kv_transfer_params,
  })
  expect(answer.choices[0]!.text).toBe(control.choices[0]!.text)
  expect(prefill.stats().ranks[0]!.active_blocks).toBe(0)
  expect(decode.stats().ranks[0]!.cached_blocks).toBe(3)
  expect((await complete(decode, { prompt: prompt(2), max_tokens: 6 })).usage.prompt_tokens_details.cached_tokens).toBe(
    96,
  )
})

it('holds blocks for the lease and no longer', async () => {
  const prefill = await start({ leaseMs: 60 })
  await complete(prefill, { prompt: prompt(3), ...askPrefill })
  expect(prefill.stats().ranks[0]!.active_blocks).toBe(4)
  await vi.waitFor(() => expect(prefill.stats().ranks[0]!.active_blocks).toBe(0))
})

it('answers a late decode with 200 and wrong words, and keeps the wrong KV for the next request', async () => {
  const [prefill, decode] = [await start({ leaseMs: 1 }, 12), await start()]
  const control = await complete(decode, { prompt: prompt(4), max_tokens: 6, cache_salt: 'control' })
  const held = await complete(prefill, { prompt: prompt(4), ...askPrefill })
  await vi.waitFor(() => expect(prefill.stats().ranks[0]!.active_blocks).toBe(0))
  for (let other = 10; other < 16; other++) await complete(prefill, { prompt: prompt(other), max_tokens: 1 }) // its blocks are reused
  const late = await complete(decode, { prompt: prompt(4), max_tokens: 6, kv_transfer_params: held.kv_transfer_params })
  expect(late.choices[0]!.text).not.toBe(control.choices[0]!.text)
  expect(prefill.stats().late_reads).toBe(1)
  const next = await complete(decode, { prompt: prompt(4), max_tokens: 6 })
  expect(next.usage.prompt_tokens_details.cached_tokens).toBe(96)
  expect(next.choices[0]!.text).not.toBe(control.choices[0]!.text)
  const fresh = await complete(decode, { prompt: prompt(4), max_tokens: 6, cache_salt: 'fresh' })
  expect(fresh.choices[0]!.text).toBe(control.choices[0]!.text)
})

it('dies of a decode request without block ids, and comes back when restarted', async () => {
  const decode = await start()
  const reply = await post(decode, {
    prompt: prompt(5),
    max_tokens: 6,
    kv_transfer_params: { do_remote_prefill: true, do_remote_decode: false },
  })
  expect(reply.status).toBe(500)
  expect(await reply.text()).toContain('EngineCore encountered an issue')
  await vi.waitFor(() => expect(fetch(`${decode.url}/health`)).rejects.toThrow('fetch failed'))
  await decode.restart()
  expect((await fetch(`${decode.url}/health`)).status).toBe(200)
})

it('fails with 500 when the prefill side cannot be reached, streamed as an error after the head', async () => {
  const [prefill, decode] = [await start(), await start()]
  const held = await complete(prefill, { prompt: prompt(6), ...askPrefill })
  await prefill.close()
  const body = { prompt: prompt(6), max_tokens: 6, kv_transfer_params: held.kv_transfer_params }
  const whole = await post(decode, body)
  expect(whole.status).toBe(500)
  expect(await whole.json()).toEqual({
    error: { message: 'Internal server error', type: 'InternalServerError', param: null, code: 500 },
  })
  const streamed = await post(decode, { ...body, stream: true })
  expect(streamed.status).toBe(200)
  expect(await streamed.text()).toMatch(/^data: \{"error":.*\n\ndata: \[DONE\]\n\n$/)
  expect((await post(decode, { prompt: prompt(7), max_tokens: 1 })).status).toBe(200)
})

it('releases a prefill that nobody needs because the decode side has it all', async () => {
  const [prefill, decode] = [await start(), await start()]
  await complete(decode, { prompt: prompt(8), max_tokens: 1 })
  const held = await complete(prefill, { prompt: prompt(8), ...askPrefill })
  await complete(decode, { prompt: prompt(8), max_tokens: 2, kv_transfer_params: held.kv_transfer_params })
  await vi.waitFor(() => expect(prefill.stats().ranks[0]!.active_blocks).toBe(0))
})

it('streams a decode over chat, from tokens that the router sent along', async () => {
  const [prefill, decode] = [await start(), await start()]
  const held = await complete(prefill, { prompt: prompt(9), ...askPrefill })
  const params = { ...held.kv_transfer_params, prompt_token_ids: prompt(9) }
  const chat = { messages: [{ role: 'user', content: 'x' }], max_tokens: 4, stream: true, return_token_ids: true }
  const text = await (await post(decode, { ...chat, kv_transfer_params: params }, '/v1/chat/completions')).text()
  expect(text).toContain(`"prompt_token_ids":[${prompt(9).slice(0, 3).join(',')}`)
  expect(text.endsWith('data: [DONE]\n\n')).toBe(true)
})
