import { describe, expect, it } from 'vitest'
import { toHashColumn, WarmrouteError } from '../protocol/index.js'
import { parsePolicyConfig } from '../queue/index.js'
import type { Ask, FleetOptions } from './fleet.case.js'
import { busyFleet, Fleet, only, outcome, pin, tight } from './fleet.case.js'

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

  it('who waits is answered whatever breaks while it is placed, and nothing of it is booked', () => {
    const fleet = busyFleet({ workers: 2 })
    for (const id of ['a', 'b']) fleet.ask(id)
    let draws = 0
    const draw = (): number => {
      if (draws++ === 0) throw new TypeError('no lots left')
      return 0.5
    }
    fleet.core.setFlags({}, fleet.moment)
    for (const id of ['busy0', 'busy1']) fleet.core.free(id, { nowMs: fleet.nowMs, draw })
    expect(fleet.left()).toEqual(['a!WR_BOOKING_FAILED', 'b@0'])
    expect([fleet.core.pendingCount, fleet.core.sequences.requestCount]).toEqual([0, 1])
  })

  it('ports that throw leave every booking whole, and are counted', () => {
    const fail = (): never => {
      throw new Error('the network is gone')
    }
    const replica = { routerId: 1n, port: { publish: fail } }
    const fleet = busyFleet({ workers: 1, replica, load: () => ({ loadChanged: fail }) })
    fleet.ask('a')
    expect(fleet.mark('busy0')).toEqual(['a@0'])
    expect([fleet.free('a'), fleet.free('busy0')]).toEqual([[], []])
    const { sequences } = fleet.core
    expect([sequences.requestCount, sequences.activeTokens(0, 0), sequences.portFailures]).toEqual([0, 0, 10])
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

  function waiting(options: FleetOptions, ask: Ask = {}): Fleet {
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

it('shutdown refuses those as well whose prompts are being looked up again', () => {
  const fleet = busyFleet({ workers: 1, config: { routerOverlapRefreshAfterSecs: 1 } })
  const decisions = [fleet.ask('a'), fleet.ask('q', { isQueryOnly: true })]
  fleet.nowMs = 5000
  fleet.mark('busy0')
  fleet.core.refuseAll(new WarmrouteError('WR_ROUTER_CLOSED'))
  expect(fleet.left().sort()).toEqual(['a!WR_ROUTER_CLOSED', 'q!WR_ROUTER_CLOSED'])
  for (const decision of decisions)
    if (decision.kind === 'parked')
      expect(outcome(fleet.core.place(decision.parked, undefined, fleet.moment))).toBe('WR_REQUEST_CANCELLED')
  expect(fleet.core.sequences.requestCount).toBe(1)
})
