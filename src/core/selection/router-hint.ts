/**
 * Where the chosen rank could fetch a longer prefix from: the rank with the longest prefix beyond its own, and what that
 * rank's engine calls its blocks. Follows the router hint of lib/kv-router at 1.5.0-dev; sending it to an engine is the
 * business of `engines/`.
 */
import type { HashColumn, Rank, WorkerTable } from '../protocol/index.js'
import { hashCount, toBigInts } from '../protocol/index.js'

/** What a worker says about giving blocks to others. */
export interface HintPeer {
  /** Only workers of one type understand each other. */
  readonly workerType: string
  /** Absent: the worker can take hints, and give nothing. */
  readonly controlEndpoint?: string | undefined
}

export interface HintTarget {
  readonly rank: Rank
  /** Leading blocks that the target needs nobody for. */
  readonly blocks: number
  readonly promptBlocks: number
}

export interface HintSource {
  readonly rank: Rank
  readonly controlEndpoint: string
  /** Leading blocks that the source can give. */
  readonly blocks: number
}

/** As it goes to an engine; the target decides which of the blocks it fetches. */
export interface RouterHint {
  readonly sourceControlEndpoint: string
  /** The source's own hashes, one per block of the prompt from the first on. */
  readonly blockHashes: readonly bigint[]
}

/**
 * The best source for `target`, or undefined. Ties go to the lower rank id. Other ranks of the target's own worker may be
 * sources. A prefix longer than the prompt means that index and prompt do not speak of the same thing: no hint then.
 * `blocksOf` says what a rank holds under names that others could ask it by: predictions do not count.
 */
export function bestHintSource(
  workers: WorkerTable,
  target: HintTarget,
  blocksOf: (rank: Rank) => number,
  peerOf: (rank: Rank) => HintPeer | undefined,
): HintSource | undefined {
  const targetType = peerOf(target.rank)?.workerType
  if (targetType === undefined) return undefined
  let best: HintSource | undefined
  let { blocks } = target
  for (const rank of workers.served) {
    const held = blocksOf(rank)
    if (rank === target.rank || held <= blocks) continue
    const peer = peerOf(rank)
    if (peer?.controlEndpoint === undefined || peer.workerType !== targetType) continue
    blocks = held
    best = { rank, controlEndpoint: peer.controlEndpoint, blocks }
  }
  return best && best.blocks <= target.promptBlocks ? best : undefined
}

/** The hint itself. A chain that is shorter than the prefix it stands for is no hint: the two were not asked together. */
export function routerHint(source: HintSource, chain: HashColumn): RouterHint | undefined {
  if (source.blocks === 0 || hashCount(chain) < source.blocks) return undefined
  return {
    sourceControlEndpoint: source.controlEndpoint,
    blockHashes: toBigInts(chain.subarray(0, 2 * source.blocks)),
  }
}
