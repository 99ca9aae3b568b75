/** The load of every tracked rank as a list, for people and services. Selection reads the columns instead. */
import type { RankTable, WorkerRank } from '../protocol/index.js'
import type { LoadColumns } from './load-columns.js'

export interface PotentialLoad extends WorkerRank {
  /** Prompt tokens booked there, and those that this request would add. */
  readonly potentialPrefillTokens: number
  readonly potentialDecodeBlocks: number
  readonly activeRequests: number
}

export interface PrefillDelta {
  readonly promptTokens: number
  /** False: only what is booked counts. */
  readonly trackPrefillTokens: boolean
  /** Cached tokens of the request by rank; absent or short: nothing is cached there. */
  readonly cachedTokens?: Float64Array | undefined
}

/** In order of worker id, then dp rank. */
export function listPotentialLoads(ranks: RankTable, load: LoadColumns, delta: PrefillDelta): PotentialLoad[] {
  return ranks
    .live()
    .filter((rank) => load.isTracked[rank] === 1)
    .map((rank) => ({
      ...ranks.pairOf(rank),
      potentialPrefillTokens: load.prefillTokens[rank]! + addedTokens(delta, delta.cachedTokens?.[rank] ?? 0),
      potentialDecodeBlocks: load.decodeBlocks[rank]!,
      activeRequests: load.activeRequests[rank]!,
    }))
}

function addedTokens(delta: PrefillDelta, cachedTokens: number): number {
  return delta.trackPrefillTokens ? Math.max(0, delta.promptTokens - cachedTokens) : 0
}
