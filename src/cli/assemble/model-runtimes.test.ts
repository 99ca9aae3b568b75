import { expect, it } from 'vitest'
import { defaultRouterConfig } from '../../core/protocol/index.js'
import type { EngineFacts } from '../../engines/index.js'
import type { DisaggSpec, PrefillPool } from '../../server/index.js'
import { createMetrics } from '../../telemetry/index.js'
import { ModelRuntimes } from './model-runtimes.js'

const log = { debug() {}, info() {}, warn() {} }
const facts: EngineFacts = {
  kind: { value: 'vllm', source: 'test' },
  models: { value: [{ name: 'm' }], source: 'test' },
  blockSize: { value: 16, source: 'test' },
} as unknown as EngineFacts

it('a prefill router that could not be made does not keep another from being closed', async () => {
  let disagg: DisaggSpec | undefined
  const runtimes = new ModelRuntimes({
    policy: 'kv',
    config: { ...defaultRouterConfig, useKvEvents: false },
    metrics: createMetrics({ metricsCompat: '1.2' }),
    log,
    onRemoved: () => {},
    now: () => 0,
    enforceDisagg: false,
    prefillFallback: true,
    onModel: (_runtime, _facts, it) => (disagg = it),
  })
  await runtimes.of(facts)
  const { signal } = new AbortController()
  const pool = (blockSize: number): PrefillPool => ({ identity: `pool ${blockSize}`, engine: 'vllm', blockSize })
  const failing = disagg!.openPrefill(pool(-1), signal).catch((error: unknown) => error)
  const good = await disagg!.openPrefill(pool(16), signal)
  const bad = disagg!.openPrefill(pool(-2), signal).catch((error: unknown) => error)
  await disagg!.closePrefill!(good)
  expect(await disagg!.openPrefill(pool(16), signal)).not.toBe(good) // it was closed, so another is made
  await expect(Promise.all([failing, bad])).resolves.toMatchObject([
    { code: expect.any(String) },
    { code: expect.any(String) },
  ])
  await runtimes.close()
})
