/** What an index must answer beyond its contract to be one of several that share a clock and a cap. */
import { type HashColumn, WarmrouteError } from '../protocol/index.js'
import type { HotPrefix, IndexOptions, PrefixIndex } from './prefix-index.js'

export interface Shard extends PrefixIndex {
  /** One more than the highest rank that was ever used. */
  readonly rankCount: number
  /** What is stored from now on is younger than what was stored before. Epochs only grow. */
  openEpoch(epoch: number): void
  /** The epoch of the oldest knowledge; infinity when there is none. */
  oldestEpoch(): number
  /** Forgets the oldest epoch of one rank. */
  evictOldest(): void
  /** All runs, if the paths to them have at most `hashesMax` hashes together. */
  allRuns(hashesMax: number): readonly KnownRun[] | undefined
  /** Draws by chance; a draw may hit nothing. */
  sampler(random: Random): ShardSampler
  /**
   * Writes how many ranks hold each block of the path from block `from` on, whether or not they hold what leads there.
   * Answers how many leading blocks of the path it knows.
   */
  holdersAlong(path: HashColumn, from: number, holders: Uint32Array): number
  /** The hottest prefixes with the local hashes that lead to them. */
  hotPaths(): readonly HotPath[]
}

/** A whole number from 0 up to, and not including, `below`. */
export type Random = (below: number) => number

/** Blocks that follow each other, as a shard keeps them. No block is in two runs. */
export interface KnownRun {
  /** The last blocks of the path. */
  readonly blocks: number
  /** Local hashes from the first block to the last of the run. */
  readonly path: HashColumn
  /** How much less likely than others it is drawn. */
  readonly weight: number
}

export interface ShardSampler {
  readonly run: () => KnownRun | undefined
  /** The path to a block, drawn as often as ranks hold it. */
  readonly heldPath: () => HashColumn | undefined
}

export interface HotPath {
  readonly prefix: HotPrefix
  readonly path: HashColumn
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
