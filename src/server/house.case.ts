/** A gateway over fake engines for tests, and the check that nothing is left behind: no booking, no socket, no timer. */
import { afterEach, expect } from 'vitest'
import type { EngineKind } from '../engines/index.js'
import type { RankLoad, RouterPort } from '../routing/index.js'
import type { FakeEngine, Responder } from './fake-engine.case.js'
import { startFakeEngine } from './fake-engine.case.js'
import type { Gateway } from './gateway.js'
import { createGateway } from './gateway.js'
import type { GatewayOptions, ModelSpec } from './options.js'
import { liveTimers } from './live-timers.case.js'
import { createPolicyRouter } from './policies/policy-router.js'

export interface House {
  readonly gateway: Gateway
  readonly url: string
  readonly adminUrl: string | undefined
  readonly router: RouterPort
  readonly engines: FakeEngine[]
  readonly loads: () => Promise<readonly RankLoad[]>
  close(): Promise<void>
}

export interface HouseOptions {
  readonly engines?: number
  /** What they are said to be. */
  readonly engine?: EngineKind
  readonly respond?: Responder
  readonly model?: Partial<ModelSpec>
  readonly gateway?: Partial<GatewayOptions>
  readonly router?: RouterPort
}

export async function openHouse(options: HouseOptions = {}): Promise<House> {
  const engines: FakeEngine[] = []
  for (let at = 0; at < (options.engines ?? 2); at++) engines.push(await startFakeEngine(options.respond))
  const router = options.router ?? createPolicyRouter({ policy: 'round-robin' })
  const kind = options.engine ?? 'vllm'
  const gateway = createGateway({
    listen: { port: 0 },
    usageSampleEvery: 0,
    ...options.gateway,
    health: { intervalMs: 0, metricsMs: 0, quarantineMs: [20, 40], ...options.gateway?.health },
    models: [
      {
        name: 'm',
        blockSize: 16,
        router,
        workers: engines.map((engine, at) => ({ id: BigInt(at + 1), url: engine.url, engine: kind })),
        ...options.model,
      },
    ],
  })
  const { url, adminUrl } = await gateway.listen()
  return {
    gateway,
    url,
    adminUrl,
    router,
    engines,
    loads: () => router.loads(),
    async close() {
      await gateway.close()
      await expectNothingLeft(gateway, router)
      await router.close()
      for (const engine of engines) await engine.close()
    },
  }
}

/** Opens a house for a test and closes it after that test, which is where nothing may be left. */
export function houseOfEachTest(): (options?: HouseOptions) => Promise<House> {
  let house: House | undefined
  afterEach(async () => {
    await house?.close()
    house = undefined
  })
  return async (options) => {
    house = await openHouse(options)
    return house
  }
}

/** After load stops every counter returns to zero: what is booked with these routers, sockets and timers. */
export async function expectNothingLeft(gateway: Gateway, ...routers: readonly RouterPort[]): Promise<void> {
  for (const load of (await Promise.all(routers.map((router) => router.loads()))).flat()) {
    expect(load.activeRequests).toBe(0)
    expect(load.activePrefillTokens).toBe(0)
    expect(load.activeDecodeBlocks).toBe(0)
  }
  expect(gateway.inFlight).toBe(0)
  expect(gateway.engineConnections).toBe(0)
  expect(liveTimers()).toEqual([])
}

export function chatBody(more: object = {}): string {
  return JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'count to four' }], ...more })
}

export function post(
  url: string,
  path: string,
  body: string | Uint8Array,
  headers: Record<string, string> = {},
): Promise<Response> {
  return fetch(`${url}${path}`, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body })
}

export async function json(response: Response): Promise<Record<string, never>> {
  return (await response.json()) as Record<string, never>
}

export async function errorOf(
  response: Response,
): Promise<{ status: number; type: string; code: string; message: string }> {
  const { error } = (await response.json()) as { error: { type: string; code: string; message: string } }
  return { ...error, status: response.status }
}
