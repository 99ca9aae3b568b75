/** `warmroute serve` over simulated prefill and decode servers, as an operator would start it, for tests on real sockets. */
import { expect, vi } from 'vitest'
import { serve } from '../../src/cli/serve.js'
import type { Served } from '../../src/cli/serve.js'
import type { SimEngine, SimEngineOptions } from '../../src/sim/index.js'
import { startSimEngine } from '../../src/sim/index.js'
import { expectClosed } from '../closed-router.js'

export interface PairHouse {
  readonly url: string
  readonly served: Served
  readonly prefill: readonly SimEngine[]
  readonly decode: readonly SimEngine[]
  /** Worker ids in the order of the engines, prefill first. */
  readonly metrics: () => Promise<string>
  close(): Promise<void>
}

export interface PairHouseOptions {
  readonly engine: 'vllm' | 'sglang'
  /** Of vLLM; NIXL's pull unless told. */
  readonly connector?: 'nixl' | 'nixl_push' | 'mooncake' | 'shared_cache'
  /** How long legs that start together wait for each other. */
  readonly rendezvousMs?: number
  readonly prefill?: number
  readonly decode?: number
  readonly words?: readonly string[]
  readonly sim?: Partial<SimEngineOptions>
  readonly prefillSim?: Partial<SimEngineOptions>
  readonly leaseMs?: number
  /** How long a decode server tries to reach a prefill server that is not where it was said to be. */
  readonly connectMs?: number
  /** How often the gateway looks whether its workers are there. */
  readonly watchMs?: number
  /** Who says which half a vLLM server does: its owner, its labels, or the engine itself. */
  readonly roleFrom?: 'config' | 'labels' | 'engine'
  /** What is said of each worker besides. */
  readonly about?: (role: 'prefill' | 'decode', engine: SimEngine) => object
}

let houses = 0

export async function openPairHouse(options: PairHouseOptions): Promise<PairHouse> {
  const { engine, prefill: prefills = 2, decode: decodes = 2 } = options
  houses++
  const start = (role: 'prefill' | 'decode', worker: number): Promise<SimEngine> =>
    startSimEngine({
      engine,
      worker,
      models: ['sim'],
      blockTokens: 16,
      speedup: 100,
      healthMs: 0,
      seed: worker + 1,
      ...options.sim,
      ...(role === 'prefill' ? options.prefillSim : {}),
      pair: {
        kind: engine === 'vllm' ? (options.connector ?? 'nixl') : role,
        engineId: `engine-${worker}`,
        store: `store-${process.pid}-${houses}`,
        ...(options.connectMs === undefined ? {} : { connectMs: options.connectMs }),
        ...(options.rendezvousMs === undefined ? {} : { rendezvousMs: options.rendezvousMs }),
        ...(engine === 'vllm' ? { kvRole: role === 'prefill' ? 'kv_producer' : 'kv_consumer' } : {}),
        ...(options.leaseMs === undefined ? {} : { leaseMs: options.leaseMs }),
      },
    })
  const prefill = await Promise.all(Array.from({ length: prefills }, (_, at) => start('prefill', at)))
  const decode = await Promise.all(Array.from({ length: decodes }, (_, at) => start('decode', prefills + at)))
  const about = (role: 'prefill' | 'decode', sim: SimEngine): object => ({
    url: sim.url,
    ...(engine === 'vllm' ? roleFields(role, options.roleFrom ?? 'config') : {}),
    ...(options.connector === undefined ? {} : { connector: options.connector }),
    ...(options.connector === 'nixl_push' || options.connector === 'mooncake'
      ? { engine_ids: [`engine-${prefill.indexOf(sim)}`], transfer_port: sim.pairPort }
      : {}),
    ...(role === 'prefill' && options.leaseMs !== undefined ? { kv_lease_ms: options.leaseMs } : {}),
    ...options.about?.(role, sim),
  })
  const workers = [...prefill.map((sim) => about('prefill', sim)), ...decode.map((sim) => about('decode', sim))]
  const served = await serve({
    words: ['--port', '0', '--log', 'off', '--workers', JSON.stringify(workers), ...(options.words ?? [])],
    env: {},
    times: { watchMs: options.watchMs ?? 200, retryMs: [50, 200] },
  })
  const { url } = served.address
  return {
    url,
    served,
    prefill,
    decode,
    metrics: async () => (await fetch(`${url}/metrics`)).text(),
    async close() {
      try {
        for (const sim of [...prefill, ...decode])
          await vi.waitFor(() => expect(sim.stats()).toMatchObject({ held: 0, in_flight: 0 }))
      } finally {
        await served.close() // or what one test left would fail all that follow
        for (const sim of [...prefill, ...decode]) await sim.close()
      }
      await expectClosed(served)
    },
  }
}

function roleFields(role: 'prefill' | 'decode', from: 'config' | 'labels' | 'engine'): object {
  return from === 'config' ? { role } : from === 'labels' ? { labels: { 'llm-d.ai/role': role } } : {}
}

export function post(url: string, path: string, body: object, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(10_000),
  })
}
