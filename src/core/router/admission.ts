/** Whether a request may be placed now: what the ranks it may go to have cached of it, and whether all of them are busy. */
import type { MatchColumns, WorkerTable } from '../protocol/index.js'
import type { PolicyClass } from '../queue/index.js'
import { isRankBusy } from '../queue/index.js'
import type { RankFlags, TierWeights } from '../selection/index.js'
import { cachedTokensOf, effectiveBlocksOf, exclusionOf } from '../selection/index.js'
import type { ActiveSequences } from '../sequences/index.js'
import { laneOf, sharedLane } from './lane-key.js'
import type { SchedulingRequest } from './scheduling-request.js'

/** The most that a rank it may go to has cached; the pin's own where there is a pin. */
export function bestCachedTokens(
  workers: WorkerTable,
  request: SchedulingRequest,
  matches: MatchColumns,
  weights: TierWeights,
  blockSize: number,
): number {
  const { ranks, served, servedCount } = workers
  const cache = { match: matches }
  if (request.pin) {
    const rank = ranks.find(request.pin.workerId, request.pin.dpRank)
    return rank === undefined ? 0 : cachedTokensOf(effectiveBlocksOf(cache, rank, weights), blockSize)
  }
  const isOpen = laneOf(request) === sharedLane
  let best = 0
  for (let row = 0; row < servedCount; row++) {
    const rank = served[row]!
    const blocks = effectiveBlocksOf(cache, rank, weights)
    if (blocks > best && (isOpen || exclusionOf(workers, request, ranks.pairOf(rank)) === undefined)) best = blocks
  }
  return cachedTokensOf(best, blockSize)
}

/**
 * Every rank that the request may go to is busy. False where there is no such rank: placing it then says why. Its own size
 * does not matter, so an idle rank takes anything.
 */
export function isEveryRankBusy(
  workers: WorkerTable,
  sequences: ActiveSequences,
  request: SchedulingRequest,
  policy: PolicyClass,
  flags: { readonly available: RankFlags | undefined; readonly overloaded: RankFlags | undefined },
  nowMs: number,
): boolean {
  const { served, servedCount, ranks, maxBatchedTokens } = workers
  if (request.pin) {
    const rank = workers.servedRank(request.pin.workerId, request.pin.dpRank)
    return rank !== undefined && isRankBusy(policy, sequences.activeTokens(rank, nowMs), maxBatchedTokens[rank]!)
  }
  const isLimited = laneOf(request) !== sharedLane
  const { available, overloaded } = flags
  let seen = 0
  for (let row = 0; row < servedCount; row++) {
    const rank = served[row]!
    if (overloaded?.[rank] === 1 || (available && available[rank] !== 1)) continue
    if (isLimited && exclusionOf(workers, request, ranks.pairOf(rank)) !== undefined) continue
    if (!isRankBusy(policy, sequences.activeTokens(rank, nowMs), maxBatchedTokens[rank]!)) return false
    seen++
  }
  return seen > 0
}
