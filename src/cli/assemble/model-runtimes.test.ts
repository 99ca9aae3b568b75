import { expect, it } from 'vitest'
import type { RouterConfigInput } from '../../core/protocol/index.js'
import { completeRouterConfig } from '../../core/protocol/index.js'
import type { EngineFacts } from '../../engines/index.js'
import type { InProcessRouter, RouterPort } from '../../routing/index.js'
import type { DisaggSpec, PrefillPool } from '../../server/index.js'
import { createMetrics } from '../../telemetry/index.js'
import { ModelRuntimes } from './model-runtimes.js'

const log = { debug() {}, info() {}, warn() {} }
const facts: EngineFacts = {
  kind: { value: 'vllm', source: 'test' },
  models: { value: [{ name: 'm' }], source: 'test' },
  blockSize: { value: 16, source: 'test' },
} as unknown as EngineFacts

interface Opened {
  readonly runtimes: ModelRuntimes
  readonly disagg: () => DisaggSpec
}

function open(config: RouterConfigInput = {}): Opened {
  let disagg: DisaggSpec | undefined
  const runtimes = new ModelRuntimes({
    policy: 'kv',
    config: completeRouterConfig({ useKvEvents: false, ...config }),
    metrics: createMetrics({ metricsCompat: '1.2' }),
    log,
    onRemoved: () => {},
    now: () => 0,
    enforceDisagg: false,
    prefillFallback: true,
    onModel: (_runtime, _facts, it) => (disagg = it),
  })
  return { runtimes, disagg: () => disagg! }
}

const { signal } = new AbortController()
const pool = (blockSize: number): PrefillPool => ({ identity: `pool ${blockSize}`, engine: 'vllm', blockSize })

it('a prefill router that could not be made does not keep another from being closed', async () => {
  const { runtimes, disagg: made } = open()
  await runtimes.of(facts)
  const disagg = made()
  const failing = disagg.openPrefill(pool(-1), signal).catch((error: unknown) => error)
  const good = await disagg.openPrefill(pool(16), signal)
  const bad = disagg.openPrefill(pool(-2), signal).catch((error: unknown) => error)
  await disagg.closePrefill!(good)
  expect(await disagg.openPrefill(pool(16), signal)).not.toBe(good) // it was closed, so another is made
  await expect(Promise.all([failing, bad])).resolves.toMatchObject([
    { code: expect.any(String) },
    { code: expect.any(String) },
  ])
  await runtimes.close()
})

it.each([true, false])(
  'prefill workers are chosen by blocks as their engines name them (pairs: %s)',
  async (isEagle) => {
    const { runtimes, disagg } = open({ routerTrackOutputBlocks: true })
    const fact = <T>(value: T): { value: T; source: string } => ({ value, source: 'test' })
    const main = await runtimes.of({ ...facts, kind: fact('sglang'), isEagle: fact(isEagle) } as unknown as EngineFacts)
    const prefill = (await disagg().openPrefill(pool(16), signal)) as InProcessRouter
    expect([main.isEagle, prefill.router.isEagle]).toEqual([isEagle, isEagle])
    const { routerTrackActiveBlocks, routerTrackOutputBlocks } = prefill.router.kvRouterConfig
    expect([prefill.router.workerType, routerTrackActiveBlocks, routerTrackOutputBlocks]).toEqual([
      'prefill',
      false,
      false,
    ])
    await runtimes.close()
  },
)

it('what is still booked when routers are closed is counted, those among prefill workers included', async () => {
  const { runtimes, disagg } = open()
  const { port } = await runtimes.of(facts)
  const prefill = await disagg().openPrefill(pool(16), signal)
  for (const router of [port, prefill]) {
    router.setWorker(1n, { dataParallelStartRank: 0, dataParallelSize: 1, maxNumBatchedTokens: 8192 })
    for (const id of ['ended', 'lost'])
      await router.answer({ id }, { method: 'new', tokens: new Uint32Array(64).fill(7) })
    router.free('ended')
  }
  const left = async (router: RouterPort): Promise<number> => {
    const [load] = await router.loads()
    expect(load!.activeRequests).toBe(1)
    return load!.activeRequests + load!.activePrefillTokens + load!.activeDecodeBlocks
  }
  const expected = [await left(port), await left(prefill)]
  await disagg().closePrefill!(prefill)
  expect(runtimes.bookingsLeft).toBe(expected[1])
  await runtimes.close()
  expect(runtimes.bookingsLeft).toBe(expected[0]! + expected[1]!)
})
