/**
 * Who may serve a request, before anybody asks what it costs. Each rank is judged in one fixed order, so that the reason
 * it is left out for is always the same one.
 */
import type { Rank, RoutingConstraints, WorkerRank, WorkerTable } from '../protocol/index.js'
import { WarmrouteError } from '../protocol/index.js'

/** 1 where the flag is set, indexed by rank; a rank beyond the end has 0. */
export type RankFlags = Uint8Array

export interface Eligibility {
  /** Exactly this rank, or nothing. */
  readonly pin?: WorkerRank | undefined
  readonly allowedWorkerIds?: ReadonlySet<bigint> | undefined
  /** Workers that failed this request before. */
  readonly excludedWorkerIds?: ReadonlySet<bigint> | undefined
  /** Ranks that can be reached. Absent: nobody knows, so everybody counts; all zero: nobody can. */
  readonly available?: RankFlags | undefined
  readonly constraints?: RoutingConstraints | undefined
  readonly overloaded?: RankFlags | undefined
}

/** In the order in which they are judged. */
export const exclusionReasons = [
  'not_allowed',
  'excluded',
  'unavailable',
  'worker_missing',
  'rank_out_of_range',
  'missing_taint',
  'overloaded',
] as const
export type ExclusionReason = (typeof exclusionReasons)[number]

export interface Exclusion extends WorkerRank {
  readonly reason: ExclusionReason
}

/** Why this pair may not serve, or undefined. */
export function exclusionOf(
  workers: WorkerTable,
  eligibility: Eligibility,
  pair: WorkerRank,
): ExclusionReason | undefined {
  const { allowedWorkerIds, excludedWorkerIds, available, constraints, overloaded } = eligibility
  if (allowedWorkerIds && !allowedWorkerIds.has(pair.workerId)) return 'not_allowed'
  if (excludedWorkerIds?.has(pair.workerId)) return 'excluded'
  const rank = workers.servedRank(pair.workerId, pair.dpRank)
  if (available && !(rank !== undefined && available[rank] === 1)) return 'unavailable'
  if (!workers.configOf(pair.workerId)) return 'worker_missing'
  if (rank === undefined) return 'rank_out_of_range'
  if (!carries(workers, rank, constraints?.requiredTaints)) return 'missing_taint'
  return overloaded?.[rank] === 1 ? 'overloaded' : undefined
}

/** Everybody who is known and may not serve, in the order of ranks; for receipts. */
export function listExclusions(workers: WorkerTable, eligibility: Eligibility): Exclusion[] {
  const exclusions: Exclusion[] = []
  for (const rank of workers.served) {
    const pair = workers.ranks.pairOf(rank)
    const reason = exclusionOf(workers, eligibility, pair)
    if (reason) exclusions.push({ ...pair, reason })
  }
  return exclusions
}

/** Throws `WR_PINNED_WORKER_NOT_ALLOWED` where the pin contradicts the allow list; queueing asks this first. */
export function validatePin(eligibility: Eligibility): void {
  const { pin, allowedWorkerIds } = eligibility
  if (!pin || !allowedWorkerIds || allowedWorkerIds.has(pin.workerId)) return
  const reason = `pinned worker ${pin.workerId} is not in allowed worker set`
  throw new WarmrouteError('WR_PINNED_WORKER_NOT_ALLOWED', { reason, workerId: pin.workerId, dpRank: pin.dpRank })
}

/** The rank of the pin. Throws where it may not serve: a pin is never rerouted. */
export function pinnedRank(workers: WorkerTable, eligibility: Eligibility, pin: WorkerRank): Rank {
  validatePin(eligibility)
  const reason = exclusionOf(workers, eligibility, pin)
  if (reason === 'overloaded') throw new WarmrouteError('WR_PINNED_WORKER_OVERLOADED', { ...pin })
  if (reason) throw new WarmrouteError('WR_NO_ENDPOINTS', { reason: `pinned worker: ${reason}`, ...pin })
  return workers.ranks.find(pin.workerId, pin.dpRank)!
}

/** Nothing is eligible: says why. */
export function refusalOf(workers: WorkerTable, eligibility: Eligibility): WarmrouteError {
  const counts: Partial<Record<ExclusionReason, number>> = {}
  for (const { reason } of listExclusions(workers, eligibility)) counts[reason] = (counts[reason] ?? 0) + 1
  const details = { servedRanks: workers.servedCount, excluded: counts }
  if (counts.overloaded) return new WarmrouteError('WR_ALL_WORKERS_OVERLOADED', details)
  return new WarmrouteError('WR_NO_ENDPOINTS', details)
}

export function carries(workers: WorkerTable, rank: Rank, taints: readonly string[] | undefined): boolean {
  if (!taints || taints.length === 0) return true
  const carried = workers.taintsOf(rank)
  return carried !== undefined && taints.every((taint) => carried.has(taint))
}
