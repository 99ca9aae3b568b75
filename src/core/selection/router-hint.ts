/**
 * Where the chosen rank could fetch a longer prefix from: the rank with the longest device prefix beyond its own.
 * Follows the router hint of lib/kv-router at 1.5.0-dev; sending it to an engine is the business of `engines/`.
 */
import type { MatchColumns, Rank, WorkerTable } from '../protocol/index.js'

/** What a worker says about giving blocks to others. */
export interface HintPeer {
  /** Only workers of one type understand each other. */
  readonly workerType: string
  /** Absent: the worker can take hints, and give nothing. */
  readonly controlEndpoint?: string | undefined
}

export interface HintSource {
  readonly rank: Rank
  readonly controlEndpoint: string
  /** Leading blocks that the source holds on its device. */
  readonly blocks: number
}

/**
 * The best source for `target`, or undefined. Ties go to the lower rank id. Other ranks of the target's own worker may be
 * sources. A prefix longer than the prompt means that index and prompt do not speak of the same thing: no hint then.
 */
export function bestHintSource(
  workers: WorkerTable,
  match: MatchColumns,
  target: Rank,
  promptBlocks: number,
  peerOf: (rank: Rank) => HintPeer | undefined,
): HintSource | undefined {
  const targetType = peerOf(target)?.workerType
  if (targetType === undefined) return undefined
  let best: HintSource | undefined
  let blocks = target < match.rankCount ? match.device[target]! : 0
  for (const rank of workers.served) {
    const depth = rank < match.rankCount ? match.device[rank]! : 0
    if (rank === target || depth <= blocks) continue
    const peer = peerOf(rank)
    if (peer?.controlEndpoint === undefined || peer.workerType !== targetType) continue
    blocks = depth
    best = { rank, controlEndpoint: peer.controlEndpoint, blocks }
  }
  return best && best.blocks <= promptBlocks ? best : undefined
}
