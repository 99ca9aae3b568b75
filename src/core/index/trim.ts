/** Brings an index without caps under its caps, deepest blocks first: what a restored snapshot may need. */
import { newHashColumn } from '../protocol/index.js'
import { ApplyReport } from './apply-report.js'
import { EventBatch } from './event-batch.js'
import type { IndexOptions, PrefixIndex } from './prefix-index.js'

export function trimToCaps(index: PrefixIndex, rankCount: number, options: IndexOptions): void {
  const { maxBlocks = Number.POSITIVE_INFINITY, maxBlocksPerRank = Number.POSITIVE_INFINITY } = options
  const held = index.stats().heldBlocks
  const share = held > maxBlocks ? maxBlocks / held : 1
  const report = new ApplyReport()
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
    const batch = new EventBatch()
    if (count < own) {
      // Some lie behind holes: they are of no use now, and the rank is rebuilt from what is.
      index.clearRank(rank)
      continue
    }
    batch.removed(rank, names.subarray(2 * keep), own - keep)
    index.apply(batch, report)
  }
}
