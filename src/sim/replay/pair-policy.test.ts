import { expect, it } from 'vitest'
import { generateTrace } from './generate.js'
import type { PairPolicyOptions } from './pair-policy.js'
import { PairPolicy } from './pair-policy.js'
import { replay } from './replay.js'

const trace = generateTrace('chat', { requests: 200, seed: 5, requestsPerSecond: 8 })
const run = (options: Partial<PairPolicyOptions> = {}) =>
  replay(trace, {
    workers: 4,
    pairs: { prefillWorkers: 2, transferMsPerToken: 0.002 },
    policy: new PairPolicy({ prefillWorkers: 2, ...options }),
    engine: { blocks: 4_000 },
  })
const conditional = { policy: 'isl_bounding', effIslThreshold: 2048, effIslRatioThreshold: 0.7 } as const

it('prefills every prompt on one half of the fleet and decodes it on the other', () => {
  const report = run()
  expect(report).toMatchObject({ completed: 200, remote_prefills: 200, rejected: 0 })
  expect(report.workers.map(({ output_tokens: tokens }) => tokens > 0)).toEqual([false, false, true, true])
})

it('finds prompts again on prefill workers, better than taking turns does', () => {
  let turn = 0
  const blind = replay(trace, {
    workers: 4,
    pairs: { prefillWorkers: 2, transferMsPerToken: 0.002 },
    policy: { route: () => turn++ % 2 },
    engine: { blocks: 4_000 },
  })
  expect(run().reuse).toBeGreaterThan(blind.reuse)
})

it('leaves short or cached prompts where they decode, when told to', () => {
  const report = run({ conditional })
  expect(report.remote_prefills).toBeLessThan(200)
  expect(report.remote_prefills).toBeGreaterThan(0)
  expect(report).toMatchObject({ completed: 200, rejected: 0 })
})

it('is the same every time', () => {
  expect(run({ conditional })).toEqual(run({ conditional }))
})

it('holds prompts that stay whole until a decode worker can compute them, and sends each of them once', () => {
  const busy = generateTrace('rag', { requests: 300, seed: 5, requestsPerSecond: 60 })
  const report = replay(busy, {
    workers: 3,
    pairs: { prefillWorkers: 1, transferMsPerToken: 0.002 },
    policy: new PairPolicy({
      prefillWorkers: 1,
      config: { policy: 'warm', routerLateBinding: true, routerQueueThreshold: undefined },
      conditional: { policy: 'isl_bounding', effIslThreshold: 1_000_000, effIslRatioThreshold: 1 },
    }),
  })
  expect(report).toMatchObject({ requests: 300, completed: 300, rejected: 0 })
  expect(report.remote_prefills).toBe(report.workers[0]!.requests)
  expect(report.remote_prefills).toBeLessThan(20)
  expect(report.held_ms.p90).toBeGreaterThan(0) // so it was not the prefill worker alone that held any
})

it('chooses decode workers at once, also where the prefill side holds requests until a worker is free', () => {
  const report = run({ config: { policy: 'warm', routerLateBinding: true } })
  expect(report).toMatchObject({ completed: 200, remote_prefills: 200, rejected: 0 })
  expect(run({ config: { policy: 'warm', routerLateBinding: true } })).toEqual(report)
})
