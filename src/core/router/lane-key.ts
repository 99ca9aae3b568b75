/** Which requests may go to the same ranks: one text per set of limits. Pins are told apart, because a rank wakes its own. */
import type { WorkerRank } from '../protocol/index.js'
import type { SchedulingRequest } from './scheduling-request.js'

/** The lane of requests that may go anywhere. */
export const sharedLane = ''

export function pinnedLane({ workerId, dpRank }: WorkerRank): string {
  return `pin ${workerId}/${dpRank}`
}

export function isPinnedLane(lane: string): boolean {
  return lane.startsWith('pin ')
}

export function laneOf(request: SchedulingRequest): string {
  if (request.pin) return pinnedLane(request.pin)
  const { allowedWorkerIds, excludedWorkerIds, constraints } = request
  const taints = constraints?.requiredTaints
  if (!allowedWorkerIds && !excludedWorkerIds?.size && !taints?.length) return sharedLane
  // Taints may contain any character: each is quoted, so that two lists never read alike.
  return `only ${idsOf(allowedWorkerIds)} not ${idsOf(excludedWorkerIds)} with ${JSON.stringify([...(taints ?? [])].sort())}`
}

function idsOf(ids: ReadonlySet<bigint> | undefined): string {
  return ids ? [...ids].sort((a, b) => (a < b ? -1 : 1)).join(',') : '*'
}
