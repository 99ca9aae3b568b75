import { describe, expect, it } from 'vitest'
import { toHashColumn, WarmrouteError } from '../protocol/index.js'
import { parsePolicyConfig } from '../queue/index.js'
import { DefaultWorkerSelector } from '../selection/index.js'
import type { WorkerSelector } from '../selection/index.js'
import type { Ask } from './fleet.case.js'
import { Fleet, outcome } from './fleet.case.js'

const pin = (id: number): Ask => ({ pin: { workerId: BigInt(id), dpRank: 0 } })
const only = (...ids: number[]): Ask => ({ allowedWorkerIds: new Set(ids.map(BigInt)) })
const tight = { routerQueueThreshold: 0 }

/** A fleet with every worker busy: one request of 64 tokens on each. */
function busyFleet(options: ConstructorParameters<typeof Fleet>[0] = {}): Fleet {
  const fleet = new Fleet({ ...options, config: { ...tight, ...options.config } })
  for (const id of fleet.core.workers.workerIds()) fleet.ask(`busy${id}`, pin(Number(id)))
  return fleet
}

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

describe('waiting', () => {
  it('parks when every rank is strictly above the threshold, and an idle rank admits anything', () => {
    const fleet = new Fleet({ workers: 1, config: { routerQueueThreshold: 0.5 } })
    expect(outcome(fleet.ask('a', { promptTokens: 50 }))).toBe('0')
    expect(outcome(fleet.ask('b', { promptTokens: 9000 }))).toBe('0') // 50 is not above 50, and its own size does not matter
    expect(outcome(fleet.ask('c', { promptTokens: 1 }))).toBe('parked')
  })

  it('without a threshold nothing waits', () => {
    const fleet = new Fleet({ workers: 1, config: { routerQueueThreshold: undefined } })
    for (let n = 0; n < 50; n++) expect(outcome(fleet.ask(`r${n}`, { promptTokens: 5000 }))).toBe('0')
  })

  it('counts who waits, and lets them go one by one', () => {
    const fleet = busyFleet({ workers: 1 })
    expect(fleet.core.pendingCount).toBe(0)
    fleet.ask('a')
    fleet.ask('b')
    expect([fleet.core.pendingCount, fleet.core.pendingIslTokens]).toEqual([2, 128])
    expect(fleet.mark('busy0')).toEqual(['a@0'])
    expect(fleet.core.pendingCount).toBe(1)
    expect(fleet.free('a')).toEqual(['b@0'])
    expect([fleet.core.pendingCount, fleet.core.pendingIslTokens]).toEqual([0, 0])
  })

  it('a flood of twenty-five on four workers ends with nothing booked', () => {
    const fleet = new Fleet({ workers: 4, config: tight })
    const placed: string[] = []
    for (let n = 0; n < 25; n++) if (outcome(fleet.ask(`r${n}`)) !== 'parked') placed.push(`r${n}`)
    for (let at = 0; at < placed.length; at++) placed.push(...fleet.free(placed[at]!).map((it) => it.split('@')[0]!))
    expect(placed).toHaveLength(25)
    for (let id = 0; id < 4; id++)
      expect([fleet.activeTokens(id), fleet.core.sequences.activeBlocks(id)]).toEqual([0, 0])
  })

  it('load that falls with time admits at a recheck', () => {
    const fleet = new Fleet({
      workers: 1,
      config: { routerQueueThreshold: 0.5, routerPrefillLoadModel: 'aic' },
      estimatePrefill: () => 10_000,
    })
    fleet.ask('a', { promptTokens: 100 })
    expect(outcome(fleet.ask('b'))).toBe('parked')
    fleet.nowMs = 4000
    expect(fleet.recheck()).toEqual([])
    fleet.nowMs = 6000
    expect(fleet.recheck()).toEqual(['b@0'])
  })

  it('untracked prefill tokens make nobody busy', () => {
    const fleet = new Fleet({ workers: 1, config: { ...tight, routerTrackPrefillTokens: false } })
    for (const id of ['a', 'b', 'c']) expect(outcome(fleet.ask(id))).toBe('0')
  })

  it('queries wait as well, and book nothing when they go', () => {
    const fleet = busyFleet({ workers: 1 })
    expect(outcome(fleet.ask('q', { isQueryOnly: true }))).toBe('parked')
    expect(fleet.free('busy0')).toEqual(['q@0'])
    expect(fleet.core.sequences.requestCount).toBe(0)
  })

  it('a request of an allow list joins the backlog and goes to whom it allows', () => {
    const fleet = busyFleet()
    fleet.ask('a', only(1))
    expect(fleet.free('busy0')).toEqual([])
    expect(fleet.free('busy1')).toEqual(['a@1'])
  })

  it('a blocked pin does not hold up others; among free ranks order holds', () => {
    const fleet = busyFleet()
    fleet.ask('pinned', pin(0))
    fleet.ask('first')
    fleet.ask('second', pin(1))
    expect(fleet.mark('busy1')).toEqual(['first@1'])
    expect(fleet.free('first')).toEqual(['second@1'])
    expect(fleet.mark('busy0')).toEqual(['pinned@0'])
  })

  it('a new arrival does not pass a backlog of its class, but passes those it does not compete with', () => {
    const fleet = busyFleet()
    fleet.ask('pinned', pin(0))
    fleet.core.markPrefillCompleted('busy1', fleet.moment)
    expect(outcome(fleet.ask('free'))).toBe('1')
    expect(fleet.core.pendingCount).toBe(1)
  })

  it('a priority jump overtakes who came that much earlier', () => {
    const fleet = busyFleet({ workers: 1 })
    fleet.ask('early')
    fleet.nowMs = 3000
    fleet.ask('late', { priorityJump: 2 })
    fleet.ask('later', { priorityJump: 4 })
    expect([fleet.mark('busy0'), fleet.free('later'), fleet.free('early')]).toEqual([
      ['later@0'],
      ['early@0'],
      ['late@0'],
    ])
  })

  it('wspt counts what a pin has cached itself, and what others have not at all', () => {
    const fleet = busyFleet({ config: { routerQueuePolicy: 'wspt' } })
    fleet.ask('cold', { ...pin(0), promptTokens: 160, device: { 1: 9 } })
    fleet.ask('warm', { ...pin(0), promptTokens: 320, device: { 0: 19 } })
    expect(fleet.mark('busy0')).toEqual(['warm@0'])
  })

  it('wspt ignores what workers without the required taint have cached', () => {
    const workers = new Map([
      [0n, { taints: new Set(['gpu']) }],
      [1n, {}],
    ])
    const fleet = busyFleet({ workers, config: { routerQueuePolicy: 'wspt' } })
    const constraints = { requiredTaints: ['gpu'] }
    fleet.ask('long', { constraints, promptTokens: 160, device: { 1: 10 } })
    fleet.ask('short', { constraints, promptTokens: 80 })
    expect(fleet.mark('busy0')).toEqual(['short@0'])
  })

  it('wspt counts caches where prefill is not tracked for the request', () => {
    const fleet = busyFleet({ workers: 1, config: { routerQueuePolicy: 'wspt' } })
    const override = { trackPrefillTokens: false }
    fleet.ask('short', { promptTokens: 80, override })
    fleet.ask('warm', { promptTokens: 160, device: { 0: 9 }, override })
    expect(fleet.mark('busy0')).toEqual(['warm@0', 'short@0'])
  })

  it('a worker that comes, goes, or changes its taints wakes those who wait', () => {
    const fleet = busyFleet({ workers: new Map([[0n, { taints: new Set(['a']) }]]) })
    const config = { dataParallelStartRank: 0, dataParallelSize: 1, maxNumBatchedTokens: 100 }
    fleet.ask('a', { constraints: { requiredTaints: ['a'] } })
    fleet.core.setWorker(1n, config, fleet.moment)
    expect(fleet.left()).toEqual([])
    fleet.core.setWorker(1n, { ...config, taints: new Set(['a']) }, fleet.moment)
    expect(fleet.left()).toEqual(['a@1'])
    fleet.ask('b', pin(1))
    fleet.core.removeWorker(1n, fleet.moment)
    expect(fleet.left()).toEqual(['b!WR_NO_ENDPOINTS'])
  })

  it('a worker that stops being overloaded wakes those who wait', () => {
    const fleet = busyFleet({ workers: 1 })
    fleet.core.setWorker(1n, { dataParallelStartRank: 0, dataParallelSize: 1 }, fleet.moment)
    fleet.core.setFlags({ overloaded: new Set([1n]) }, fleet.moment)
    expect(outcome(fleet.ask('a'))).toBe('parked')
    fleet.core.setFlags({}, fleet.moment)
    expect(fleet.left()).toEqual(['a@1'])
  })

  it('who gives up while waiting is never booked', () => {
    const fleet = busyFleet({ workers: 1 })
    const decision = fleet.ask('a')
    if (decision.kind !== 'parked') throw new Error(decision.kind)
    expect([fleet.core.cancel(decision.parked), fleet.core.cancel(decision.parked)]).toEqual([true, false])
    expect([fleet.core.pendingCount, fleet.free('busy0')]).toEqual([0, []])
    expect(fleet.core.sequences.requestCount).toBe(0)
    expect(outcome(fleet.ask('a'))).toBe('0')
  })

  it('shutdown refuses everybody who waits', () => {
    const fleet = busyFleet({ workers: 1 })
    fleet.ask('a')
    fleet.ask('b', pin(0))
    fleet.core.refuseAll(new WarmrouteError('WR_ROUTER_CLOSED'))
    expect(new Set(fleet.left())).toEqual(new Set(['a!WR_ROUTER_CLOSED', 'b!WR_ROUTER_CLOSED']))
    expect(fleet.core.pendingCount).toBe(0)
  })

  it("a peer's mark and free let requests go", () => {
    const fleet = busyFleet({ workers: 1 })
    fleet.ask('a')
    const worker = { workerId: 0n, dpRank: 0 }
    const tell = (requestId: string, kind: 'mark_prefill_completed' | 'free') =>
      fleet.core.applyReplica([{ requestId, worker, routerId: 9n, data: { kind } }], fleet.moment)
    expect(tell('busy0', 'mark_prefill_completed').applied).toBe(1)
    expect(fleet.left()).toEqual(['a@0'])
    fleet.ask('b')
    tell('a', 'free')
    expect(fleet.left()).toEqual(['b@0'])
  })

  it('a full queue is refused with what was exceeded', () => {
    const fleet = busyFleet({ workers: 1, config: { routerQueueParkedMax: 1 } })
    fleet.ask('a')
    const decision = fleet.ask('b')
    expect(decision).toMatchObject({
      error: {
        code: 'WR_QUEUE_REJECTED',
        details: { rejection: { policyClass: 'default', limitKind: 'parked_requests', current: 1, limit: 1 } },
      },
    })
  })
})

describe('figures of a long wait', () => {
  const blocks = Array.from({ length: 10 }, (_, at) => BigInt(at + 1))
  const localHashes = toHashColumn(blocks)

  function waiting(options: ConstructorParameters<typeof Fleet>[0], ask: Ask = {}): Fleet {
    const fleet = busyFleet(options)
    fleet.ask('a', { device: { 0: 10 }, blocks, localHashes, ...ask })
    return fleet
  }

  it('are kept for ten seconds and asked for again after them', () => {
    for (const [waitedMs, expected] of [
      [9999, '0'],
      [10_000, '1'],
    ] as const) {
      let fresh = 0
      const fleet = waiting({
        index: () =>
          ({
            findMatches: (_local: unknown, _count: unknown, out: object) => (
              fresh++, Object.assign(out, fleet.matches({ 1: 10 }))
            ),
          }) as never,
      })
      fleet.nowMs = waitedMs
      fleet.core.markPrefillCompleted('busy0', { ...fleet.moment, nowMs: waitedMs })
      expect(fleet.left()).toEqual([`a@${expected}`])
      expect(fresh).toBe(expected === '1' ? 1 : 0)
    }
  })

  it('are kept when the request brought no hashes, or the lookup fails', () => {
    const index = () =>
      ({
        findMatches: () => {
          throw new Error('gone')
        },
      }) as never // prettier-ignore
    for (const ask of [{}, { localHashes: undefined }]) {
      const fleet = waiting({ index }, ask)
      fleet.nowMs = 60_000
      expect(fleet.mark('busy0')).toEqual(['a@0'])
    }
  })

  it('are looked up elsewhere where the index is, and the request goes even if the rank got busy', () => {
    const fleet = waiting({})
    fleet.nowMs = 20_000
    fleet.core.markPrefillCompleted('busy1', fleet.moment)
    const [dispatch] = fleet.core.takeDispatched()
    expect(dispatch?.decision.kind).toBe('refresh')
    expect(outcome(fleet.ask('a'))).toBe('WR_DUPLICATE_REQUEST')
    fleet.ask('other', pin(1))
    const placed = fleet.core.place(dispatch!.parked, fleet.matches({ 1: 10 }), fleet.moment)
    expect(placed).toMatchObject({ kind: 'picked', worker: { workerId: 1n }, cachedTokens: 160, waitedMs: 20_000 })
    expect(outcome(fleet.core.place(dispatch!.parked, undefined, fleet.moment))).toBe('WR_REQUEST_CANCELLED')
  })

  it('do not count for a worker that took the place of another', () => {
    const fleet = waiting({ config: { routerOverlapRefreshAfterSecs: 0 } })
    const rank = fleet.rank(0)
    fleet.core.removeWorker(0n, fleet.moment)
    fleet.core.setWorker(9n, { dataParallelStartRank: 0, dataParallelSize: 1 }, fleet.moment)
    expect(fleet.rank(9)).toBe(rank)
    expect(fleet.core.takeDispatched()[0]?.decision).toMatchObject({ worker: { workerId: 9n }, cachedTokens: 0 })
  })
})

describe('classes', () => {
  const policies = parsePolicyConfig({
    default_policy_family: 'std',
    uncached_isl_buckets: [
      { min_tokens: 0, bucket: 'short' },
      { min_tokens: 100, bucket: 'long' },
    ],
    policy_classes: [
      { name: 'std-short', policy_family: 'std', cache_bucket: 'short', prefill_busy_threshold: 100 },
      { name: 'std-long', policy_family: 'std', cache_bucket: 'long', prefill_busy_threshold: 0 },
      { name: 'open' },
      { name: 'capped', prefill_busy_threshold: 0, request_queue_limit_per_worker: 1 },
    ],
  })

  it('have thresholds of their own, and keep the order of their backlog', () => {
    const fleet = new Fleet({ workers: 1, policies })
    expect(outcome(fleet.ask('a'))).toBe('0')
    expect(outcome(fleet.ask('long', { promptTokens: 200 }))).toBe('parked')
    expect(outcome(fleet.ask('warm', { promptTokens: 200, device: { 0: 12 } }))).toBe('0') // 8 uncached: short
    expect(outcome(fleet.ask('open', { policyClass: 'open', promptTokens: 9000 }))).toBe('0')
    for (const id of ['short', 'shorter', 'last']) expect(outcome(fleet.ask(id, { promptTokens: 60 }))).toBe('parked')
    fleet.free('a')
    fleet.free('warm')
    expect(fleet.free('open')).toEqual(['short@0', 'shorter@0'])
    expect([fleet.free('short'), fleet.free('shorter'), fleet.free('last')]).toEqual([['last@0'], [], ['long@0']])
  })

  it('refuse at their own limit, which follows the number of workers', () => {
    const fleet = busyFleet({ workers: 1, policies })
    const ask = (id: string) => outcome(fleet.ask(id, { policyClass: 'capped', ...pin(0) }))
    expect([ask('a'), ask('b')]).toEqual(['parked', 'WR_QUEUE_REJECTED'])
    fleet.core.setWorker(1n, { dataParallelStartRank: 0, dataParallelSize: 1 }, fleet.moment)
    expect([ask('c'), ask('d')]).toEqual(['parked', 'WR_QUEUE_REJECTED'])
    fleet.core.removeWorker(1n, fleet.moment)
    expect([fleet.core.pendingCount, ask('e')]).toEqual([2, 'WR_QUEUE_REJECTED'])
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
