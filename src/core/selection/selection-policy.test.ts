import { describe, expect, it } from 'vitest'
import type { Fleet, RankState } from './selection.case.js'
import { fleetOf } from './selection.case.js'
import type { Candidate, SelectionPolicy } from './selection-policy.js'
import { defaultPolicy } from './selection-policy.js'
import { SharedCacheHits } from './shared-hits.js'
import { DefaultWorkerSelector } from './worker-selector.js'

const states: Record<string, RankState> = {
  1: { device: 2, host: 1, activeTokens: 64, decode: 7, requests: 2 },
  2: { device: 1, activeTokens: 16, decode: 3 },
  3: { external: 3, activeTokens: 32, decode: 1 },
}

function chosen(policy: SelectionPolicy, fleet: Fleet = fleetOf(states)): bigint {
  const selector = new DefaultWorkerSelector({ policy })
  return selector.selectWorker(fleet.workers, fleet.request).worker.workerId
}

function codeOf(policy: SelectionPolicy): string {
  try {
    chosen(policy)
  } catch (error) {
    return (error as { code: string }).code
  }
  return 'none'
}

it('written as a policy, the default chooses and prices as the default does', () => {
  for (const settings of [{}, { temperature: 1 }, { overlapScoreCreditDecay: 2 }]) {
    const fleet = fleetOf(
      states,
      settings,
      { draw: 0.4, constraints: { preferredTaints: { x: 1 } } },
      { 2: { taints: new Set(['x']) } },
    )
    const plain = new DefaultWorkerSelector()
    const asPolicy = new DefaultWorkerSelector({ policy: defaultPolicy })
    expect(asPolicy.select(fleet.workers, fleet.request)).toBe(plain.select(fleet.workers, fleet.request))
    expect(asPolicy.rows.costs.subarray(0, 3)).toEqual(plain.rows.costs.subarray(0, 3))
  }
})

describe('a filter', () => {
  it('drops candidates before anybody prices them', () => {
    const scored: bigint[] = []
    const policy: SelectionPolicy = {
      name: 'odd',
      filters: [({ workerId }) => workerId % 2n === 1n, ({ workerId }) => workerId > 1n],
      scorers: [({ workerId }) => scored.push(workerId)],
    }
    expect([chosen(policy), scored]).toEqual([3n, [3n]])
  })

  it('that drops everybody is its own failure, and not overload', () => {
    expect(codeOf({ name: 'none', filters: [() => false] })).toBe('WR_ALL_WORKERS_FILTERED')
  })

  it('changes whom credit decay takes for the calmest', () => {
    const fleet = fleetOf({ 1: { device: 4, activeTokens: 160 }, 2: {} }, { overlapScoreCreditDecay: 1 })
    const costOf1 = (policy: SelectionPolicy) => {
      const selector = new DefaultWorkerSelector({ policy })
      selector.select(fleet.workers, fleet.request)
      return selector.rows.costs[0]
    }
    expect(costOf1(defaultPolicy)).toBeCloseTo(14 - 4 / 3.5, 12)
    expect(costOf1({ name: 'only 1', filters: [({ workerId }) => workerId === 1n] })).toBe(10) // alone, it is the calmest
  })

  it('sees the calmest of those that are left', () => {
    const seen: number[] = []
    const policy: SelectionPolicy = {
      name: 'look',
      filters: [({ workerId }) => workerId !== 2n],
      scorers: [(_candidate, context) => seen.push(context.lowestPrefillTokens)],
    }
    chosen(policy)
    expect(seen).toEqual([32, 32])
  })
})

describe('a scorer', () => {
  it('adds to the other scorers, the built-in one included', () => {
    const penalty = ({ workerId }: Candidate) => (workerId === 3n ? 100 : 0)
    const [plain, penalised] = [defaultPolicy, { name: 'p', scorers: ['default', penalty] } as SelectionPolicy].map(
      (policy) => {
        const { workers, request } = fleetOf(states)
        const selector = new DefaultWorkerSelector({ policy })
        selector.select(workers, request)
        return [...selector.rows.costs.subarray(0, 3)]
      },
    )
    expect(penalised).toEqual([plain![0], plain![1], plain![2]! + 100])
  })

  it.each([Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])('may not answer %d', (cost) => {
    expect(codeOf({ name: 'bad', scorers: [() => cost] })).toBe('WR_NON_FINITE_COST')
  })

  it('reads caches, load and facts of a worker', () => {
    const seen: unknown[] = []
    const look = ({ workerId, dpRank, cache, load, routing }: Candidate) => {
      seen.push({ workerId, dpRank, cache, load, routing })
      return 0
    }
    const sharedHits = new SharedCacheHits([[0, 4]])
    const config = { taints: new Set(['gpu']), maxNumBatchedTokens: 8192, totalKvBlocks: 50 }
    chosen({ name: 'look', scorers: [look] }, fleetOf({ 1: states[1]! }, {}, { sharedHits }, { 1: config }))
    expect(seen).toEqual([
      {
        workerId: 1n,
        dpRank: 0,
        cache: { deviceBlocks: 2, hostBlocks: 1, diskBlocks: 0, sharedBlocks: 2, effectiveBlocks: 2.75 },
        load: { activePrefillTokens: 64, potentialDecodeBlocks: 7, activeRequests: 2 },
        routing: { taints: new Set(['gpu']), maxBatchedTokens: 8192, totalKvBlocks: 50 },
      },
    ])
  })

  it('gets no device blocks from a source that knows no tiers', () => {
    const seen: number[] = []
    const look = ({ cache }: Candidate) => seen.push(cache.deviceBlocks, cache.effectiveBlocks)
    chosen({ name: 'look', scorers: [look] }, fleetOf({ 1: { effective: 2.5 } }))
    expect(seen).toEqual([0, 2.5])
  })

  it('makes nobody read caches of candidates that a filter dropped', () => {
    let reads = 0
    const sharedHits = new SharedCacheHits([[0, 4]])
    const counting = Object.assign(Object.create(sharedHits) as SharedCacheHits, {
      hitsBeyond: (position: number) => {
        reads++
        return sharedHits.hitsBeyond(position)
      },
    })
    const filters = [({ workerId }: Candidate) => workerId === 2n]
    chosen(
      { name: 'one', filters, scorers: [({ cache }) => cache.sharedBlocks] },
      fleetOf(states, {}, { sharedHits: counting }),
    )
    expect(reads).toBe(1)
    chosen({ name: 'none', filters, scorers: [() => 0] }, fleetOf(states, {}, { sharedHits: counting }))
    expect(reads).toBe(1)
  })
})

describe('a picker', () => {
  it('chooses a row, with costs, the draw and what the caller attached', () => {
    const policy: SelectionPolicy = {
      name: 'dearest',
      picker: (candidates, costs, { request }) => {
        expect([request.session, request.draw, candidates.length]).toEqual([{ turn: 3 }, 0.25, 3])
        return costs.indexOf(Math.max(...costs))
      },
    }
    expect(chosen(policy, fleetOf(states, {}, { session: { turn: 3 }, draw: 0.25 }))).toBe(1n)
  })

  it.each([-1, 3, 0.5, Number.NaN])('may not answer row %d of three', (row) => {
    expect(codeOf({ name: 'bad', picker: () => row })).toBe('WR_INVALID_PICKER_ROW')
  })

  it('cannot spoil the rows that a receipt is made from', () => {
    const { workers, request } = fleetOf(states)
    const selector = new DefaultWorkerSelector({
      policy: { name: 'vandal', picker: (_candidates, costs) => costs.fill(0)[0]! },
    })
    selector.select(workers, request)
    expect(selector.rows.costs[0]).toBeGreaterThan(0)
  })
})

it.each<[string, SelectionPolicy]>([
  ['filter', { name: 'f', filters: [broken] }],
  ['scorer', { name: 's', scorers: [broken] }],
  ['picker', { name: 'p', picker: broken }],
])('a %s that throws fails the selection with its cause', (_says, policy) => {
  expect(() => chosen(policy)).toThrow(
    expect.objectContaining({
      code: 'WR_SELECTION_POLICY_FAILED',
      cause: expect.objectContaining({ message: 'oops' }),
    }),
  )
})

it('does not ask the policy where a pin has decided', () => {
  const fleet = fleetOf(states, {}, { pin: { workerId: 2n, dpRank: 0 } })
  expect(chosen({ name: 'none', filters: [broken] }, fleet)).toBe(2n)
})

function broken(): never {
  throw new Error('oops')
}
