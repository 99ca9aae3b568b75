import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { RouterConfigInput, RouterConfigOverride } from '../protocol/index.js'
import { FleetModel } from '../load/index.js'
import type { WorkerSelector } from '../selection/index.js'
import { DefaultWorkerSelector } from '../selection/index.js'
import type { Ask } from './fleet.case.js'
import { busyFleet, Fleet, only, outcome, pin, tight } from './fleet.case.js'

describe('placing', () => {
  it('two requests at once go to different idle workers', () => {
    const fleet = new Fleet()
    expect(new Set([outcome(fleet.ask('a')), outcome(fleet.ask('b'))])).toEqual(new Set(['0', '1']))
  })

  it('books what is not cached, and says what is', () => {
    const fleet = new Fleet()
    const decision = fleet.ask('a', { device: { 1: 3 } })
    expect(decision).toMatchObject({ kind: 'picked', effectiveOverlapBlocks: 3, cachedTokens: 48, waitedMs: 0 })
    expect(fleet.activeTokens(1)).toBe(16)
  })

  it('weighs lower tiers in what is booked', () => {
    const fleet = new Fleet()
    expect(fleet.ask('a', { device: { 1: 2 }, host: { 1: 1 } })).toMatchObject({ cachedTokens: 44 })
    expect(fleet.activeTokens(1)).toBe(20)
  })

  it('an override can switch prefill tracking off for one request', () => {
    const fleet = new Fleet({ workers: 1 })
    fleet.ask('a', { override: { trackPrefillTokens: false } })
    expect(fleet.activeTokens(0)).toBe(0)
    expect(fleet.core.sequences.activeBlocks(0)).toBe(4)
  })

  it('counts adapters of running requests until they are freed', () => {
    const fleet = new Fleet()
    fleet.ask('a', { loraName: 'l' })
    expect([...fleet.core.sequences.activeLoraCounts()]).toEqual([['l', 1]])
    fleet.free('a')
    expect([...fleet.core.sequences.activeLoraCounts()]).toEqual([])
  })

  it('a query books nothing, with or without an id', () => {
    const fleet = new Fleet()
    expect(outcome(fleet.ask(undefined, { isQueryOnly: true }))).toMatch(/^[01]$/)
    expect(outcome(fleet.ask('a', { isQueryOnly: true }))).toMatch(/^[01]$/)
    expect(fleet.core.sequences.requestCount).toBe(0)
  })

  it('an id that is booked or parked is refused, and what is booked stays', () => {
    const fleet = busyFleet({ workers: 1 })
    expect(outcome(fleet.ask('busy0'))).toBe('WR_DUPLICATE_REQUEST')
    expect(outcome(fleet.ask('a'))).toBe('parked')
    expect(outcome(fleet.ask('a'))).toBe('WR_DUPLICATE_REQUEST')
    expect(fleet.core.sequences.requestCount).toBe(1)
  })

  it.each([
    ['no id', undefined, {}],
    ['no token', 'a', { promptTokens: 0, blocks: [] }],
    ['a negative length', 'a', { promptTokens: -1 }],
    ['no number', 'a', { promptTokens: Number.NaN }],
    ['an infinite length', 'a', { promptTokens: Infinity }],
    ['a priority that is no number', 'a', { priorityJump: Number.NaN }],
    ['an infinite strict priority', 'a', { strictPriority: -Infinity }],
    ['negative output', 'a', { expectedOutputTokens: -1 }],
    ['more blocks than hashes', 'a', { blockCount: 5 }],
    ['a wish that is no number', 'a', { constraints: { preferredTaints: { x: Number.NaN } } }],
  ] as [string, string | undefined, Ask][])('refuses %s', (_says, id, ask) => {
    const fleet = new Fleet()
    expect(outcome(fleet.ask(id, ask))).toBe('WR_INVALID_ARGUMENT')
    expect(fleet.core.sequences.requestCount).toBe(0)
  })

  it('refuses an override out of range', () => {
    expect(outcome(new Fleet().ask('a', { override: { overlapScoreCredit: 2 } }))).toBe('WR_INVALID_CONFIG')
  })

  it('a custom selector decides, and a bad answer of its books nothing', () => {
    let answer: unknown = {
      worker: { workerId: 1n, dpRank: 0 },
      requiredBlocks: 4,
      effectiveOverlapBlocks: 2,
      cachedTokens: 32,
    }
    const selector = { selectWorker: () => answer } as unknown as WorkerSelector
    const fleet = new Fleet({ selector })
    expect(fleet.ask('a')).toMatchObject({ worker: { workerId: 1n, dpRank: 0 }, cachedTokens: 32 })
    answer = { worker: { workerId: 9n, dpRank: 0 }, requiredBlocks: 4, effectiveOverlapBlocks: 0, cachedTokens: 0 }
    expect(outcome(fleet.ask('b'))).toBe('WR_NO_ENDPOINTS')
    answer = {
      worker: { workerId: 1n, dpRank: 0 },
      requiredBlocks: 4,
      effectiveOverlapBlocks: Number.NaN,
      cachedTokens: 0,
    }
    expect(outcome(fleet.ask('c'))).toBe('WR_SELECTION_POLICY_FAILED')
    answer = undefined
    expect(outcome(fleet.ask('d'))).toBe('WR_SELECTION_POLICY_FAILED')
    expect(fleet.core.sequences.requestCount).toBe(1)
  })

  it('an estimator predicts how long the uncached part takes, and its failure costs only the duration', () => {
    const asked: number[][] = []
    const fleet = new Fleet({ workers: 1, estimatePrefill: (tokens, cached) => (asked.push([tokens, cached]), 10_000) })
    fleet.ask('a', { promptTokens: 100, device: { 0: 3 } })
    expect(asked).toEqual([[52, 48]])
    fleet.nowMs = 5000
    expect(fleet.activeTokens(0)).toBe(26)
    const failures: unknown[] = []
    const failing = new Fleet({
      workers: 1,
      estimatePrefill: () => Number.NaN,
      onEstimateFailed: (cause) => failures.push(cause),
    })
    failing.ask('a')
    failing.nowMs = 1e9
    expect([failing.activeTokens(0), failures.length]).toEqual([64, 1])
  })
})

describe('prefill times that are learned under a policy of blocks', () => {
  /** Prefills of 100 ms and 0.1 ms per token, one after the other on every worker. */
  function serve(fleet: Fleet, requests: number, more: Ask = {}): void {
    for (let n = 0; n < requests; n++) {
      const id = `served ${n} ${fleet.nowMs}`
      const promptTokens = 500 + 500 * (n % 7)
      fleet.ask(id, { promptTokens, ...more })
      fleet.nowMs += 100 + 0.1 * promptTokens
      fleet.core.markPrefillCompleted(id, fleet.moment)
      fleet.core.free(id, fleet.moment)
      fleet.nowMs += 1000
    }
  }

  it('load falls with time once enough prefills were seen, at the speed that was seen', () => {
    const fleet = new Fleet({ workers: 1, learner: new FleetModel() })
    fleet.ask('early', { promptTokens: 1000 })
    fleet.nowMs += 1e6
    expect(fleet.activeTokens(0)).toBe(1000)
    fleet.core.free('early', fleet.moment)
    serve(fleet, 200)
    expect(fleet.core.learner!.observations).toBeGreaterThan(190)
    fleet.ask('late', { promptTokens: 2000 })
    fleet.nowMs += 150 // half of 100 + 0.1 * 2000
    expect(fleet.activeTokens(0)).toBeGreaterThan(700)
    expect(fleet.activeTokens(0)).toBeLessThan(1200)
  })

  it.each(['learner', 'model'] as const)('a prompt that is computed elsewhere teaches nothing (%s)', (role) => {
    const learner = new FleetModel()
    const fleet = new Fleet({ workers: 1, [role]: learner, config: { policy: role === 'model' ? 'warm' : 'dynamo' } })
    const before = learner.coefficients
    serve(fleet, 20, { override: { trackPrefillTokens: false } })
    expect([learner.observations, learner.runningCount, learner.coefficients]).toEqual([0, 0, before])
  })

  it('a prompt that is computed elsewhere has no price where it decodes, one that nobody counts has', () => {
    const ownOf = (config: RouterConfigInput, override?: RouterConfigOverride): number | undefined => {
      const fleet = new Fleet({ workers: 2, config: { policy: 'warm', ...config } })
      const decision = fleet.ask('a', { promptTokens: 640, wantReceipt: true, override })
      if (decision.kind !== 'picked') throw new Error(decision.kind)
      return decision.receipt!.candidates[0]!.milliseconds!.own
    }
    expect(ownOf({}, { trackPrefillTokens: false, overlapScoreCredit: 0 })).toBe(0)
    expect(ownOf({ routerTrackPrefillTokens: false })).toBeGreaterThan(0)
  })

  it('learns how fast answers are written from their blocks', () => {
    const model = new FleetModel()
    const fleet = new Fleet({ workers: 1, model, config: { policy: 'warm' } })
    for (let request = 0; request < 60; request++) {
      const id = `r${request}`
      fleet.ask(id, { promptTokens: 1600 * (1 + (request % 9)) })
      fleet.core.markPrefillCompleted(id, fleet.moment)
      for (let block = 0; block < 6; block++) {
        fleet.nowMs += 16 * 25 // a block of 16 tokens
        fleet.core.addOutputBlock(id, fleet.moment)
      }
      fleet.core.free(id, fleet.moment)
    }
    const { base, slope } = model.decode
    expect(base + slope * 8000).toBeCloseTo(25, 0)
  })

  it('a cost in milliseconds learns from prompts that are computed here, whatever the settings count', () => {
    const model = new FleetModel()
    serve(new Fleet({ workers: 1, model, config: { policy: 'warm', routerTrackPrefillTokens: false } }), 20)
    expect(model.observations).toBe(19) // the last is learned from when the next one ends
  })

  it('leaves nothing behind, whatever becomes of requests and workers', () => {
    const step = fc.record({
      does: fc.constantFrom('ask', 'mark', 'free', 'leave', 'join', 'wait'),
      id: fc.nat(5),
      worker: fc.nat(2),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
        const learner = new FleetModel()
        const fleet = new Fleet({ workers: 3, learner })
        const { core } = fleet
        for (const { does, id, worker } of steps) {
          const requestId = `r${id}`
          if (does === 'ask') fleet.ask(requestId)
          else if (does === 'mark' && core.sequences.has(requestId)) core.markPrefillCompleted(requestId, fleet.moment)
          else if (does === 'free') core.free(requestId, fleet.moment)
          else if (does === 'leave') core.removeWorker(BigInt(worker), fleet.moment)
          else if (does === 'join')
            core.setWorker(BigInt(worker), { dataParallelStartRank: 0, dataParallelSize: 1 }, fleet.moment)
          else fleet.nowMs += 10
          expect(learner.runningCount).toBe(core.sequences.requestCount)
        }
      }),
    )
  })
})

describe('who may serve', () => {
  it('no workers: no endpoints', () => {
    expect(outcome(new Fleet({ workers: 0 }).ask('a'))).toBe('WR_NO_ENDPOINTS')
  })

  it('a worker that owns no rank serves nobody', () => {
    expect(outcome(new Fleet({ workers: new Map([[1n, { dataParallelSize: 0 }]]) }).ask('a'))).toBe('WR_NO_ENDPOINTS')
  })

  it('an allow list is kept to', () => {
    const fleet = new Fleet({ workers: 3 })
    for (const id of ['a', 'b', 'c']) expect(outcome(fleet.ask(id, only(1)))).toBe('1')
  })

  it('a pin outside the allow list fails before anything waits', () => {
    const fleet = busyFleet()
    expect(outcome(fleet.ask('a', { ...pin(0), ...only(1) }))).toBe('WR_PINNED_WORKER_NOT_ALLOWED')
    expect(fleet.core.pendingCount).toBe(0)
  })

  it('what no worker can ever serve fails at once instead of waiting', () => {
    const fleet = busyFleet()
    expect(outcome(fleet.ask('a', only(7)))).toBe('WR_NO_ENDPOINTS')
    expect(outcome(fleet.ask('b', { constraints: { requiredTaints: ['gpu'] } }))).toBe('WR_NO_ENDPOINTS')
    expect(outcome(fleet.ask('c', pin(7)))).toBe('WR_NO_ENDPOINTS')
    expect(fleet.core.pendingCount).toBe(0)
  })

  it('overloaded workers are passed over, and all overloaded is an error of its own', () => {
    const fleet = new Fleet()
    fleet.core.setFlags({ overloaded: new Set([0n]) }, fleet.moment)
    expect([outcome(fleet.ask('a')), outcome(fleet.ask('b'))]).toEqual(['1', '1'])
    expect(outcome(fleet.ask('c', pin(0)))).toBe('WR_PINNED_WORKER_OVERLOADED')
    fleet.core.setFlags({ overloaded: new Set([0n, 1n]) }, fleet.moment)
    expect(outcome(fleet.ask('d'))).toBe('WR_ALL_WORKERS_OVERLOADED')
  })

  it('hard availability filters pinned and other requests; an empty set rejects everyone', () => {
    const fleet = new Fleet()
    fleet.core.setFlags({ available: new Set([1n]) }, fleet.moment)
    expect([outcome(fleet.ask('a')), outcome(fleet.ask('b', pin(0)))]).toEqual(['1', 'WR_NO_ENDPOINTS'])
    fleet.core.setFlags({ available: new Set() }, fleet.moment)
    expect(outcome(fleet.ask('c'))).toBe('WR_NO_ENDPOINTS')
  })

  it('a registered worker can be booked on before it is known, and only ever adds', () => {
    const fleet = new Fleet({ workers: 1 })
    fleet.core.registerWorkers([5n], fleet.moment)
    fleet.core.registerWorkers([6n], fleet.moment)
    const tracked = fleet.core.sequences.trackedRanks().map((rank) => fleet.core.ranks.pairOf(rank))
    expect(tracked.map((it) => `${it.workerId}/${it.dpRank}`)).toEqual(['0/0', '5/0', '6/0'])
    expect(outcome(fleet.ask('a', pin(5)))).toBe('WR_NO_ENDPOINTS')
    fleet.core.setWorker(5n, { dataParallelStartRank: 0, dataParallelSize: 1 }, fleet.moment)
    expect(outcome(fleet.ask('b', pin(5)))).toBe('5')
  })

  it('a worker that says it has three ranks has three', () => {
    const fleet = new Fleet({ workers: 1 })
    fleet.core.setWorker(0n, { dataParallelStartRank: 0, dataParallelSize: 3 }, fleet.moment)
    expect(new Set(['a', 'b', 'c'].map((id) => outcome(fleet.ask(id))))).toEqual(new Set(['0', '0/1', '0/2']))
  })
})

describe('compat dynamo-1.2', () => {
  const config = { compat: 'dynamo-1.2', ...tight } as const

  it('a blocked pin at the head holds up everybody', () => {
    const fleet = busyFleet({ config })
    fleet.ask('pinned', pin(0))
    fleet.ask('free')
    expect(fleet.mark('busy1')).toEqual([])
    expect(fleet.mark('busy0')).toEqual(['pinned@0', 'free@1'])
  })

  it('an allow list goes past the queue, and so does who finds a free rank', () => {
    const fleet = busyFleet({ config })
    expect(outcome(fleet.ask('a', only(1)))).toBe('1')
    fleet.ask('pinned', pin(0))
    fleet.free('a')
    fleet.free('busy1')
    expect(outcome(fleet.ask('b'))).toBe('1')
  })
})

it('freeing an unknown id succeeds, except as of 1.5', () => {
  expect(new Fleet().free('nobody')).toEqual([])
  const strict = new Fleet({ config: { compat: 'dynamo-1.5' } })
  expect(() => strict.free('nobody')).toThrow(expect.objectContaining({ code: 'WR_REQUEST_NOT_FOUND' }))
})

it('marking or growing an unknown id is an error; marking twice is not', () => {
  const fleet = new Fleet()
  fleet.ask('a')
  expect([fleet.mark('a'), fleet.mark('a')]).toEqual([[], []])
  for (const call of [() => fleet.mark('x'), () => fleet.core.addOutputBlock('x', fleet.moment)])
    expect(call).toThrow(expect.objectContaining({ code: 'WR_REQUEST_NOT_FOUND' }))
})

it('frees only where the booking is', () => {
  const fleet = new Fleet()
  fleet.ask('a', pin(1))
  expect(fleet.core.freeIfOn('a', { workerId: 0n, dpRank: 0 }, fleet.moment)).toBe(false)
  expect(fleet.core.freeIfOn('a', { workerId: 1n, dpRank: 0 }, fleet.moment)).toBe(true)
  expect(fleet.core.freeIfOn('a', { workerId: 7n, dpRank: 0 }, fleet.moment)).toBe(false)
})

it('a receipt has every cost, exclusion, the runner-up and the margin', () => {
  const fleet = new Fleet({ workers: 3 })
  fleet.core.setFlags({ overloaded: new Set([2n]) }, fleet.moment)
  fleet.nextDraw = 0.5
  const decision = fleet.ask('a', { device: { 1: 3 }, wantReceipt: true })
  if (decision.kind !== 'picked') throw new Error(decision.kind)
  const { receipt } = decision
  expect(receipt).toMatchObject({
    requestId: 'a',
    promptTokens: 64,
    promptBlocks: 4,
    blockSize: 16,
    draw: 0.5,
    chosen: { workerId: 1n, deviceBlocks: 3, creditBlocks: 3, decodeBlocks: 4, cost: 5 },
    runnerUp: { workerId: 0n, deviceBlocks: 0, cost: 8 },
    margin: 3,
    exclusions: [{ workerId: 2n, dpRank: 0, reason: 'overloaded' }],
  })
  expect(receipt?.candidates).toHaveLength(2)
  const plain = fleet.ask('b')
  expect(plain.kind === 'picked' && plain.receipt).toBe(undefined)
})

it('the default selector can be given by hand', () => {
  const fleet = new Fleet({ selector: new DefaultWorkerSelector() })
  expect(fleet.ask('a', { device: { 1: 4 }, wantReceipt: true })).toMatchObject({
    receipt: { chosen: { workerId: 1n } },
  })
})

it('ids above 2^63 are ids like any other', () => {
  const id = 2n ** 64n - 1n
  const fleet = new Fleet({ workers: new Map([[id, {}]]) })
  expect(fleet.ask('a', { pin: { workerId: id, dpRank: 0 } })).toMatchObject({ worker: { workerId: id } })
})

it('ten thousand workers are a fleet like any other', () => {
  const fleet = new Fleet({ workers: 0 })
  const config = { dataParallelStartRank: 0, dataParallelSize: 1 }
  fleet.core.reconcileWorkers(new Map(Array.from({ length: 10_000 }, (_, id) => [BigInt(id), config])), fleet.moment)
  expect(outcome(fleet.ask('a', { device: { 7777: 4 } }))).toBe('7777')
  fleet.core.reconcileWorkers(new Map(), fleet.moment)
  expect([fleet.core.sequences.requestCount, fleet.core.workers.servedCount]).toEqual([0, 0])
})
