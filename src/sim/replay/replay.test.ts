import { expect, it } from 'vitest'
import { compareCell, readReplayCells, readTrace } from './dynamo-cells.case.js'
import { plainKvRouter } from './dynamo-policy.case.js'
import { replay } from './replay.js'
import type { ReplayPolicy, ReplayRequest } from './replay.js'
import { roundRobin } from './round-robin.js'
import type { TraceRequest } from './trace.js'
import { parseMooncake } from './trace.js'

// One cell here; `npm run docs:sim` runs them all, `kv_router` too, and writes docs/performance/sim.md.
it('gives the figures of Dynamo 1.6.1 for round robin over eight workers', () => {
  const name = 'v1.6.1-conversation-n8-round_robin-bs64-blocks16384-x1'
  const rows = compareCell(readReplayCells().find((cell) => cell.name === name)!, readTrace())
  for (const row of rows) expect(Math.abs(row.difference), row.figure).toBeLessThan(row.limit)
  expect(rows).toHaveLength(11)
})

const shortTrace: TraceRequest[] = Array.from({ length: 300 }, (_, index) => ({
  index,
  arrivalMs: 40 * Math.floor(index / 3),
  promptTokens: 700 + (index % 7) * 512,
  outputTokens: 20 + (index % 50),
  blockIds: Array.from({ length: Math.ceil((700 + (index % 7) * 512) / 512) }, (_, block) =>
    block < 2 ? block : index % 7,
  ),
}))

it('gives the same report for the same input', () => {
  const run = () => replay(shortTrace, { workers: 3, policy: roundRobin(3), engine: { blocks: 200 } })
  expect(JSON.stringify(run())).toBe(JSON.stringify(run()))
})

it('lets a policy that listens to events find more in the caches than round robin does', () => {
  const run = (policy: ReplayPolicy) => replay(shortTrace, { workers: 4, policy, engine: { blocks: 60 } })
  expect(run(plainKvRouter(4, 64, 1)).reuse).toBeGreaterThan(run(roundRobin(4)).reuse * 1.1)
})

it.each([
  { eventsLeave: 'scheduled', eventDelayMs: 0 },
  { eventsLeave: 'computed', eventDelayMs: 0 },
  { eventsLeave: 'computed', eventDelayMs: 25 },
] as const)('tells the policy every store and removal, parents first ($eventsLeave, $eventDelayMs ms)', (options) => {
  const cached = [new Map<number, number>(), new Map<number, number>()]
  let storedCount = 0
  let removedCount = 0
  let turn = 0
  const policy: ReplayPolicy = {
    route: () => turn++ % 2,
    stored(worker, keys, parent) {
      const known = cached[worker]!
      if (parent !== -1) expect(known.has(parent)).toBe(true)
      for (const key of keys) {
        expect(known.has(key)).toBe(false) // each key is announced once while it is resident
        known.set(key, 1)
        storedCount++
      }
    },
    removed(worker, key) {
      expect(cached[worker]!.delete(key)).toBe(true)
      removedCount++
    },
  }
  // Room enough that a shared parent is never evicted before its children: leaves go first.
  replay(shortTrace, { workers: 2, policy, engine: { blocks: 300 }, ...options })
  expect(storedCount).toBeGreaterThan(500)
  expect(removedCount).toBeGreaterThan(100)
})

it('lets a policy hold requests and tells it of first tokens, output blocks and ends', () => {
  const log: string[] = []
  const held: ReplayRequest[] = []
  const report = replay(shortTrace.slice(0, 3), {
    workers: 1,
    policy: {
      start: (fleet) => {
        fleet.clock.at(500, () => {
          for (const request of held) fleet.dispatch(request, 0)
        })
      },
      route: (request) => (request.index === 0 ? 0 : (held.push(request), -1)),
      firstToken: (request) => log.push(`first ${request.index}`),
      outputBlock: (request, _, blocks) => log.push(`block ${request.index} ${blocks}`),
      finished: (request) => log.push(`end ${request.index}`),
    },
  })
  expect(report.completed).toBe(3)
  expect(report.held_ms.p50).toBe(500)
  expect(log.filter((line) => line.startsWith('first'))).toEqual(['first 0', 'first 1', 'first 2'])
  expect(log).toContain('block 0 12') // 700 tokens fill ten blocks and begin an eleventh; the 705th begins the twelfth
  expect(log.filter((line) => line.startsWith('end'))).toHaveLength(3)
})

it('hands requests from workers that prefill to workers that decode, and leaves nothing held', () => {
  const log: string[] = []
  const pairs = { prefillWorkers: 1, transferMsPerToken: 0.01 }
  const report = replay(shortTrace, {
    workers: 3,
    pairs,
    policy: {
      route: () => 0,
      routeDecode: (request) => 1 + (request.index % 2),
      prefillDone: (request, from, to, now) => log.push(`${request.index} ${from}>${to} ${now < 1e9}`),
    },
    engine: { blocks: 300 },
  })
  expect(report).toMatchObject({ completed: 300, remote_prefills: 300, rejected: 0 })
  expect(log[0]).toBe('0 0>1 true')
  expect(report.workers.map(({ output_tokens: tokens }) => tokens > 0)).toEqual([false, true, true])
  expect(report.prompt_tokens).toBe(shortTrace.reduce((sum, { promptTokens }) => sum + promptTokens, 0))
})

it('does not disturb decoding by prefills elsewhere, and pays for the transfer in time to first token', () => {
  const run = (transferMsPerToken: number, policy: ReplayPolicy) =>
    replay(shortTrace, { workers: 4, pairs: { prefillWorkers: 2, transferMsPerToken }, policy })
  const paired = () => {
    let turn = 0
    return { route: () => turn++ % 2 }
  }
  const together = replay(shortTrace, { workers: 4, policy: roundRobin(4) })
  const near = run(0.001, paired())
  const far = run(0.05, paired())
  expect(near.itl_ms.p99).toBeLessThan(together.itl_ms.p99)
  expect(far.ttft_ms.mean).toBeGreaterThan(near.ttft_ms.mean + 30)
  // A request routed straight to a decode worker is served there as a whole.
  expect(run(0.001, { route: () => 2 }).remote_prefills).toBe(0)
})

it('makes a slow worker slow', () => {
  const trace = shortTrace.slice(0, 2).map((request) => ({ ...request, arrivalMs: 0, blockIds: request.blockIds }))
  const ends: number[] = []
  replay(trace, {
    workers: 2,
    worker: (worker) => (worker === 1 ? { speedup: 0.5 } : {}),
    policy: { route: (request) => request.index, firstToken: (_, worker, now) => void (ends[worker] = now) },
  })
  expect(ends[1]).toBeGreaterThan(ends[0]! * 1.9)
})

it.each([
  ['is no JSON', '{"timestamp":0'],
  ['lacks', '{"timestamp":0,"input_length":5,"hash_ids":[1]}'],
  ['lacks', '{"timestamp":0,"input_length":0,"output_length":1,"hash_ids":[]}'],
])('names the line of a trace that %s', (text, row) => {
  const good = '{"timestamp":0,"input_length":5,"output_length":1,"hash_ids":[1]}'
  expect(parseMooncake(`${good}\n\n${good}\n`)).toHaveLength(2)
  expect(() => parseMooncake(`${good}\n${row}`)).toThrow(`trace line 2 ${text}`)
})
