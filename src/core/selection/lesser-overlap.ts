/** Whether a choice gave up cache for something else: load, a preference, chance. Follows 1.5.0-dev. */
import type { Rank, WorkerRank, WorkerTable } from '../protocol/index.js'
import { effectiveBlocksOf } from './cache-hits.js'
import type { Candidates } from './candidates.js'
import type { SelectionRequest } from './worker-selector.js'

export interface LesserOverlap {
  readonly selectedWorker: WorkerRank
  readonly selectedOverlapBlocks: number
  /** Somebody else who was eligible and holds more. */
  readonly highestOverlapWorker: WorkerRank
  readonly highestOverlapBlocks: number
}

/** Undefined where nobody eligible holds more than the chosen rank: a tie gives up nothing, and a pin chose nothing. */
export function lesserOverlap(
  workers: WorkerTable,
  request: SelectionRequest,
  chosen: Rank,
  scratch: Candidates,
): LesserOverlap | undefined {
  if (request.pin) return undefined
  scratch.gather(workers, request)
  const { cache, settings } = request
  const selectedOverlapBlocks = effectiveBlocksOf(cache, chosen, settings)
  let best = chosen
  let highestOverlapBlocks = selectedOverlapBlocks
  for (let row = 0; row < scratch.count; row++) {
    const rank = scratch.ranks[row]!
    const blocks = effectiveBlocksOf(cache, rank, settings)
    if (blocks <= highestOverlapBlocks) continue
    best = rank
    highestOverlapBlocks = blocks
  }
  if (best === chosen) return undefined
  const { ranks } = workers
  return {
    selectedWorker: ranks.pairOf(chosen),
    selectedOverlapBlocks,
    highestOverlapWorker: ranks.pairOf(best),
    highestOverlapBlocks,
  }
}
