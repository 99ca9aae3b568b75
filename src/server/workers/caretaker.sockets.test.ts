// What the caretaker learns by asking engines: who is busy (their own figures) and who is up (their health).
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { warningsDuring } from '../../../test/warnings.js'
import type { LoadThresholds } from '../../core/load/index.js'
import type { EngineKind } from '../../engines/index.js'
import { answerChat } from '../fake-engine.case.js'
import type { House, HouseOptions } from '../house.case.js'
import { chatBody, openHouse, post } from '../house.case.js'
import type { ModelSpec } from '../options.js'

let house: House | undefined

afterEach(async () => {
  await house?.close()
  house = undefined
})

const path = '/v1/chat/completions'

async function workersOf(times: number): Promise<string[]> {
  const workers: string[] = []
  for (let at = 0; at < times; at++) {
    const response = await post(house!.url, path, chatBody())
    workers.push(response.headers.get('x-warmroute-worker-id') ?? String(response.status))
    await response.text()
  }
  return workers
}

/** Until requests go where they should; the caretaker asks every few milliseconds. */
async function untilServedBy(...workers: readonly string[]): Promise<void> {
  const end = performance.now() + 5_000
  const wanted = workers.join()
  let seen = ''
  while (seen !== wanted && performance.now() < end) seen = [...new Set(await workersOf(6))].sort().join()
  expect(seen).toBe(wanted)
}

describe('figures of engines', () => {
  const figures: Readonly<Record<string, { page: string; of: (used: number) => string }>> = {
    vllm: {
      page: '/metrics',
      of: (used) =>
        `# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc{engine="0",model_name="m"} ${used}\n`,
    },
    sglang: {
      page: '/v1/loads?include=core',
      of: (used) => JSON.stringify({ loads: [{ dp_rank: 0, num_running_reqs: 1, token_usage: used }] }),
    },
  }

  async function openWith(
    kind: EngineKind,
    thresholds: LoadThresholds,
    model: Partial<ModelSpec> = {},
  ): Promise<House> {
    house = await openHouse({ engines: 2, model: { thresholds, ...model }, gateway: { health: { metricsMs: 5 } } })
    const config = { dataParallelStartRank: 0, dataParallelSize: 1, totalKvBlocks: 100 }
    for (const [at, { url }] of house.engines.entries())
      house.gateway.setWorker('m', { id: BigInt(at + 1), url, engine: kind, config })
    return house
  }

  const say = (kind: string, at: number, used: number): void => {
    const { page, of } = figures[kind]!
    house!.engines[at]!.pages.set(page, of(used))
  }

  it.each(['vllm', 'sglang'] as const)('of %s leave out who is over the threshold, and let it back', async (kind) => {
    await openWith(kind, { activeDecodeBlocksThreshold: 0.8 })
    await untilServedBy('1', '2')
    say(kind, 0, 0.95)
    await untilServedBy('2')
    say(kind, 1, 0.95)
    await untilServedBy('529')
    say(kind, 0, 0.2)
    await untilServedBy('1')
    say(kind, 1, 0.2)
    await untilServedBy('1', '2')
  })

  it('with the gate of 1.2 leave out nobody until everybody is busy', async () => {
    await openWith('vllm', { activeDecodeBlocksThreshold: 0.8 }, { busyGate: 'all' })
    say('vllm', 0, 0.95)
    await untilAsked(0, 3)
    await untilServedBy('1', '2')
    say('vllm', 1, 0.95)
    await untilServedBy('529')
    say('vllm', 1, 0.2)
    await untilServedBy('1', '2')
  })

  it('by the rules of 1.0 mean nothing: those count only what the router knows', async () => {
    await openWith('vllm', { activeDecodeBlocksThreshold: 0.8 }, { monitor: '1.0' })
    say('vllm', 0, 0.95)
    await untilAsked(0, 3)
    await untilServedBy('1', '2')
    const { thresholds } = (await (await fetch(`${house!.url}/busy_threshold`)).json()) as { thresholds: object[] }
    expect(thresholds).toEqual([
      {
        model: 'm',
        active_decode_blocks_threshold: 0.8,
        active_prefill_tokens_threshold: 10_000_000,
        active_prefill_tokens_threshold_frac: 1.5,
      },
    ])
  })

  it.each(['nothing of the kind', '', 'vllm:kv_cache_usage_perc{engine="0"} NaN\n'])(
    'that cannot be read (%j) change nothing',
    async (page) => {
      await openWith('vllm', { activeDecodeBlocksThreshold: 0.8 })
      say('vllm', 0, 0.95)
      await untilServedBy('2')
      house!.engines[0]!.pages.set('/metrics', page)
      await untilAsked(0, 3)
      await untilServedBy('2')
    },
  )

  it('are not asked for where nobody needs them', async () => {
    await openWith('vllm', {})
    await untilServedBy('1', '2')
    const asked = house!.engines[0]!.asked.length
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setTimeout(resolve, 2))
    expect(house!.engines[0]!.asked.length - asked).toBeLessThanOrEqual(1) // one may have been on its way
  })

  it('that move keep a silent request from being given up', async () => {
    const respond: HouseOptions['respond'] = (request, response) =>
      void setTimeout(() => answerChat(request, response), 600)
    const health = { metricsMs: 5 }
    house = await openHouse({ engines: 1, respond, gateway: { health, deadlines: { noProgressMs: 300 } } })
    let used = 0
    const step = setInterval(() => say('vllm', 0, (used = (used + 0.01) % 1)), 5)
    const response = await post(house.url, path, chatBody())
    clearInterval(step)
    expect(response.status).toBe(200)
    await response.text()
  })

  /** The caretaker has read the figures of an engine so often since. */
  async function untilAsked(at: number, times: number): Promise<void> {
    const { asked } = house!.engines[at]!
    const from = asked.length
    while (asked.length < from + times) await new Promise((resolve) => setTimeout(resolve, 2))
  }
})

describe('health of engines', () => {
  it('leaves out who says no, and lets it back when it says yes', async () => {
    const { engines } = (house = await openHouse({ engines: 2, gateway: { health: { intervalMs: 5 } } }))
    await untilServedBy('1', '2')
    engines[0]!.health = 503
    await untilServedBy('2')
    engines[0]!.health = 200
    await untilServedBy('1', '2')
  })

  it('leaves out who says no, though it streams', async () => {
    const respond: HouseOptions['respond'] = (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      const step = setInterval(() => response.write('data: {"choices":[{"text":"a"}]}\n\n'), 5)
      response.on('close', () => clearInterval(step))
    }
    const { engines, gateway, url } = (house = await openHouse({
      engines: 1,
      respond,
      gateway: { health: { intervalMs: 5 } },
    }))
    const leaving = new AbortController()
    const headers = { 'content-type': 'application/json' }
    const body = chatBody({ stream: true })
    const stream = await fetch(`${url}${path}`, { method: 'POST', headers, body, signal: leaving.signal })
    expect(stream.status).toBe(200)
    engines[0]!.health = 503
    const end = performance.now() + 5_000
    while (!gateway.workers()[0]!.is_quarantined && performance.now() < end)
      await new Promise((resolve) => setTimeout(resolve, 2))
    expect(gateway.workers()[0]!.is_quarantined).toBe(true)
    leaving.abort()
  })

  it("is asked for with the worker's own key", async () => {
    const { engines, gateway } = (house = await openHouse({ engines: 1, gateway: { health: { intervalMs: 5 } } }))
    gateway.setWorker('m', { id: 1n, url: engines[0]!.url, engine: 'vllm', apiKey: 'sk-engine' })
    const isAsked = (): boolean =>
      engines[0]!.asked.some((it) => it.path === '/health' && it.headers.authorization === 'Bearer sk-engine')
    while (!isAsked()) await new Promise((resolve) => setTimeout(resolve, 2))
  })

  it('of one that is gone leaves it out', async () => {
    const health = { intervalMs: 5, timeoutMs: 50 }
    house = await openHouse({ engines: 2, gateway: { health } })
    const { engines, gateway } = house
    await untilServedBy('1', '2')
    await engines[0]!.close() // nobody listens any more
    await untilServedBy('2')
    const isOut = () => gateway.workers().find(({ id }) => id === '1')?.is_quarantined
    expect(isOut()).toBe(true)
  })
})

it('asks many workers that are slow to answer, and none is taken for a leak', async () => {
  const count = 14
  const asked = new Set<string>()
  const silent = createServer(({ url }) => void asked.add(url!))
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  const base = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`
  const model = { thresholds: { activeDecodeBlocksThreshold: 0.5 } } // somebody needs the figures
  house = await openHouse({ engines: 0, model, gateway: { health: { metricsMs: 5, timeoutMs: 600_000 } } })
  for (let id = 1; id <= count; id++)
    house.gateway.setWorker('m', { id: BigInt(id), url: `${base}/${id}`, engine: 'vllm' })
  const warnings = await warningsDuring(() => vi.waitUntil(() => asked.size === count, 60_000))
  expect(warnings).toEqual([])
  await house.close()
  house = undefined
  silent.close().closeAllConnections()
})
