// That what is configured reaches pairs: modes of choosing, queues, pins, places, conditions. `warmroute serve` in front of
// simulated servers, over real sockets.
import { afterEach, describe, expect, it, vi } from 'vitest'
import { settled } from '../../src/cli/serve-house.case.js'
import type { PairHouse, PairHouseOptions } from './pair-house.js'
import { openPairHouse, post } from './pair-house.js'

let house: PairHouse | undefined
afterEach(async () => {
  await house?.close()
  house = undefined
})

async function open(options: PairHouseOptions): Promise<PairHouse> {
  return (house = await openPairHouse(options))
}

function ask(content: string, headers: Record<string, string> = {}, more: object = {}): Promise<Response> {
  const body = { model: 'sim', messages: [{ role: 'user', content }], max_tokens: 2, ...more }
  return post(house!.url, '/v1/chat/completions', body, headers)
}

const said = (response: Response, name: string): string | null => response.headers.get(`x-warmroute-${name}`)
const pairOf = (response: Response): (string | null)[] => [
  said(response, 'prefill-worker-id'),
  said(response, 'worker-id'),
]

describe.each(['kv', 'round-robin', 'random', 'least-loaded', 'power-of-two', 'token-balance'])('mode %s', (mode) => {
  it.each(['vllm', 'sglang'] as const)('chooses prefill and decode workers of %s', async (engine) => {
    await open({ engine, words: ['--router-mode', mode] })
    const seen = new Set<string | null>()
    for (let at = 0; at < 4; at++) {
      const response = await ask(`Tell me about ${at}. `.repeat(10))
      expect([response.status, said(response, 'prefill-skipped')]).toEqual([200, null])
      const [prefill, decode] = pairOf(response)
      expect(['1', '2']).toContain(prefill)
      expect(['3', '4']).toContain(decode)
      seen.add(prefill!)
    }
    if (mode === 'round-robin') expect(seen.size).toBe(2) // each side takes its turns
  })
})

it.each([
  ['vllm', 5], // the last is learned from when the next one ends
  ['sglang', 0], // its prefill's answer waits for the transfer
] as const)('%s: speed is learned where prompts are computed, and nowhere else', async (engine, count) => {
  const { metrics } = await open({ engine, prefill: 1, decode: 1, words: ['--policy', 'warm'] })
  for (let at = 0; at < 6; at++) {
    const response = await ask(`Tell me about ${at}. `.repeat(40))
    expect([response.status, said(response, 'prefill-skipped')]).toEqual([200, null])
    await response.text()
  }
  const text = await metrics()
  const learned = (type: string): number =>
    Number(new RegExp(`warmroute_prefills_learned_total\\{[^}]*worker_type="${type}"\\} (\\d+)`).exec(text)?.[1])
  expect([learned('prefill'), learned('decode')]).toEqual([count, 0])
})

it('each stage has a queue of its own: who waits for a prefill worker waits for no decode worker', async () => {
  const { metrics } = await open({
    engine: 'vllm',
    prefill: 1,
    decode: 1,
    sim: { isDevMode: true }, // says how many tokens it takes at once, which the threshold is a share of
    prefillSim: { speedup: 0.2, batchedTokensMax: 256 },
    words: ['--policy', 'dynamo', '--router-queue-threshold', '0.1'],
  })
  const answers = [1, 2, 3].map((at) => ask(`${at} `.repeat(400)))
  const pending = async (type: string): Promise<number> => {
    const line = new RegExp(`router_queue_pending_requests\\{[^}]*worker_type="${type}"[^}]*\\} (\\d+)`)
    return Number(line.exec(await metrics())?.[1] ?? 0)
  }
  await vi.waitFor(async () => expect(await pending('prefill')).toBeGreaterThan(0))
  expect(await pending('decode')).toBe(0)
  for (const answer of answers) expect((await answer).status).toBe(200)
  expect([await pending('prefill'), await pending('decode')]).toEqual([0, 0])
})

it('pins name a worker for each half', async () => {
  await open({ engine: 'vllm' })
  for (const [prefill, decode] of [
    ['1', '4'],
    ['2', '3'],
  ] as const)
    expect(pairOf(await ask('hi', { 'x-prefill-instance-id': prefill, 'x-worker-instance-id': decode }))).toEqual([
      prefill,
      decode,
    ])
})

describe('places', () => {
  /** Prefill workers in racks a and b, decode workers likewise. */
  const racks = (kv_transfer_enforcement: string): NonNullable<PairHouseOptions['about']> => {
    const seen = { prefill: 0, decode: 0 }
    return (role) => ({
      topology_domains: { rack: seen[role]++ === 0 ? 'a' : 'b' },
      ...(role === 'prefill' ? { kv_transfer_domain: 'rack', kv_transfer_enforcement } : {}),
    })
  }

  it.each(['required', 'preferred'])('a decode worker stands where its prefill worker does (%s)', async (how) => {
    await open({ engine: 'vllm', about: racks(how) })
    for (let at = 0; at < 8; at++) {
      const [prefill, decode] = at % 3 === 0 ? ['2', '4'] : ['1', '3']
      expect(pairOf(await ask(`rack of ${at}`, { 'x-prefill-instance-id': prefill! }))).toEqual([prefill, decode])
    }
  })
})

describe('conditional disaggregation', () => {
  const prompt = 'A long story about tides and moss. '.repeat(40)

  it('is off unless it is switched on', async () => {
    const { served, prefill, decode } = await open({ engine: 'vllm', prefill: 1, decode: 1 })
    for (let at = 0; at < 2; at++) {
      expect(said(await ask(prompt), 'prefill-skipped')).toBeNull()
      await settled(served, [...prefill, ...decode])
    }
  })

  it('a prompt that the decode worker holds is prefilled there', async () => {
    await open({ engine: 'vllm', prefill: 1, decode: 1, words: ['--conditional-disagg-enabled'] })
    expect(said(await ask(prompt), 'prefill-skipped')).toBeNull()
    await vi.waitFor(async () => expect(said(await ask(prompt), 'prefill-skipped')).toBe('mostly_cached'), 5_000)
    expect(said(await ask(`Something else. ${prompt}`), 'prefill-skipped')).toBeNull()
  })

  it('not where the decode worker has no room for it', async () => {
    const words = ['--conditional-disagg-enabled', '--conditional-disagg-decode-busy-threshold', '0.000001']
    const { served, prefill, decode } = await open({ engine: 'vllm', prefill: 1, decode: 1, words })
    for (let at = 0; at < 3; at++) {
      expect(said(await ask(prompt), 'prefill-skipped')).toBeNull()
      await settled(served, [...prefill, ...decode])
    }
  })
})

it('enforce_disagg hides a model without prefill workers', async () => {
  const { url, prefill } = await open({
    engine: 'vllm',
    prefill: 1,
    decode: 1,
    words: ['--enforce-disagg', '--connect-timeout-ms', '300'],
  })
  const listed = async (): Promise<number> =>
    ((await (await fetch(`${url}/v1/models`)).json()) as { data: unknown[] }).data.length
  expect([await listed(), (await ask('hi')).status]).toEqual([1, 200])
  await prefill[0]!.close()
  await vi.waitFor(async () => expect(await listed()).toBe(0), 8_000)
  expect((await ask('hi')).status).toBe(503)
})
