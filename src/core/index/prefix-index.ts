/**
 * What an exact prefix index answers: how many leading blocks of a prompt does each rank hold?
 *
 * The contract follows lib/kv-router/src/indexer/radix_tree.rs at 1.5.0 with plain set semantics: the index knows, per
 * rank, the set of blocks it holds, each a path of local hashes below the root and reached by the external hash that
 * the rank gave it. A remove takes away that block and no other. Hence holes are exact: after removing block 3 of 5 the
 * depth is 2, and storing block 3 again makes it 5 (docs/decisions/0015).
 */
import type { HashColumn, Rank } from '../protocol/index.js'
import type { ApplyReport } from './apply-report.js'
import type { EventBatch } from './event-batch.js'

export interface PrefixIndex {
  /**
   * Applies the events in order. Each has a status; one that fails changes nothing, except that a remove takes away
   * what it can and reports `block_not_found` if a hash was unknown, and that a store for which memory runs out keeps the
   * blocks before that point and reports `capacity_exhausted`.
   */
  apply(batch: EventBatch, report: ApplyReport): void

  /**
   * Writes `depths[rank]` for every rank that holds block 0, and leaves the other entries alone: the caller clears
   * them. With `lastExternal`, also writes the external hash under which the rank holds the last block it is credited
   * for. `local` holds at least `blockCount` hashes. Answers the greatest depth. Never changes what is held.
   */
  find(local: HashColumn, blockCount: number, depths: Uint32Array, lastExternal?: HashColumn): number

  /**
   * Room for a prompt's hashes, in the index's own memory where it can be: a lookup of what was written there copies
   * nothing. There is one such place, so one writer at a time; the column is empty (length 0) once the index has grown.
   */
  promptColumn(blockCount: number): HashColumn

  /**
   * Writes into `names` what the rank calls the leading blocks of a prompt, one external hash for each; answers how many,
   * which is the depth that `find` gives. `names` has room for `blockCount` hashes.
   */
  chain(rank: Rank, local: HashColumn, blockCount: number, names: HashColumn): number

  /** Does the rank hold a block under this external hash (a column of one hash)? */
  holds(rank: Rank, external: HashColumn): boolean

  /** Forgets all that one rank holds; answers how many external hashes that were. Unknown ranks hold nothing. */
  clearRank(rank: Rank): number

  /**
   * Takes away about `blocksMax` of what cleared ranks have left behind (see `clearBlocksMax`); answers how many blocks are left.
   * Changes nothing that a lookup finds.
   */
  drain(blocksMax: number): number

  /**
   * Every block that the rank holds contiguously from the root, each after its parent. Blocks behind a hole are left
   * out: they cannot be replayed. The index must not change while this is iterated; `fact` is reused between steps.
   */
  facts(rank: Rank): Iterable<Readonly<BlockFact>>

  /**
   * What the rank's names stand for, a fact of `factWords` words for each: see `factKinds`. The index may change between two
   * calls, so that a large rank can be read in parts. `names` and `facts` are the caller's.
   */
  describe(rank: Rank, names: HashColumn, count: number, facts: Uint32Array): void

  /** External hashes that the rank holds. */
  blocksOf(rank: Rank): number

  stats(): IndexStats

  /** How much ranks share: one look at every set of ranks that hold something together; in several shards as `distinctBlocks`. */
  sharing(): Sharing

  /** The prefixes that lookups passed most often, at most 16; cheap at any size. */
  hottest(): readonly HotPrefix[]

  /** All knowledge as one file image: versioned, checksummed, independent of the implementation that wrote it. */
  snapshot(): Uint8Array

  /**
   * Replaces all knowledge by a snapshot's. Throws `WR_SNAPSHOT_INVALID` and changes nothing if the bytes are
   * truncated, damaged, of another version or no snapshot at all.
   */
  restore(snapshot: Uint8Array): void
}

/** [ kind, 0, parent's name 2, local hash 2, name 2 ]; with kind `absent` the rest means nothing. */
export const factWords = 8

/** `absent`: the rank has no such name, or does not hold the block's parent. */
export const factKinds = { absent: 0, atRoot: 1, below: 2 } as const

/** One rank holds one block: what a dump is made of. */
export interface BlockFact {
  /** False: the block lies at the root, and the parent words mean nothing. */
  hasParent: boolean
  /** The parent's external hash in this rank's naming. */
  parentLo: number
  parentHi: number
  localLo: number
  localHi: number
  externalLo: number
  externalHi: number
}

export interface IndexStats {
  /** External hashes over all ranks: what `maxBlocks` limits. */
  readonly heldBlocks: number
  /**
   * Blocks that somebody holds or that lead to one, each once, and those that are still to be drained. In several shards it is counted
   * up to 131,072 hashes on the ways to them, and estimated from as many beyond that (decision 0123).
   */
  readonly distinctBlocks: number
  /** Different sets of two or more ranks that hold some block together, in each shard. */
  readonly holderSets: number
  /** Names for a block that another rank named first, in each shard. */
  readonly aliases: number
  /** External hashes forgotten because of a cap. */
  readonly evictedBlocks: number
  /** Memory in use, slack of the tables included. */
  readonly bytesUsed: number
}

export interface Sharing {
  /** Distinct blocks that two or more ranks hold. */
  readonly sharedBlocks: number
  /** Ranks that hold such a block, on average; 0 when nothing is shared. */
  readonly ranksPerSharedBlock: number
}

export interface HotPrefix {
  /** Lookups that reached the run of blocks which ends this prefix; some of them may have stopped inside the run. */
  readonly finds: number
  /** In blocks. */
  readonly depth: number
  /** Ranks that hold its last block. */
  readonly ranks: number
  /** Local hash of its last block. */
  readonly localLo: number
  readonly localHi: number
}

/** Limits and inputs of an index. The seed keeps bucket positions unpredictable to those who choose hashes. */
export interface IndexOptions {
  readonly seedLo: number
  readonly seedHi: number
  /** External hashes over all ranks; the oldest knowledge goes first. Default: no limit but memory. */
  readonly maxBlocks?: number
  /** The same for each rank. */
  readonly maxBlocksPerRank?: number
  /**
   * A rank with more blocks is cleared in steps: nobody is credited for them any more, and `drain` takes them away. Default: every
   * clear is done at once. An index without WebAssembly knows no steps.
   */
  readonly clearBlocksMax?: number
}
