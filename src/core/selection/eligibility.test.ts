import { describe, expect, it } from 'vitest'
import type { WorkerConfig } from '../protocol/index.js'
import { RankTable, WorkerTable } from '../protocol/index.js'
import type { Eligibility, ExclusionReason } from './eligibility.js'
import { exclusionOf, listExclusions, validatePin } from './eligibility.js'
import { fleetOf } from './selection.case.js'
import { DefaultWorkerSelector } from './worker-selector.js'

const id = (workerId: number | bigint, dpRank = 0) => ({ workerId: BigInt(workerId), dpRank })

/** Three workers: 1 and 2 with one rank, 3 with ranks 4 and 5. */
function three(eligibility: Eligibility, configs: Record<string, Partial<WorkerConfig>> = {}) {
  return fleetOf({ 1: {}, 2: { device: 4 }, 3: {} }, {}, eligibility, {
    3: { dataParallelStartRank: 4, dataParallelSize: 2 },
    ...configs,
  })
}

function rowsOf(eligibility: Eligibility, configs: Record<string, Partial<WorkerConfig>> = {}): string[] {
  const { workers, request } = three(eligibility, configs)
  const selector = new DefaultWorkerSelector()
  selector.select(workers, request)
  return [...selector.rows.ranks.subarray(0, selector.rows.count)].map((rank) => {
    const { workerId, dpRank } = workers.ranks.pairOf(rank)
    return `${workerId}/${dpRank}`
  })
}

function refusalOf(eligibility: Eligibility, configs: Record<string, Partial<WorkerConfig>> = {}): string {
  const { workers, request } = three(eligibility, configs)
  try {
    new DefaultWorkerSelector().select(workers, request)
  } catch (error) {
    return (error as { code: string }).code
  }
  return 'none'
}

/** Flags of the three workers' ranks: 1/0, 2/0, 3/4, 3/5. */
const flags = (...values: number[]) => Uint8Array.from(values)

describe('who is a candidate', () => {
  it('every owned rank of every worker, without constraints', () => {
    expect(rowsOf({})).toEqual(['1/0', '2/0', '3/4', '3/5'])
  })

  it('the owned ranks of allowed workers only', () => {
    expect(rowsOf({ allowedWorkerIds: new Set([3n, 1n, 9n]) })).toEqual(['1/0', '3/4', '3/5'])
  })

  it('nobody who failed the request before', () => {
    expect(rowsOf({ excludedWorkerIds: new Set([2n]) })).toEqual(['1/0', '3/4', '3/5'])
    expect(rowsOf({ allowedWorkerIds: new Set([1n, 2n]), excludedWorkerIds: new Set([2n]) })).toEqual(['1/0'])
  })

  it('reachable ranks only, where somebody knows', () => {
    expect(rowsOf({ available: flags(1, 0, 0, 1) })).toEqual(['1/0', '3/5'])
    expect(refusalOf({ available: flags() })).toBe('WR_NO_ENDPOINTS')
  })

  it('workers that carry every required taint', () => {
    const taints = { 1: { taints: new Set(['gpu', 'eu']) }, 2: { taints: new Set(['gpu']) } }
    expect(rowsOf({ constraints: { requiredTaints: ['gpu', 'eu'] } }, taints)).toEqual(['1/0'])
    expect(rowsOf({ constraints: { requiredTaints: ['gpu'] } }, taints)).toEqual(['1/0', '2/0'])
    expect(rowsOf({ constraints: { requiredTaints: [] } }, taints)).toHaveLength(4)
    expect(refusalOf({ constraints: { requiredTaints: ['tpu'] } }, taints)).toBe('WR_NO_ENDPOINTS')
  })

  it('nobody who is overloaded, however warm', () => {
    const { workers, request } = three({ overloaded: flags(0, 1, 0, 0) })
    expect(new DefaultWorkerSelector().selectWorker(workers, request).worker.workerId).not.toBe(2n)
    expect(rowsOf({ overloaded: flags(0, 1, 0, 0) })).toEqual(['1/0', '3/4', '3/5'])
  })
})

describe('when nobody is left', () => {
  it('no worker at all is no endpoint', () => {
    const { request } = three({})
    const empty = new WorkerTable(new RankTable())
    expect(() => new DefaultWorkerSelector().select(empty, request)).toThrow(
      expect.objectContaining({ code: 'WR_NO_ENDPOINTS', message: 'no endpoints available to route work' }),
    )
  })

  it('workers that own no rank are no endpoint', () => {
    const none = { dataParallelSize: 0 }
    expect(refusalOf({}, { 1: none, 2: none, 3: none })).toBe('WR_NO_ENDPOINTS')
  })

  it('an allow list without a known worker is no endpoint', () => {
    expect(refusalOf({ allowedWorkerIds: new Set([8n, 9n]) })).toBe('WR_NO_ENDPOINTS')
    expect(refusalOf({ allowedWorkerIds: new Set() })).toBe('WR_NO_ENDPOINTS')
  })

  it('all eligible workers overloaded says so, and other exclusions do not hide it', () => {
    expect(refusalOf({ overloaded: flags(1, 1, 1, 1) })).toBe('WR_ALL_WORKERS_OVERLOADED')
    const both = { overloaded: flags(1, 1, 1, 1), allowedWorkerIds: new Set([1n]) }
    expect(refusalOf(both)).toBe('WR_ALL_WORKERS_OVERLOADED')
    expect(refusalOf({ ...both, available: flags(0, 1, 1, 1) })).toBe('WR_NO_ENDPOINTS')
  })
})

describe('a pin', () => {
  it('is that rank and no other, whatever it costs', () => {
    expect(rowsOf({ pin: id(3, 5) })).toEqual(['3/5'])
  })

  it('outside of the allow list is refused before anything else', () => {
    expect(refusalOf({ pin: id(99), allowedWorkerIds: new Set([1n]) })).toBe('WR_PINNED_WORKER_NOT_ALLOWED')
    expect(() => validatePin({ pin: id(2), allowedWorkerIds: new Set([1n]) })).toThrow(
      'pinned worker 2 is not in allowed worker set',
    )
    expect(() => validatePin({ pin: id(2), allowedWorkerIds: new Set([2n]) })).not.toThrow()
    expect(() => validatePin({ pin: id(2) })).not.toThrow()
  })

  it('to an unknown worker, or to a rank that its worker does not own, is no endpoint', () => {
    expect([refusalOf({ pin: id(9) }), refusalOf({ pin: id(3, 3) }), refusalOf({ pin: id(3, 6) })]).toEqual(
      Array(3).fill('WR_NO_ENDPOINTS'),
    )
  })

  it('to an overloaded worker is refused and not rerouted', () => {
    expect(refusalOf({ pin: id(2), overloaded: flags(0, 1, 0, 0) })).toBe('WR_PINNED_WORKER_OVERLOADED')
  })

  it('to an unavailable worker is no endpoint, even where overload is forgiven', () => {
    expect(refusalOf({ pin: id(2), available: flags(1, 0, 1, 1) })).toBe('WR_NO_ENDPOINTS')
  })

  it('must carry the required taints too', () => {
    expect(refusalOf({ pin: id(2), constraints: { requiredTaints: ['gpu'] } })).toBe('WR_NO_ENDPOINTS')
  })

  it('is not priced by preferences', () => {
    const { workers, request } = three(
      { pin: id(1), constraints: { preferredTaints: { fast: 1 } } },
      { 1: { taints: new Set(['fast']) } },
    )
    const selector = new DefaultWorkerSelector()
    selector.select(workers, request)
    expect(selector.rows.costs[0]).toBe(4)
  })
})

describe('the reason', () => {
  const everything: Eligibility = {
    allowedWorkerIds: new Set([2n, 3n, 4n]),
    excludedWorkerIds: new Set([4n]),
    constraints: { requiredTaints: ['gpu'] },
    overloaded: flags(1, 1, 1, 1),
  }
  const taints = { 2: { taints: new Set(['gpu']) } }

  it.each<[string, Eligibility, { workerId: bigint; dpRank: number }, ExclusionReason | undefined]>([
    ['the allow list comes first', everything, id(1), 'not_allowed'],
    ['then an earlier failure', everything, id(4), 'excluded'],
    ['then availability', { ...everything, available: flags(1, 0, 1, 1) }, id(2), 'unavailable'],
    ['then an unknown worker', { ...everything, allowedWorkerIds: new Set([7n]) }, id(7), 'worker_missing'],
    ['then a rank out of range', everything, id(3, 9), 'rank_out_of_range'],
    ['then a missing taint', everything, id(3, 4), 'missing_taint'],
    ['then overload', everything, id(2), 'overloaded'],
    ['and otherwise none', { ...everything, overloaded: flags() }, id(2), undefined],
  ])('%s', (_says, eligibility, pair, reason) => {
    expect(exclusionOf(three({}, taints).workers, eligibility, pair)).toBe(reason)
  })

  it('is listed for every rank that is left out', () => {
    expect(listExclusions(three({}, taints).workers, everything)).toEqual([
      { ...id(1), reason: 'not_allowed' },
      { ...id(2), reason: 'overloaded' },
      { ...id(3, 4), reason: 'missing_taint' },
      { ...id(3, 5), reason: 'missing_taint' },
    ])
  })
})
