/** A gateway with KV routing over simulated vLLM and SGLang servers, as an operator would run it, for tests on real sockets. */
import { InProcessRouter } from '../../src/routing/index.js'
import type { Gateway, GatewayOptions, WorkerSpec } from '../../src/server/index.js'
import { expectNothingLeft } from '../../src/server/house.case.js'
import { createGateway, createServiceTokenizer } from '../../src/server/index.js'
import type { SimEngine, SimEngineOptions } from '../../src/sim/index.js'
import { startSimEngine } from '../../src/sim/index.js'
import { TokenService } from '../../src/tokens/index.js'

export interface SimHouse {
  readonly gateway: Gateway
  readonly url: string
  readonly router: InProcessRouter
  readonly engines: readonly SimEngine[]
  close(): Promise<void>
}

const quick = { models: ['sim'], blockTokens: 16, speedup: 50, events: false, healthMs: 0 } as const

export async function openSimHouse(
  kinds: readonly ('vllm' | 'sglang')[],
  options: Partial<GatewayOptions> = {},
  engineOptions: Partial<SimEngineOptions> = {},
  workerOptions: Partial<WorkerSpec> = {},
): Promise<SimHouse> {
  const engines = await Promise.all(
    kinds.map((engine, worker) => startSimEngine({ ...quick, ...engineOptions, engine, worker })),
  )
  const router = await InProcessRouter.create({ blockSize: 16, config: { useKvEvents: false } })
  const service = new TokenService({ threads: 1 })
  await service.setModel('sim', { engine: { url: engines[0]!.url, dialect: kinds[0]! } })
  const gateway = createGateway({
    listen: { port: 0 },
    usageSampleEvery: 0,
    ...options,
    health: { intervalMs: 0, metricsMs: 0, quarantineMs: [20, 100], ...options.health },
    models: [
      {
        name: 'sim',
        blockSize: 16,
        router,
        tokenizer: createServiceTokenizer(service, { model: 'sim' }),
        workers: engines.map((engine, at) => ({
          id: BigInt(at + 1),
          url: engine.url,
          engine: kinds[at]!,
          ...workerOptions,
        })),
      },
    ],
  })
  const { url } = await gateway.listen()
  return {
    gateway,
    url,
    router,
    engines,
    async close() {
      await gateway.close()
      await expectNothingLeft(gateway, router)
      await router.close()
      await service.close()
      for (const engine of engines) await engine.close()
    },
  }
}
