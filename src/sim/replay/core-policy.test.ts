import { expect, it } from 'vitest'
import { CorePolicy } from './core-policy.js'
import { readTrace } from './dynamo-cells.case.js'
import { replay } from './replay.js'
import { roundRobin } from './round-robin.js'

const trace = readTrace().slice(0, 1500)

it('routes to warm caches: less prefill and a faster first token than round robin on the same trace', () => {
  const kv = replay(trace, { workers: 4, policy: new CorePolicy(), eventsLeave: 'scheduled' })
  const turns = replay(trace, { workers: 4, policy: roundRobin(4), eventsLeave: 'scheduled' })
  expect(kv.completed).toBe(trace.length)
  expect(kv.reuse).toBeGreaterThan(1.3 * turns.reuse)
  expect(kv.ttft_ms.mean).toBeLessThan(turns.ttft_ms.mean)
})

it('gives the same report for the same seed, and holds requests back when told to', () => {
  const run = (): string =>
    JSON.stringify(
      replay(trace.slice(0, 400), {
        workers: 2,
        policy: new CorePolicy({ seed: 7, config: { routerQueueThreshold: 0 } }),
      }),
    )
  const report = run()
  expect(run()).toBe(report)
  expect((JSON.parse(report) as { held_ms: { mean: number }; completed: number }).held_ms.mean).toBeGreaterThan(0)
  expect((JSON.parse(report) as { completed: number }).completed).toBe(400)
})
