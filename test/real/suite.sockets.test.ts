// The suite of `npm run test:real`, short, against simulated engines: what it asks of real ones it must first find here.
import { afterAll, afterEach, expect, it } from 'vitest'
import type { SimEngine } from '../../src/sim/index.js'
import { startSimEngine } from '../../src/sim/index.js'
import { expectClosed } from '../closed-router.js'
import { faultsOf, runRealSuite } from './suite.js'

const engines: SimEngine[] = []
afterEach(() => expectClosed()) // bookings and sockets are among the suite's own leftovers
afterAll(async () => {
  for (const engine of engines) await engine.close()
})

it.each(['vllm', 'sglang'] as const)(
  'holds in front of two simulated %s servers',
  async (engine) => {
    const own: SimEngine[] = []
    for (const worker of [0, 1])
      own.push(await startSimEngine({ engine, worker, speedup: 100, blockTokens: 16, blocks: 300, healthMs: 0 }))
    engines.push(...own)
    const report = await runRealSuite({
      engineUrls: own.map((it) => it.url),
      requests: 24,
      concurrent: 8,
      afterKill: 0,
    })
    expect(faultsOf(report)).toEqual([])
    expect(report.engines.every((it) => it.endsWith('exact'))).toBe(true)
    expect(report.bytes.requests.every((it) => it.outcome === 'equal')).toBe(true)
    expect(report.checks.filter((it) => it.outcome === 'pass').length).toBeGreaterThan(12)
    const outcomeOf = (name: string) => report.checks.find((it) => it.name === name)?.outcome
    expect(outcomeOf('tokens: named and spelt again')).toBe('pass')
    expect(outcomeOf('generate: whole')).toBe(engine === 'sglang' ? 'pass' : 'absent')
    expect(report.cached.hits).toBeGreaterThan(8)
  },
  120_000,
)
