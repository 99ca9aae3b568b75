// NIXL push, Mooncake and a shared cache between simulated engines, asked as a router would ask them, on both clocks.
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { SimEngine } from './sim-engine.js'
import type { PairOptions } from './sim-options.js'
import type { Stage } from './two-clocks.case.js'
import { clocks } from './two-clocks.case.js'

let stage: Stage
afterEach(() => stage.close())

function start(pair: Partial<PairOptions> & Pick<PairOptions, 'kind'>, speedup = 100): Promise<SimEngine> {
  return stage.start({ engine: 'vllm', speedup, blockTokens: 16, pair: { connectMs: 100, ...pair } })
}

const prompt = Array.from({ length: 70 }, (_, at) => 300 + at)

interface Answer {
  readonly status: number
  readonly text: string | undefined
}

async function complete(engine: SimEngine, body: object, headers: Record<string, string> = {}): Promise<Answer> {
  const asked = { model: 'sim', prompt, max_tokens: 4, temperature: 0, ...body }
  const { status, text } = await stage.ask(engine, '/v1/completions', asked, { headers })
  const { choices } = JSON.parse(text) as { choices?: { text: string }[] }
  return { status, text: choices?.[0]?.text }
}

const ask = { max_tokens: 1, kv_transfer_params: { do_remote_decode: true, do_remote_prefill: false } }
const named = (params: object, transfer_id = 'xfer-1'): object => ({ kv_transfer_params: { ...params, transfer_id } })

describe.each(clocks)('on the %s clock', (name, open) => {
  beforeEach(() => {
    stage = open()
  })

  describe.each(['nixl_push', 'mooncake'] as const)('%s', (kind) => {
    const where = (prefill: SimEngine, engineId = 'e-1'): object => ({
      do_remote_prefill: true,
      do_remote_decode: false,
      remote_engine_id: engineId,
      ...(kind === 'mooncake'
        ? { remote_bootstrap_addr: `http://127.0.0.1:${prefill.pairPort}` }
        : { remote_host: '127.0.0.1', remote_port: prefill.pairPort }),
    })

    it.each(['prefill', 'decode'])('the legs meet when the %s is asked first', async (first) => {
      const [prefill, decode] = [await start({ kind, engineId: 'e-1' }), await start({ kind })]
      const control = await complete(await start({ kind: 'nixl' }), {})
      const legs = [
        () => complete(prefill, { ...ask, ...named(ask.kv_transfer_params) }),
        () => complete(decode, named(where(prefill))),
      ]
      const [one, two] = first === 'prefill' ? legs : legs.toReversed()
      const started = one!()
      // A decode that waits for its prefill shows nowhere.
      if (first === 'prefill') await stage.until(() => expect(prefill.stats().held).toBe(1))
      const answers = await Promise.all([started, two!()])
      const decoded = first === 'prefill' ? answers[1] : answers[0]
      expect(decoded).toEqual(control)
      expect(prefill.stats()).toMatchObject({ held: 0, ranks: [{ active_blocks: 0, generated_tokens: 1 }] })
      expect(decode.stats().ranks[0]!.generated_tokens).toBe(4)
    })

    it('an offer that nobody asks for is held for its lease and no longer', async () => {
      const prefill = await start({ kind, leaseMs: 60 })
      await complete(prefill, { ...ask, ...named(ask.kv_transfer_params) })
      expect(prefill.stats()).toMatchObject({ held: 1, ranks: [{ active_blocks: 5 }] })
      await stage.until(() => expect(prefill.stats()).toMatchObject({ held: 0, ranks: [{ active_blocks: 0 }] }))
    })

    it('a decode fails that asks another engine, or for what was fetched already', async () => {
      const [prefill, decode] = [await start({ kind, engineId: 'e-1' }), await start({ kind, rendezvousMs: 80 })]
      await complete(prefill, { ...ask, ...named(ask.kv_transfer_params) })
      expect((await complete(decode, named(where(prefill, 'e-2')))).status).toBe(500)
      expect((await complete(decode, named(where(prefill)))).status).toBe(200)
      expect((await complete(decode, { ...named(where(prefill)), prompt: [...prompt, 7] })).status).toBe(500)
    })
  })

  it('NIXL push without a transfer id: the legs are matched by the request id that both were sent', async () => {
    const [prefill, decode] = [
      await start({ kind: 'nixl_push', engineId: 'e-1' }),
      await start({ kind: 'nixl_push', rendezvousMs: 80 }),
    ]
    const to = {
      do_remote_prefill: true,
      remote_engine_id: 'e-1',
      remote_host: '127.0.0.1',
      remote_port: prefill.pairPort,
    }
    await complete(prefill, ask, { 'x-request-id': 'r-1' })
    expect((await complete(decode, { kv_transfer_params: to }, { 'x-request-id': 'r-2' })).status).toBe(500)
    expect((await complete(decode, { kv_transfer_params: to }, { 'x-request-id': 'r-1' })).status).toBe(200)
  })

  it('Mooncake needs a transfer id, and says who its engines are', async () => {
    const prefill = await start({ kind: 'mooncake', engineId: 'e-1' })
    expect((await complete(prefill, ask)).status).toBe(400)
    const bootstrap = { port: prefill.pairPort }
    expect(JSON.parse((await stage.ask(bootstrap, '/query')).text)).toMatchObject({
      '0': { engine_id: 'e-1', worker_addr: expect.stringContaining(':') as string },
    })
    expect((await stage.ask(bootstrap, '/other')).status).toBe(404)
  })

  it('a shared cache: what one engine computed another finds, unless it has another cache', async () => {
    const stores = ['a', 'a', 'b'].map((store) => start({ kind: 'shared_cache', store: `${name}-${store}` }, 0.2))
    const [one, two, other] = (await Promise.all(stores)) as [SimEngine, SimEngine, SimEngine]
    const long = { prompt: Array.from({ length: 12_000 }, (_, at) => 300 + (at % 9000)), max_tokens: 1 }
    const first = await complete(one, long)
    const tookMs = async (engine: SimEngine): Promise<number> => {
      const startedMs = stage.now()
      expect(await complete(engine, long)).toEqual(first)
      return stage.now() - startedMs
    }
    expect(await tookMs(two)).toBeLessThan((await tookMs(other)) / 2)
  })
})
