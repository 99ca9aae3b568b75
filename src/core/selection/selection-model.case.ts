/**
 * Goal: the choice is the one that a person with a table and a calculator would make.
 * Method: random fleets, caches, loads, settings and constraints; every candidate is judged and priced here by the formula
 * of the specification, written with maps, and compared row by row.
 */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { exclusionOf, listExclusions } from './eligibility.js'
import { fleetOf } from './selection.case.js'
import { SharedCacheHits } from './shared-hits.js'
import { DefaultWorkerSelector } from './worker-selector.js'

const small = fc.nat({ max: 6 })
const weight = fc.constantFrom(0, 0.25, 0.5, 0.75, 1, 2)
const anyState = fc.record({
  device: small,
  host: fc.oneof(fc.constant(0), small),
  disk: fc.oneof(fc.constant(0), small),
  external: fc.oneof(fc.constant(0), small),
  activeTokens: fc.nat({ max: 200 }),
  decode: fc.nat({ max: 20 }),
  requests: small,
})
const taints = ['gpu', 'eu', 'spot']
const anyCase = fc.record({
  states: fc.array(anyState, { minLength: 1, maxLength: 6 }),
  untracked: fc.subarray([0, 1, 2, 3, 4, 5]),
  carried: fc.array(fc.subarray(taints), { minLength: 6, maxLength: 6 }),
  settings: fc.record({
    overlapScoreCredit: weight,
    overlapScoreCreditDecay: fc.oneof(fc.constant(0), weight),
    prefillLoadScale: weight,
    hostCacheHitWeight: weight,
    diskCacheHitWeight: weight,
    sharedCacheMultiplier: weight,
    decodeActiveRequestWeight: fc.oneof(fc.constant(0), weight),
    trackPrefillTokens: fc.boolean(),
    creditsDecodeWorkers: fc.boolean(),
    temperature: fc.constant(0),
  }),
  promptTokens: fc.integer({ min: 1, max: 120 }),
  label: fc.constantFrom('prefill' as const, 'decode' as const),
  shared: fc.option(fc.tuple(small, small), { nil: undefined }),
  allowed: fc.option(fc.subarray([1n, 2n, 3n, 4n, 5n, 6n, 7n]), { nil: undefined }),
  excluded: fc.subarray([1n, 2n, 3n]),
  required: fc.subarray(taints, { maxLength: 1 }),
  preferred: fc.option(fc.constantFrom({ gpu: 0.5 }, { spot: -1, eu: 0.25 }), { nil: undefined }),
  overloaded: fc.option(fc.array(fc.nat({ max: 1 }), { minLength: 6, maxLength: 6 }), { nil: undefined }),
  available: fc.option(fc.array(fc.nat({ max: 3 }), { minLength: 6, maxLength: 6 }), { nil: undefined }),
  draw: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
})
type Case = typeof anyCase extends fc.Arbitrary<infer T> ? T : never

/** Every eligible rank is priced by the formula, the cheapest is picked, and the receipt adds up. */
export function checkSelection(runs: fc.Parameters<unknown>): void {
  fc.assert(
    fc.property(anyCase, (it) => {
      const fleet = fleetFor(it)
      const rows = eligible(it).map((index) => ({ index, cost: costOf(it, index, eligible(it)) }))
      const selector = new DefaultWorkerSelector()
      if (rows.length === 0) {
        const code = overloadedOnly(it) ? 'WR_ALL_WORKERS_OVERLOADED' : 'WR_NO_ENDPOINTS'
        assert.throws(() => selector.select(fleet.workers, fleet.request), { code })
        return
      }
      const rank = selector.select(fleet.workers, fleet.request)
      const real = [...selector.rows.costs.subarray(0, selector.rows.count)]
      assert.equal(real.length, rows.length)
      for (const [row, { cost }] of rows.entries()) close(real[row]!, cost)
      const least = Math.min(...real)
      const ties = rows.filter((_, row) => real[row] === least)
      assert.equal(rank, ties[Math.floor(it.draw * ties.length)]!.index)
      explainsItself(selector, fleet)
      assert.equal(listExclusions(fleet.workers, fleet.request).length, it.states.length - rows.length)
    }),
    runs as fc.Parameters<[Case]>,
  )
}

/** An excluded pair has one reason, the first that applies. */
export function checkReasons(runs: fc.Parameters<unknown>): void {
  fc.assert(
    fc.property(anyCase, (it) => {
      const fleet = fleetFor(it)
      for (const index of it.states.keys()) {
        const pair = { workerId: BigInt(index + 1), dpRank: 0 }
        assert.equal(exclusionOf(fleet.workers, fleet.request, pair), reasonOf(it, index))
      }
    }),
    runs as fc.Parameters<[Case]>,
  )
}

function fleetFor(it: Case) {
  const states = Object.fromEntries(
    it.states.map((state, index) => {
      const isUntracked = it.untracked.includes(index)
      // The tracker answers 0 for what it does not track.
      return [index + 1, isUntracked ? { ...state, activeTokens: 0, decode: 0, requests: 0, isUntracked } : state]
    }),
  )
  const configs = Object.fromEntries(it.carried.map((carried, index) => [index + 1, { taints: new Set(carried) }]))
  return fleetOf(
    states,
    it.settings,
    {
      promptTokens: it.promptTokens,
      label: it.label,
      draw: it.draw,
      sharedHits: it.shared && new SharedCacheHits([[it.shared[0], it.shared[0] + it.shared[1]]]),
      allowedWorkerIds: it.allowed && new Set(it.allowed),
      excludedWorkerIds: new Set(it.excluded),
      constraints: { requiredTaints: it.required, preferredTaints: it.preferred },
      overloaded: it.overloaded && Uint8Array.from(it.overloaded),
      available: it.available && Uint8Array.from(it.available.map((value) => (value > 0 ? 1 : 0))),
    },
    configs,
  )
}

function reasonOf(it: Case, index: number): string | undefined {
  const workerId = BigInt(index + 1)
  if (it.allowed && !it.allowed.includes(workerId)) return 'not_allowed'
  if (it.excluded.includes(workerId)) return 'excluded'
  if (it.available && it.available[index] === 0) return 'unavailable'
  if (!it.required.every((taint) => it.carried[index]!.includes(taint))) return 'missing_taint'
  return it.overloaded?.[index] === 1 ? 'overloaded' : undefined
}

function eligible(it: Case): number[] {
  return [...it.states.keys()].filter((index) => reasonOf(it, index) === undefined)
}

function overloadedOnly(it: Case): boolean {
  return [...it.states.keys()].some((index) => reasonOf(it, index) === 'overloaded')
}

function costOf(it: Case, index: number, rows: readonly number[]): number {
  const B = 16
  const s = it.settings
  const state = it.states[index]!
  const isTracked = !it.untracked.includes(index)
  const activeOf = (at: number) => (it.untracked.includes(at) ? 0 : it.states[at]!.activeTokens)
  const disk = state.disk + state.external
  const cached = Math.round((state.device + state.host * s.hostCacheHitWeight + disk * s.diskCacheHitWeight) * B)
  const known = activeOf(index) + Math.max(0, it.promptTokens - cached) + cached
  const raw = !s.trackPrefillTokens ? 0 : isTracked ? known : it.promptTokens
  const from = it.shared?.[0] ?? 0
  const until = from + (it.shared?.[1] ?? 0)
  const beyond = Math.max(0, until - Math.max(from, state.device))
  const lowest = Math.min(...rows.map(activeOf))
  const decay = s.trackPrefillTokens
    ? 1 / (1 + (s.overlapScoreCreditDecay * ((activeOf(index) - lowest) / B)) / Math.ceil(it.promptTokens / B))
    : 1
  const credit =
    s.overlapScoreCredit * decay * state.device +
    s.hostCacheHitWeight * state.host +
    s.diskCacheHitWeight * disk +
    s.sharedCacheMultiplier * beyond
  const decode = isTracked ? state.decode : 0
  const requests = isTracked ? s.decodeActiveRequestWeight * state.requests : 0
  const isDecode = it.label === 'decode' && !s.trackPrefillTokens && s.creditsDecodeWorkers && s.overlapScoreCredit > 0
  const cost = isDecode
    ? Math.max(0, decode - credit) + requests
    : s.prefillLoadScale * Math.max(0, raw / B - credit) + decode + requests
  const wishes = Object.entries(it.preferred ?? {}).filter(([taint]) => it.carried[index]!.includes(taint))
  return cost * Math.exp(-Math.tanh(wishes.reduce((sum, [, weight]) => sum + (weight ?? 0), 0)))
}

/** The terms of a receipt add up to the cost that was compared, preferences aside. */
function explainsItself(selector: DefaultWorkerSelector, { request }: ReturnType<typeof fleetFor>): void {
  if (request.constraints?.preferredTaints) return
  const { label, settings } = request
  const isDecode =
    label === 'decode' &&
    !settings.trackPrefillTokens &&
    settings.creditsDecodeWorkers &&
    settings.overlapScoreCredit > 0
  for (let row = 0; row < selector.rows.count; row++) {
    const terms = selector.explain(row, request)
    const blocks = isDecode
      ? Math.max(0, terms.decodeBlocks - terms.creditBlocks)
      : terms.prefillCost + terms.decodeBlocks
    close(terms.cost, blocks + settings.decodeActiveRequestWeight * terms.activeRequests)
  }
}

/** Terms may be added in another order: equal but for the last digits. */
function close(actual: number, expected: number): void {
  assert.ok(Math.abs(actual - expected) < 1e-9, `${actual} is not ${expected}`)
}
