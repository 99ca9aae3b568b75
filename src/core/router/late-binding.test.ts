import { expect, it } from 'vitest'
import type { RouterConfigInput } from '../protocol/index.js'
import { completeRouterConfig, toHashColumn, WarmrouteError } from '../protocol/index.js'
import { FleetModel } from '../load/index.js'
import { parsePolicyConfig, profileFor } from '../queue/index.js'
import { Fleet, only, outcome, pin } from './fleet.case.js'
import { RecordingRouter } from './recording.js'
import { replay } from './replay.js'

const warm = { policy: 'warm', routerLateBinding: true, routerQueueThreshold: undefined } as const
const profile = { base: 10, perToken: 0.02, perToken2: 0, perTokenPrefix: 0 }
const longPrompt = { promptTokens: 50_000 } // about a second of prefill

/** One worker that computes a long prompt, so that whoever comes is held. */
function heldFleet(config: RouterConfigInput = {}): Fleet {
  const model = new FleetModel({ profile, isLearning: false })
  const fleet = new Fleet({ workers: 1, config: { ...warm, ...config }, model })
  fleet.ask('running', { ...longPrompt, ...pin(0) })
  return fleet
}

it('holds a request until its worker is about to be free', () => {
  const fleet = heldFleet()
  expect(outcome(fleet.ask('a', longPrompt))).toBe('parked')
  expect(fleet.core.nextWakeMs(0)).toBe(0)
  expect(fleet.recheck()).toEqual([])
  const at = fleet.core.nextWakeMs(0)!
  expect(at).toBeGreaterThan(900)
  fleet.nowMs = at
  expect(fleet.recheck()).toEqual(['a@0'])
  expect(fleet.core.nextWakeMs(at)).toBeUndefined()
})

it('wakes for a worker that came about free between the last look and the question when to look again', () => {
  const fleet = heldFleet()
  fleet.ask('a', longPrompt)
  fleet.recheck()
  const at = fleet.core.nextWakeMs(0)!
  fleet.nowMs = at - 0.25 // a timer that fires early
  expect(fleet.recheck()).toEqual([])
  const next = fleet.core.nextWakeMs(at + 0.25)!
  expect(next).toBeGreaterThan(at)
  fleet.nowMs = next
  expect([fleet.recheck(), fleet.core.nextWakeMs(next)]).toEqual([['a@0'], undefined])
})

it('never holds a prompt that costs no more than two empty passes', () => {
  const fleet = heldFleet() // an empty pass takes 10 ms
  expect(outcome(fleet.ask('longer', { promptTokens: 501 }))).toBe('parked')
  expect(outcome(fleet.ask('short', { promptTokens: 499 }))).toBe('0')
})

it('never holds a request whose prompt is computed elsewhere, whatever its worker has to compute', () => {
  const fleet = heldFleet()
  const decodeLeg = { ...longPrompt, override: { trackPrefillTokens: false, overlapScoreCredit: 0 } }
  expect(outcome(fleet.ask('decode', decodeLeg))).toBe('0')
  expect(outcome(fleet.ask('whole', longPrompt))).toBe('parked')
})

it('lets who comes in one burst with one long beginning go along with the first of them', () => {
  const model = new FleetModel({ profile, isLearning: false })
  const fleet = new Fleet({ workers: 1, config: warm, model })
  const hashes = toHashColumn(Array.from({ length: 400 }, (_, at) => BigInt(at + 1)))
  const blocks = { localHashes: hashes, sequenceHashes: hashes, blockCount: 400 }
  for (const id of ['a', 'b', 'c'])
    expect(outcome(fleet.ask(id, { promptTokens: 6400 + 16, ...blocks }))).toBe('parked')
  expect(fleet.recheck()).toEqual(['a@0', 'b@0', 'c@0'])
})

it('time wakes for the oldest prefill of a rank and no other: behind it only a mark can help', () => {
  const fleet = heldFleet()
  fleet.ask('next', { promptTokens: 4000, ...pin(0) }) // 90 ms behind about a second
  expect(outcome(fleet.ask('a', longPrompt))).toBe('parked')
  fleet.recheck()
  expect(fleet.core.nextWakeMs(0)).toBeCloseTo(1070, 6) // 'running' ends, 'next' does not begin by itself
  fleet.nowMs = 1071
  expect([fleet.recheck(), fleet.core.nextWakeMs(1071)]).toEqual([[], undefined])
  fleet.nowMs = 5000
  expect([fleet.recheck(), fleet.core.nextWakeMs(5000)]).toEqual([[], undefined])
  fleet.mark('running')
  expect(fleet.core.nextWakeMs(5000)).toBeCloseTo(5000 + 90 - 15, 6)
  expect(fleet.mark('next')).toEqual(['a@0'])
})

it('takes prompts of whole answers for computed when they should be: no mark will tell', () => {
  const model = new FleetModel({ profile, isLearning: false })
  const fleet = new Fleet({ workers: 1, config: warm, model })
  fleet.ask('first', { ...longPrompt, ...pin(0), isWhole: true }) // 1,070 ms
  fleet.ask('second', { promptTokens: 4000, ...pin(0), isWhole: true }) // and 90
  expect(outcome(fleet.ask('a', longPrompt))).toBe('parked')
  expect(fleet.recheck()).toEqual([])
  let left: string[] = []
  while (left.length === 0) {
    fleet.nowMs = fleet.core.nextWakeMs(fleet.nowMs)! // undefined would mean that only a mark can help
    left = fleet.recheck()
  }
  expect([left, fleet.nowMs]).toEqual([['a@0'], 1070 + 90 - 15])
  fleet.nowMs = 1160
  fleet.recheck()
  expect(fleet.activeTokens(0)).toBe(50_000)
  expect([fleet.mark('first'), fleet.free('second'), fleet.free('first')]).toEqual([[], [], []])
  expect(fleet.activeTokens(0)).toBe(50_000)
})

it('counts the prompt of a whole answer that ended early no longer, nor of one that is booked anew', () => {
  const model = new FleetModel({ profile, isLearning: false })
  const fleet = new Fleet({ workers: 1, config: warm, model })
  fleet.ask('a', { ...longPrompt, ...pin(0), isWhole: true })
  fleet.free('a')
  fleet.nowMs = 1000
  fleet.ask('a', { ...longPrompt, ...pin(0) }) // streamed this time: its mark will come
  fleet.nowMs = 1100
  fleet.recheck()
  expect(fleet.core.sequences.prefillWaitMs(fleet.rank(0), Number.POSITIVE_INFINITY)).toBe(0)
  expect(fleet.activeTokens(0)).toBeGreaterThan(40_000)
})

it('who waits by the thousand is not looked at while nobody is near free', () => {
  const fleet = heldFleet()
  for (let at = 0; at < 100; at++) fleet.ask(`a${at}`, longPrompt)
  expect(fleet.recheck()).toEqual([])
  expect(fleet.free('running')).toHaveLength(1) // the worker is busy again with the first that goes
})

const classes = parsePolicyConfig({
  default_policy_family: 'std',
  uncached_isl_buckets: [{ min_tokens: 0, bucket: 'any' }],
  policy_classes: [
    { name: 'std', policy_family: 'std', cache_bucket: 'any', prefill_busy_threshold: 1_000_000 },
    { name: 'at-once' },
    {
      name: 'tight',
      prefill_busy_threshold: 1_000_000,
      request_queue_limit_per_worker: 1,
      raw_isl_token_queue_limit_per_worker: 1_000_000,
    },
    { name: 'calm', prefill_busy_threshold: 100 },
    { name: 'heavy', quantum: 3, prefill_busy_threshold: 1_000_000 },
  ],
})

function classFleet(workers = 1): Fleet {
  const model = new FleetModel({ profile, isLearning: false })
  const fleet = new Fleet({ workers, config: warm, policies: classes, model })
  for (let id = 0; id < workers; id++) fleet.ask(`running${id}`, { ...longPrompt, ...pin(id) })
  return fleet
}

it('a class that was written without a threshold is not held', () => {
  expect(outcome(classFleet().ask('a', { ...longPrompt, policyClass: 'at-once' }))).toBe('0')
})

it('held requests count against the limits of their class, and the refusal names it', () => {
  const fleet = classFleet()
  const ask = (id: string, policyClass: string) => fleet.ask(id, { ...longPrompt, policyClass })
  expect([outcome(ask('a', 'tight')), outcome(ask('b', 'std'))]).toEqual(['parked', 'parked'])
  const refused = ask('c', 'tight')
  expect(refused.kind === 'refused' && refused.error.details['rejection']).toEqual({
    policyClass: 'tight',
    limitKind: 'requests',
    current: 1,
    limit: 1,
  })
  expect(outcome(ask('d', 'std'))).toBe('parked')
  const first = fleet.core.parkedOf('a')!
  fleet.core.cancel(first)
  expect(outcome(ask('e', 'tight'))).toBe('parked')
})

it('a held request does not go to ranks that its class counts as busy', () => {
  const fleet = classFleet()
  for (const policyClass of ['calm', 'std']) fleet.ask(policyClass, { policyClass, promptTokens: 2000 })
  fleet.nowMs = 1000 // the worker is about to be free, and 50,000 tokens are still booked there
  expect(fleet.recheck()).toEqual(['std@0'])
  expect(fleet.mark('running0')).toEqual([])
  expect(fleet.mark('std')).toEqual(['calm@0'])
})

it('held classes share what becomes free by their quanta', () => {
  const fleet = classFleet()
  for (let at = 0; at < 80; at++) fleet.ask(`${at}`, { ...longPrompt, policyClass: at % 2 === 0 ? 'std' : 'heavy' })
  let next = 'running0'
  const gone: string[] = []
  while (gone.length < 40) {
    const [left] = fleet.free(next)
    next = left!.split('@')[0]!
    gone.push(next)
  }
  expect(gone.filter((id) => Number(id) % 2 === 1)).toHaveLength(30)
})

it('places pins and queries at once', () => {
  const fleet = heldFleet()
  expect([outcome(fleet.ask('p', pin(0))), outcome(fleet.ask(undefined, { isQueryOnly: true }))]).toEqual(['0', '0'])
})

it('counts the held and their tokens among those who wait', () => {
  const fleet = heldFleet()
  fleet.ask('a', longPrompt)
  const decision = fleet.ask('b', longPrompt)
  expect([fleet.core.pendingCount, fleet.core.pendingIslTokens]).toEqual([2, 100_000])
  if (decision.kind === 'parked') fleet.core.cancel(decision.parked)
  expect([fleet.core.pendingCount, fleet.core.pendingIslTokens]).toEqual([1, 50_000])
  fleet.free('running')
  expect([fleet.core.pendingCount, fleet.core.pendingIslTokens]).toEqual([0, 0])
})

it('says how full it is when it can hold no more, as the queue does', () => {
  const fleet = heldFleet({ routerQueueParkedMax: 1 })
  fleet.ask('a', longPrompt)
  const decision = fleet.ask('b', longPrompt)
  const details = decision.kind === 'refused' ? decision.error.details : {}
  expect(details['rejection']).toEqual({ policyClass: 'default', limitKind: 'parked_requests', current: 1, limit: 1 })
})

it('a held request is cancelled once, and its id may be used again', () => {
  const fleet = heldFleet()
  const decision = fleet.ask('a', longPrompt)
  if (decision.kind !== 'parked') throw new Error('it should be held')
  expect(outcome(fleet.ask('a', longPrompt))).toBe('WR_DUPLICATE_REQUEST')
  expect([fleet.core.cancel(decision.parked), fleet.core.cancel(decision.parked)]).toEqual([true, false])
  expect(outcome(fleet.ask('a', longPrompt))).toBe('parked')
  expect(fleet.core.sequences.requestCount).toBe(1)
})

it('who is held when the last worker leaves is refused, and so is everybody at shutdown', () => {
  const fleet = heldFleet()
  fleet.ask('a', longPrompt)
  fleet.core.removeWorker(0n, fleet.moment)
  expect(fleet.left()).toEqual(['a!WR_NO_ENDPOINTS'])
  const other = heldFleet()
  other.ask('a', longPrompt)
  other.core.refuseAll(new WarmrouteError('WR_ROUTER_CLOSED'))
  expect([other.left(), other.core.pendingCount, other.core.nextWakeMs(0)]).toEqual([
    ['a!WR_ROUTER_CLOSED'],
    0,
    undefined,
  ])
})

it('an allow list that names nobody is refused at once', () => {
  expect(outcome(heldFleet().ask('a', only(7)))).toBe('WR_NO_ENDPOINTS')
})

it('a log of held requests replays to the same decisions, also after a shutdown that refused some', () => {
  const pieces: Uint8Array[] = []
  const config = completeRouterConfig(warm)
  const options = { config, blockSize: 16, label: 'decode', profile: profileFor(undefined, undefined, config) } as const
  const router = new RecordingRouter(options, (piece) => pieces.push(piece))
  const moment = (nowMs: number) => ({ nowMs, draw: () => 0.5 })
  router.setWorker(0n, { dataParallelStartRank: 0, dataParallelSize: 1 }, moment(0))
  for (const [at, requestId] of ['a', 'b', 'c'].entries()) {
    const hashes = toHashColumn([BigInt(at) << 32n])
    const columns = { localHashes: hashes, sequenceHashes: hashes, blockCount: 1 }
    router.decide({ requestId, promptTokens: 50_000, isQueryOnly: false, ...columns }, moment(at))
    router.recheck(moment(at))
    router.takeDispatched()
  }
  expect(router.core.pendingCount).toBe(2)
  router.refuseAll(new WarmrouteError('WR_ROUTER_CLOSED'))
  expect(router.takeDispatched()).toHaveLength(2)
  router.free('a', moment(9))
  router.flush()
  const { firstDifference, decisions } = replay(Buffer.concat(pieces), () => options)
  expect([firstDifference, decisions]).toEqual([undefined, 4])
})

it('a recorded run of whole answers is replayed to the last decision', () => {
  const config = completeRouterConfig({ policy: 'warm', routerLateBinding: true })
  const options = {
    blockSize: 16,
    label: 'decode' as const,
    config,
    profile: profileFor(undefined, undefined, config),
    model: new FleetModel({ profile, isLearning: false }),
  }
  const pieces: Uint8Array[] = []
  const router = new RecordingRouter(options, (piece) => pieces.push(piece))
  const moment = (nowMs: number) => ({ nowMs, draw: () => 0.5 })
  router.setWorker(0n, { dataParallelStartRank: 0, dataParallelSize: 1 }, moment(0))
  for (const [at, requestId] of ['a', 'b', 'c', 'd'].entries()) {
    const request = { requestId, promptTokens: 10_000, isQueryOnly: false, blockCount: 0, isWhole: true }
    router.decide(request, moment(at))
  }
  for (let nowMs = 5; nowMs < 1500; nowMs += 10) router.recheck(moment(nowMs))
  expect(router.core.pendingCount).toBe(0) // without a single mark
  router.flush()
  const again = () => ({ ...options, model: new FleetModel({ profile, isLearning: false }) })
  expect(replay(Buffer.concat(pieces), again).firstDifference).toBeUndefined()
})

it('the model forgets requests that end without an end: expired, lost with their worker, or freed by a peer', () => {
  const model = new FleetModel({ profile, isLearning: false })
  const config = { policy: 'warm', routerActiveRequestExpirySecs: 60 } as const
  const fleet = new Fleet({ workers: 2, config, model })
  for (const id of [0, 1]) fleet.ask(`r${id}`, pin(id))
  expect(model.runningCount).toBe(2)
  fleet.core.removeWorker(0n, fleet.moment)
  expect(model.runningCount).toBe(1)
  fleet.nowMs = 120_000
  fleet.core.expire(fleet.moment)
  expect(model.runningCount).toBe(0)
  fleet.ask('peer', pin(1))
  const worker = { workerId: 1n, dpRank: 0 }
  fleet.core.applyReplica(
    [{ requestId: 'peer', worker, routerId: 9n, loraName: undefined, data: { kind: 'free' } }],
    fleet.moment,
  )
  fleet.free('peer')
  expect([fleet.core.sequences.requestCount, model.runningCount, model.residenceMs]).toEqual([0, 0, 5000])
})

it('a booking that somebody else placed shares what its own blocks share, not what the last request did', () => {
  const fleet = new Fleet({
    workers: 1,
    config: { policy: 'warm' },
    model: new FleetModel({ profile, isLearning: false }),
  })
  const blocks = Array.from({ length: 10 }, (_, at) => BigInt(at + 1))
  fleet.ask('first', { blocks })
  fleet.ask('second', { blocks })
  const before = fleet.activeTokens(0)
  const hashes = toHashColumn(Array.from({ length: 10 }, (_, at) => BigInt(at + 100)))
  const request = { requestId: 'third', promptTokens: 160, sequenceHashes: hashes, blockCount: 10, isQueryOnly: false }
  fleet.core.book(request, { workerId: 0n, dpRank: 0 }, 0, fleet.moment)
  expect(fleet.activeTokens(0) - before).toBe(160)
})

it('who is held for a worker counts there for those behind: not all wait for the warm one while another stands idle', () => {
  const fleet = new Fleet({ workers: 2, config: warm, model: new FleetModel({ profile, isLearning: false }) })
  const common = { blocks: Array.from({ length: 600 }, (_, at) => BigInt(at + 1)) } // 9,600 tokens, about 200 ms
  fleet.ask('running', { ...common, promptTokens: 9600, ...pin(0) })
  fleet.nowMs = 40
  // Behind what runs there 50 ms of prefill are left of each, elsewhere 242: alone, each would rather wait for worker 0.
  fleet.ask('a', { ...common, promptTokens: 11_600 })
  expect(fleet.recheck()).toEqual([])
  for (const id of ['b', 'c']) fleet.ask(id, { ...common, promptTokens: 11_600 })
  expect(fleet.recheck()).toEqual(['b@1'])
})
