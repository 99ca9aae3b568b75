/** What an index must answer beyond its contract to be one of several that share a clock and a cap. */
import { WarmrouteError } from '../protocol/index.js'
import type { IndexOptions, PrefixIndex } from './prefix-index.js'

export interface Shard extends PrefixIndex {
  /** One more than the highest rank that was ever used. */
  readonly rankCount: number
  /** What is stored from now on is younger than what was stored before. Epochs only grow. */
  openEpoch(epoch: number): void
  /** The epoch of the oldest knowledge; infinity when there is none. */
  oldestEpoch(): number
  /** Forgets the oldest epoch of one rank. */
  evictOldest(): void
}

/** `isShard`: somebody else opens the epochs and holds all shards together to `maxBlocks`. */
export interface ShardOptions extends IndexOptions {
  readonly isShard?: boolean
}

/** Knowledge of one epoch is forgotten together; a cap is this many epochs. */
const epochsPerCap = 64

export function epochSizeOf({ maxBlocks, maxBlocksPerRank }: Partial<IndexOptions>): number {
  const cap = Math.min(maxBlocks ?? Number.POSITIVE_INFINITY, maxBlocksPerRank ?? Number.POSITIVE_INFINITY)
  return Math.max(1, Math.floor(cap / epochsPerCap))
}

/** Throws `WR_INVALID_ARGUMENT` for a cap that no block fits under. */
export function checkCaps({ maxBlocks = 1, maxBlocksPerRank = 1 }: Partial<IndexOptions>): void {
  for (const cap of [maxBlocks, maxBlocksPerRank]) {
    if (Number.isInteger(cap) && cap >= 1 && cap < 0xffff_ffff) continue
    throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: 'a cap is a whole number of blocks, at least 1', cap })
  }
}
