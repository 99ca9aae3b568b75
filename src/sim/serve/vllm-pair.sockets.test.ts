// NIXL's pull between simulated engines, on both clocks: what a lease keeps, and each failure as it was recorded.
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { parseFaults } from './faults.js'
import { readExchanges } from './recorded-http.case.js'
import type { SimEngine } from './sim-engine.js'
import type { PairOptions } from './sim-options.js'
import type { Said } from './ask-engine.case.js'
import type { Stage } from './two-clocks.case.js'
import { clocks } from './two-clocks.case.js'

let stage: Stage
afterEach(() => stage.close())

function start(pair: Partial<PairOptions> = {}, blocks = 300): Promise<SimEngine> {
  return stage.start({
    engine: 'vllm',
    models: ['tiny'],
    blockTokens: 32,
    blocks,
    speedup: 1000,
    pair: { kind: 'nixl', ...pair },
  })
}

type Reply = Record<string, unknown> & {
  choices: { text: string }[]
  kv_transfer_params: Record<string, unknown> | null
  usage: { prompt_tokens_details: { cached_tokens: number } }
}

function post(engine: SimEngine, body: Record<string, unknown>, route = '/v1/completions'): Promise<Said> {
  return stage.ask(engine, route, { model: 'tiny', temperature: 0, ...body })
}

async function complete(engine: SimEngine, body: Record<string, unknown>): Promise<Reply> {
  const { status, text } = await post(engine, body)
  expect(status).toBe(200)
  return JSON.parse(text) as Reply
}

function prompt(seed: number, length = 100): number[] {
  return Array.from({ length }, (_, index) => 300 + ((seed * 131 + index * 7) % 9000))
}

const askPrefill = { max_tokens: 1, kv_transfer_params: { do_remote_decode: true, do_remote_prefill: false } }

describe.each(clocks)('on the %s clock', (_name, open) => {
  beforeEach(() => {
    stage = open()
  })

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
    expect(
      (await complete(decode, { prompt: prompt(2), max_tokens: 6 })).usage.prompt_tokens_details.cached_tokens,
    ).toBe(96)
  })

  it('holds blocks for the lease and no longer', async () => {
    const prefill = await start({ leaseMs: 60 })
    await complete(prefill, { prompt: prompt(3), ...askPrefill })
    expect(prefill.stats().ranks[0]!.active_blocks).toBe(4)
    await stage.until(() => expect(prefill.stats().ranks[0]!.active_blocks).toBe(0))
  })

  it('answers a late decode with 200 and wrong words, and keeps the wrong KV for the next request', async () => {
    const [prefill, decode] = [await start({ leaseMs: 1 }, 12), await start()]
    const control = await complete(decode, { prompt: prompt(4), max_tokens: 6, cache_salt: 'control' })
    const held = await complete(prefill, { prompt: prompt(4), ...askPrefill })
    await stage.until(() => expect(prefill.stats().ranks[0]!.active_blocks).toBe(0))
    for (let other = 10; other < 16; other++) await complete(prefill, { prompt: prompt(other), max_tokens: 1 }) // its blocks are reused
    const late = await complete(decode, {
      prompt: prompt(4),
      max_tokens: 6,
      kv_transfer_params: held.kv_transfer_params,
    })
    expect(late.choices[0]!.text).not.toBe(control.choices[0]!.text)
    expect(prefill.stats().late_reads).toBe(1)
    const next = await complete(decode, { prompt: prompt(4), max_tokens: 6 })
    expect(next.usage.prompt_tokens_details.cached_tokens).toBe(96)
    expect(next.choices[0]!.text).not.toBe(control.choices[0]!.text)
    const fresh = await complete(decode, { prompt: prompt(4), max_tokens: 6, cache_salt: 'fresh' })
    expect(fresh.choices[0]!.text).toBe(control.choices[0]!.text)
  })

  it('takes parameters that were used before for late ones: the blocks may be somebody else’s by then', async () => {
    const [prefill, decode] = [await start({}, 12), await start()]
    const control = await complete(decode, { prompt: prompt(4), max_tokens: 6, cache_salt: 'control' })
    const held = await complete(prefill, { prompt: prompt(4), ...askPrefill })
    const params = { prompt: prompt(4), max_tokens: 6, kv_transfer_params: held.kv_transfer_params }
    expect((await complete(decode, params)).choices[0]!.text).toBe(control.choices[0]!.text)
    for (let other = 10; other < 16; other++) await complete(prefill, { prompt: prompt(other), max_tokens: 1 })
    const again = await complete(await start(), params)
    expect(again.choices[0]!.text).not.toBe(control.choices[0]!.text)
    expect(prefill.stats().late_reads).toBe(1)
  })

  it('a decode whose client leaves before it has read lets the prefill side go, and is no late reader', async () => {
    const [prefill, decode] = [await start(), await start({ transferMsPerToken: 1 })]
    const held = await complete(prefill, { prompt: prompt(4), ...askPrefill })
    const client = new AbortController()
    const body = { model: 'tiny', prompt: prompt(4), max_tokens: 6, kv_transfer_params: held.kv_transfer_params }
    const left = stage.ask(decode, '/v1/completions', body, { signal: client.signal }).catch(() => 'left')
    await stage.until(() => expect(prefill.stats().held).toBe(0))
    client.abort()
    expect(await left).toBe('left')
    await stage.until(() => expect(decode.stats()).toMatchObject({ in_flight: 0, ranks: [{ active_blocks: 0 }] }))
    expect(prefill.stats()).toMatchObject({ held: 0, late_reads: 0, ranks: [{ active_blocks: 0 }] })
  })

  it.each([
    ['a wrong port', 'transfer_wrong_port', { remote_port: 1, remote_block_ids: [[1, 2, 3, 4]] }],
    ['no block ids', 'transfer_missing_keys', { remote_block_ids: undefined }],
  ] as const)('a prefill side that is told to names %s', async (_says, fault, params) => {
    const prefill = await start({ leaseMs: 50 })
    prefill.arm(parseFaults({ fault, count: 1 }))
    const held = await complete(prefill, { prompt: prompt(4), ...askPrefill })
    expect({ remote_block_ids: undefined, ...held.kv_transfer_params }).toMatchObject(params)
    await stage.until(() => expect(prefill.stats().held).toBe(0))
  })

  it('dies of a decode request without block ids, and comes back when restarted', async () => {
    const decode = await start()
    const { status, text } = await post(decode, {
      prompt: prompt(5),
      max_tokens: 6,
      kv_transfer_params: { do_remote_prefill: true, do_remote_decode: false },
    })
    expect(status).toBe(500)
    expect(text).toContain('EngineCore encountered an issue')
    await expect(stage.ask(decode, '/health')).rejects.toThrow(/ECONNREFUSED|hang up/)
    await decode.restart()
    expect((await stage.ask(decode, '/health')).status).toBe(200)
  })

  it('fails with 500 when the prefill side cannot be reached, streamed as an error after the head', async () => {
    const [prefill, decode] = [await start(), await start({ connectMs: 60 })]
    const held = await complete(prefill, { prompt: prompt(6), ...askPrefill })
    await prefill.close()
    const body = { prompt: prompt(6), max_tokens: 6, kv_transfer_params: held.kv_transfer_params }
    const whole = await post(decode, body)
    expect(whole.status).toBe(500)
    expect(JSON.parse(whole.text)).toEqual({
      error: { message: 'Internal server error', type: 'InternalServerError', param: null, code: 500 },
    })
    const streamed = await post(decode, { ...body, stream: true })
    expect(streamed.status).toBe(200)
    expect(streamed.text).toMatch(/^data: \{"error":.*\n\ndata: \[DONE\]\n\n$/)
    expect((await post(decode, { prompt: prompt(7), max_tokens: 1 })).status).toBe(200)
  })

  it('releases a prefill that nobody needs because the decode side has it all', async () => {
    const [prefill, decode] = [await start(), await start()]
    await complete(decode, { prompt: prompt(8), max_tokens: 1 })
    const held = await complete(prefill, { prompt: prompt(8), ...askPrefill })
    await complete(decode, { prompt: prompt(8), max_tokens: 2, kv_transfer_params: held.kv_transfer_params })
    await stage.until(() => expect(prefill.stats().ranks[0]!.active_blocks).toBe(0))
  })

  it('streams a decode over chat, from tokens that the router sent along', async () => {
    const [prefill, decode] = [await start(), await start()]
    const held = await complete(prefill, { prompt: prompt(9), ...askPrefill })
    const params = { ...held.kv_transfer_params, prompt_token_ids: prompt(9) }
    const chat = { messages: [{ role: 'user', content: 'x' }], max_tokens: 4, stream: true, return_token_ids: true }
    const { text } = await post(decode, { ...chat, kv_transfer_params: params }, '/v1/chat/completions')
    expect(text).toContain(`"prompt_token_ids":[${prompt(9).slice(0, 3).join(',')}`)
    expect(text.endsWith('data: [DONE]\n\n')).toBe(true)
  })
})
