// SGLang's pairs between simulated engines, on both clocks: rooms, ranks, and what becomes of a leg whose other half fails.
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { SimEngine } from './sim-engine.js'
import type { PairOptions } from './sim-options.js'
import type { Stage } from './two-clocks.case.js'
import { clocks } from './two-clocks.case.js'

let stage: Stage
afterEach(() => stage.close())

function start(kind: 'prefill' | 'decode', pair: Partial<PairOptions> = {}, ranks = 1): Promise<SimEngine> {
  return stage.start({
    engine: 'sglang',
    blockTokens: 4,
    blocks: 64,
    speedup: 1000,
    ranks,
    pair: { kind, heartbeatMs: 20, ...pair },
  })
}

interface Reply {
  readonly status: number
  readonly json: { choices?: { text: string }[]; message?: string }
}

async function post(engine: SimEngine, body: Record<string, unknown>, signal?: AbortSignal): Promise<Reply> {
  const prompt = [300, 301, 302, 303, 304, 305, 306, 307, 308]
  const asked = { prompt, temperature: 0, max_tokens: 6, ...body }
  const { status, text } = await stage.ask(engine, '/v1/completions', asked, signal && { signal })
  return { status, json: JSON.parse(text) as Reply['json'] }
}

function roomOn(prefill: SimEngine, room: number) {
  return { bootstrap_host: '127.0.0.1', bootstrap_port: prefill.pairPort, bootstrap_room: room }
}

describe.each(clocks)('on the %s clock', (name, open) => {
  beforeEach(() => {
    stage = open()
  })

  it.each(['prefill first', 'decode first'])('answers both legs of a pair, %s, as one engine would', async (order) => {
    const [prefill, decode] = [await start('prefill'), await start('decode')]
    const alone = await stage.start({ engine: 'sglang', blockTokens: 4, blocks: 64, speedup: 1000 })
    const control = await post(alone, {})
    const legs = order === 'prefill first' ? [prefill, decode] : [decode, prefill]
    const first = post(legs[0]!, roomOn(prefill, 7))
    await stage.until(() => expect(prefill.stats().held).toBe(1))
    const replies = await Promise.all([first, post(legs[1]!, roomOn(prefill, 7))])
    expect(replies.map(({ status }) => status)).toEqual([200, 200])
    const [fromPrefill, fromDecode] = order === 'prefill first' ? replies : [replies[1], replies[0]]
    expect(fromDecode!.json.choices![0]!.text).toBe(control.json.choices![0]!.text)
    expect(control.json.choices![0]!.text.startsWith(fromPrefill!.json.choices![0]!.text)).toBe(true)
    expect(prefill.stats()).toMatchObject({ held: 0, ranks: [{ active_blocks: 0, cached_blocks: 2 }] })
    expect(decode.stats()).toMatchObject({ ranks: [{ active_blocks: 0, cached_blocks: 0 }] })
    expect(decode.stats().ranks[0]!.batches_numbered).toBe(name === 'real' ? 1 : 0) // nothing but that it starts empty
  })

  it('computes nothing before the decode side has come', async () => {
    const prefill = await start('prefill', { rendezvousMs: 50 })
    const reply = await post(prefill, roomOn(prefill, 1))
    expect(reply.status).toBe(500)
    expect(reply.json.message).toContain('Prefill bootstrap failed')
    expect(prefill.stats()).toMatchObject({ held: 0, ranks: [{ prompt_tokens: 0 }] })
  })

  it('fails a decode whose prefill does not come, leaves, or cannot be reached', async () => {
    const [prefill, decode] = [await start('prefill'), await start('decode', { rendezvousMs: 60 })]
    expect((await post(decode, roomOn(prefill, 2))).status).toBe(500)
    expect((await post(decode, { ...roomOn(prefill, 2), bootstrap_port: 1 })).status).toBe(500)
    const waiting = post(await start('decode'), roomOn(prefill, 3))
    await stage.until(() => expect(prefill.stats().held).toBe(1))
    await prefill.close()
    expect((await waiting).status).toBe(500)
  })

  it('ends a prefill when the decode client leaves', async () => {
    const [prefill, decode] = [await start('prefill', { transferMsPerToken: 30 }), await start('decode')]
    const client = new AbortController()
    const decoding = post(decode, roomOn(prefill, 4), client.signal).catch(() => 'gone')
    const prefilling = post(prefill, roomOn(prefill, 4))
    await stage.until(() => expect(prefill.stats().requests).toBe(1))
    client.abort()
    expect(await decoding).toBe('gone')
    expect((await prefilling).status).toBe(500)
    expect(prefill.stats()).toMatchObject({ held: 0, ranks: [{ active_blocks: 0 }] })
  })

  it('finds the prefill rank by the room, and refuses a pin that disagrees unless it is said on the leg', async () => {
    // A decode leg whose prefill was refused first waits in vain: always end both legs.
    const [prefill, decode] = [await start('prefill', {}, 2), await start('decode', { rendezvousMs: 300 })]
    const pair = async (room: number, fields: Record<string, unknown>) =>
      Promise.all([post(prefill, { ...roomOn(prefill, room), ...fields }), post(decode, roomOn(prefill, room))])
    expect((await pair(5, {})).map(({ status }) => status)).toEqual([200, 200])
    expect(prefill.stats().ranks.map(({ prompt_tokens: tokens }) => tokens)).toEqual([0, 9])
    const conflict = await pair(7, { routed_dp_rank: 0 })
    expect(conflict[0].json.message).toContain('follow_bootstrap_room conflict')
    expect(conflict[1].status).toBe(500)
    expect((await pair(9, { routed_dp_rank: 0, disagg_prefill_dp_rank: 0 })).map(({ status }) => status)).toEqual([
      200, 200,
    ])
    expect(prefill.stats().ranks.map(({ prompt_tokens: tokens }) => tokens)).toEqual([9, 9])
  })

  it('says which half it is, refuses requests without a room, and serves its own health checks', async () => {
    const prefill = await start('prefill')
    const info = JSON.parse((await stage.ask(prefill, '/server_info')).text) as Record<string, unknown>
    expect(info).toMatchObject({ disaggregation_mode: 'prefill', disaggregation_bootstrap_port: prefill.pairPort })
    expect((await post(prefill, {})).status).toBe(400)
    expect((await post(prefill, { bootstrap_host: '2.2.2.2', bootstrap_room: 0 })).status).toBe(200)
  })
})
