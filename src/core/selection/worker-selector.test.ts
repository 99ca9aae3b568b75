import { describe, expect, it } from 'vitest'
import type { WorkerTable } from '../protocol/index.js'
import { defaultRouterConfig } from '../protocol/index.js'
import { costSettingsOf } from './cost-settings.js'
import type { RankState } from './selection.case.js'
import { fleetOf } from './selection.case.js'
import { SharedCacheHits } from './shared-hits.js'
import type { SelectionRequest, WorkerSelection, WorkerSelector } from './worker-selector.js'
import { DefaultWorkerSelector, validateSelection } from './worker-selector.js'

/** Costs in order of worker id, and the worker that is picked. */
function priced(...fleet: Parameters<typeof fleetOf>): { costs: number[]; worker: bigint } {
  const { workers, request } = fleetOf(...fleet)
  const selector = new DefaultWorkerSelector()
  const { worker } = selector.selectWorker(workers, request)
  return { costs: [...selector.rows.costs.subarray(0, selector.rows.count)], worker: worker.workerId }
}

describe('the worked examples of the cost function', () => {
  it('1: a warm worker with decode load beats a cold one', () => {
    expect(priced({ 1: { device: 2, decode: 5 }, 2: { decode: 4 } })).toEqual({ costs: [7, 8], worker: 1n })
  })

  it('2a: lower tiers earn credit by their weights', () => {
    const fleet = { 1: { device: 2, host: 1, disk: 2 }, 2: { host: 1 } }
    expect(priced(fleet, {}, { promptTokens: 80 })).toEqual({ costs: [1.75, 4.25], worker: 1n })
  })

  it('2b: booked prefill and decode outweigh a warm cache', () => {
    const fleet = { 1: { device: 2, host: 1, disk: 2, activeTokens: 128, decode: 8 }, 2: { host: 1, decode: 5 } }
    expect(priced(fleet, {}, { promptTokens: 80 })).toEqual({ costs: [17.75, 9.25], worker: 2n })
  })

  it('3: a shared cache counts only beyond the device prefix', () => {
    const sharedHits = new SharedCacheHits([[0, 4]])
    const request = { promptTokens: 4, blockTokens: 1, sharedHits }
    expect(priced({ 1: { device: 2 }, 2: {} }, { sharedCacheMultiplier: 0.5 }, request)).toEqual({
      costs: [1, 2],
      worker: 1n,
    })
  })

  it('4: the prefill scale applies after the credit', () => {
    expect(priced({ 1: { device: 2, decode: 3 }, 2: {} }, { prefillLoadScale: 2 })).toEqual({
      costs: [7, 8],
      worker: 1n,
    })
  })

  it('5: credit decay prefers a calm cold worker to a loaded warm one', () => {
    const fleet = { 1: { device: 4, activeTokens: 48 }, 2: {} }
    const decayed = priced(fleet, { overlapScoreCreditDecay: 1 })
    expect(decayed.costs[0]).toBeCloseTo(7 - 4 / 1.75, 12)
    expect([decayed.costs[1], decayed.worker]).toEqual([4, 2n])
    expect(priced(fleet)).toEqual({ costs: [3, 4], worker: 1n })
  })

  it('6: a cache estimate above the prompt is cancelled by its own credit', () => {
    const fleet = { 1: { device: 6, activeTokens: 16, decode: 5 } }
    expect(priced(fleet, { prefillLoadScale: 2 }).costs).toEqual([7])
    expect(priced(fleet, { prefillLoadScale: 2, trackPrefillTokens: false }, { label: 'prefill' }).costs).toEqual([5])
  })

  it('7: a credit above one can prefer the warm worker', () => {
    const fleet = { 1: { device: 4, decode: 5 }, 2: {} }
    expect(priced(fleet, {}, { promptTokens: 128 })).toEqual({ costs: [9, 8], worker: 2n })
    expect(priced(fleet, { overlapScoreCredit: 1.5 }, { promptTokens: 128 })).toEqual({ costs: [7, 8], worker: 1n })
  })

  it('8: a preferred taint pulls a dearer worker ahead', () => {
    const constraints = { preferredTaints: { fast: 0.85 } }
    const fleet = { 1: { decode: 97 }, 2: { decode: 87 } }
    const { costs, worker } = priced(fleet, {}, { constraints }, { 1: { taints: new Set(['fast', 'new']) } })
    expect(costs[0]).toBeCloseTo(101 * 0.50104, 2)
    expect([costs[1], worker]).toEqual([91, 1n])
  })

  it('9: a negative taint pushes a cheaper worker back', () => {
    const constraints = { preferredTaints: { spot: -0.25 } }
    const fleet = { 1: { decode: 87 }, 2: { decode: 97 } }
    const { costs, worker } = priced(fleet, {}, { constraints }, { 1: { taints: new Set(['spot']) } })
    expect(costs[0]).toBeCloseTo(116.254, 3)
    expect([costs[1], worker]).toEqual([101, 2n])
  })

  it('10: a decode worker gets credit on its blocks where prefill is not tracked', () => {
    const fleet = { 1: { device: 3, decode: 10 } }
    expect(priced(fleet, { trackPrefillTokens: false, overlapScoreCredit: 0 }).costs).toEqual([10])
    expect(priced(fleet, { trackPrefillTokens: false }).costs).toEqual([7])
    expect(priced(fleet, { trackPrefillTokens: false, creditsDecodeWorkers: false }).costs).toEqual([10])
    expect(priced(fleet, { trackPrefillTokens: false }, { label: 'prefill' }).costs).toEqual([10])
  })

  it('11: running requests can be charged', () => {
    const settings = { trackPrefillTokens: false, decodeActiveRequestWeight: 32 }
    expect(priced({ 1: { decode: 100, requests: 4 } }, settings).costs).toEqual([228])
    expect(priced({ 1: { decode: 100, requests: 4 } }, { decodeActiveRequestWeight: 32 }).costs).toEqual([232])
  })

  it('12: a rank that the tracker does not know costs the same as an idle one', () => {
    const fleet = { 1: { device: 3 }, 2: { device: 3, isUntracked: true } }
    expect(priced(fleet, {}, { promptTokens: 100 }).costs).toEqual([3.25, 3.25])
  })
})

describe('the device prefix', () => {
  it('is the weighted overlap where no tiers are known', () => {
    const fleet = { 1: { effective: 2.5 }, 2: {} }
    expect(priced(fleet)).toEqual({ costs: [1.5, 4], worker: 1n })
  })

  it('of a source without tiers still bounds what the shared cache adds', () => {
    const sharedHits = new SharedCacheHits([[0, 4]])
    expect(priced({ 1: { effective: 2.5 } }, { sharedCacheMultiplier: 0.5 }, { sharedHits }).costs).toEqual([1])
  })

  it('is zero for a rank that only lower tiers know', () => {
    expect(priced({ 1: { host: 2 }, 2: { external: 4 } }).costs).toEqual([2.5, 3])
  })
})

it('changes nothing by a shared multiplier without hits', () => {
  const fleet: Record<string, RankState> = { 1: { device: 2, decode: 1 }, 2: { activeTokens: 32 } }
  expect(priced(fleet, { sharedCacheMultiplier: 0.5 })).toEqual(priced(fleet))
})

it('lets a request override credit, scale, multiplier, temperature and tracking', () => {
  const fleet = { 1: { device: 4, decode: 3 }, 2: {} }
  const overridden = (override: Parameters<typeof costSettingsOf>[1]) =>
    priced(fleet, costSettingsOf(defaultRouterConfig, override)).worker
  expect(overridden({})).toBe(1n)
  expect(overridden({ overlapScoreCredit: 0 })).toBe(2n)
  expect(overridden({ prefillLoadScale: 0 })).toBe(2n)
  expect(
    priced(fleet, costSettingsOf(defaultRouterConfig, { trackPrefillTokens: false }), { label: 'prefill' }).costs,
  ).toEqual([3, 0])
  expect(costSettingsOf(defaultRouterConfig, { sharedCacheMultiplier: 0.5, routerTemperature: 2 })).toMatchObject({
    sharedCacheMultiplier: 0.5,
    temperature: 2,
  })
})

describe('the answer', () => {
  it('says what the chosen rank holds and will hold', () => {
    const { workers, request } = fleetOf(
      { 1: { device: 2, host: 1, disk: 2, decode: 6 } },
      {},
      { promptTokens: 90, trackedBlocks: 5 },
    )
    expect(new DefaultWorkerSelector().selectWorker(workers, request)).toEqual({
      worker: { workerId: 1n, dpRank: 0 },
      requiredBlocks: 6,
      effectiveOverlapBlocks: 3.25,
      cachedTokens: 52,
      potentialDecodeBlocks: 7,
    })
  })

  it('counts as potential only the blocks of the request that are not tracked', () => {
    const potential = (trackedBlocks: number) => {
      const { workers, request } = fleetOf({ 1: { decode: 10 } }, {}, { promptTokens: 65, trackedBlocks })
      return new DefaultWorkerSelector().selectWorker(workers, request).potentialDecodeBlocks
    }
    expect([4, 5, 9, 0].map(potential)).toEqual([11, 10, 10, 15])
  })

  it('explains every term of a row', () => {
    const sharedHits = new SharedCacheHits([[1, 4]])
    const { workers, request } = fleetOf(
      { 1: { device: 2, host: 1, external: 2, activeTokens: 32, decode: 5, requests: 3 } },
      { sharedCacheMultiplier: 0.5, decodeActiveRequestWeight: 2 },
      { sharedHits },
    )
    const selector = new DefaultWorkerSelector()
    selector.select(workers, request)
    expect(selector.explain(0, request)).toEqual({
      deviceBlocks: 2,
      hostBlocks: 1,
      diskBlocks: 2,
      sharedBlocks: 2,
      activePrefillTokens: 32,
      decodeBlocks: 5,
      activeRequests: 3,
      creditBlocks: 2 + 0.75 + 0.5 + 1,
      prefillCost: 6 - 4.25,
      cost: 1.75 + 5 + 6,
    })
  })
})

it.each<[string, Partial<SelectionRequest>]>([
  ['zero prompt tokens', { promptTokens: 0 }],
  ['negative prompt tokens', { promptTokens: -1 }],
  ['NaN prompt tokens', { promptTokens: Number.NaN }],
  ['infinite prompt tokens', { promptTokens: Number.POSITIVE_INFINITY }],
  ['a block of no tokens', { blockTokens: 0 }],
  ['a NaN block', { blockTokens: Number.NaN }],
  ['negative tracked blocks', { trackedBlocks: -1 }],
  ['NaN tracked blocks', { trackedBlocks: Number.NaN }],
  ['a draw of 1', { draw: 1 }],
  ['a negative draw', { draw: -0.1 }],
  ['a NaN draw', { draw: Number.NaN }],
  ['a NaN taint weight', { constraints: { preferredTaints: { fast: Number.NaN } } }],
  ['an infinite taint weight', { constraints: { preferredTaints: { fast: Number.POSITIVE_INFINITY } } }],
])('refuses %s', (_says, change) => {
  const { workers, request } = fleetOf({ 1: {} }, {}, change)
  expect(() => new DefaultWorkerSelector().select(workers, request)).toThrow(
    expect.objectContaining({ code: 'WR_INVALID_ARGUMENT' }),
  )
})

const numericSettings = [
  'overlapScoreCredit',
  'overlapScoreCreditDecay',
  'prefillLoadScale',
  'hostCacheHitWeight',
  'diskCacheHitWeight',
  'sharedCacheMultiplier',
  'decodeActiveRequestWeight',
  'temperature',
] as const
it.each(
  numericSettings.flatMap((field) =>
    [Number.NaN, Number.POSITIVE_INFINITY, -1].map((value) => [field, value] as const),
  ),
)('refuses %s of %d', (field, value) => {
  const { workers, request } = fleetOf({ 1: {} }, { [field]: value })
  expect(() => new DefaultWorkerSelector().select(workers, request)).toThrow(
    expect.objectContaining({ code: 'WR_INVALID_ARGUMENT', details: expect.objectContaining({ field }) }),
  )
})

it.each([
  { worker: { workerId: -1n, dpRank: 0 } },
  { worker: { workerId: 2n ** 64n, dpRank: 0 } },
  { worker: { workerId: 1n, dpRank: -1 } },
  { worker: { workerId: 1n, dpRank: 0.5 } },
  { requiredBlocks: Number.NaN },
  { effectiveOverlapBlocks: -1 },
  { cachedTokens: Number.POSITIVE_INFINITY },
  { potentialDecodeBlocks: Number.NaN },
])('refuses what a custom selector cannot mean: %o', (change) => {
  const good = {
    worker: { workerId: 2n ** 64n - 1n, dpRank: 3 },
    requiredBlocks: 4,
    effectiveOverlapBlocks: 0,
    cachedTokens: 0,
  }
  expect(() => validateSelection(good)).not.toThrow()
  expect(() => validateSelection({ ...good, ...change })).toThrow(
    expect.objectContaining({ code: 'WR_SELECTION_POLICY_FAILED' }),
  )
})

it('leaves room for a selector of one’s own, which sees the request as it is', () => {
  class Inspecting implements WorkerSelector {
    selectWorker(_workers: WorkerTable, request: SelectionRequest, blockTokens: number): WorkerSelection {
      expect(request.sharedHits?.totalHits).toBe(2)
      return {
        worker: { workerId: 1n, dpRank: 0 },
        requiredBlocks: Math.ceil(request.promptTokens / blockTokens),
        effectiveOverlapBlocks: 0,
        cachedTokens: 0,
      }
    }
  }
  const { workers, request } = fleetOf(
    { 0: {}, 1: { decode: 99 } },
    {},
    { promptTokens: 4, sharedHits: new SharedCacheHits([[0, 2]]) },
  )
  const selection = new Inspecting().selectWorker(workers, request, 2)
  validateSelection(selection)
  expect([selection.worker.workerId, selection.requiredBlocks]).toEqual([1n, 2])
})
