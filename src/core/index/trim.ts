/** Brings an index without caps under its caps, deepest blocks first: what a restored snapshot may need. */
import { newHashColumn } from '../protocol/index.js'
import { ApplyReport } from './apply-report.js'
import { EventBatch } from './event-batch.js'
import type { PrefixIndex } from './prefix-index.js'
import type { ShardOptions } from './shard.js'

export function trimToCaps(index: PrefixIndex, rankCount: number, options: Partial<ShardOptions>): void {
  const { maxBlocksPerRank = Number.POSITIVE_INFINITY } = options
  const maxBlocks = options.isShard ? Number.POSITIVE_INFINITY : (options.maxBlocks ?? Number.POSITIVE_INFINITY)
  const held = index.stats().heldBlocks
  const share = held > maxBlocks ? maxBlocks / held : 1
  const batch = new EventBatch()
  for (let rank = 0; rank < rankCount; rank++) {
    const own = index.blocksOf(rank)
    const keep = Math.min(maxBlocksPerRank, Math.floor(own * share))
    if (own <= keep) continue
    // Parents come before children, so dropping the end of the list leaves no hole.
    const names = newHashColumn(own)
    let count = 0
    for (const fact of index.facts(rank)) {
      names[2 * count] = fact.externalLo
      names[2 * count + 1] = fact.externalHi
      count++
    }
    if (count < own) {
      // Some lie behind holes: they are of no use now, and the rank is rebuilt from what is.
      index.clearRank(rank)
      continue
    }
    batch.removed(rank, names.subarray(2 * keep), own - keep)
  }
  index.apply(batch, new ApplyReport())
}
