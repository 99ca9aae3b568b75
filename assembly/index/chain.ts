/** What one rank calls the blocks of a prompt, from the first on, as far as it holds them. */
import { childOf, setOf } from './chunks'
import { nameOf } from './holds'
import { ranksUsed, recordOf } from './ranks'
import { hasRank } from './sets'

let node: u32 = 0

/**
 * Replaces the next `count` local hashes of a prompt by the rank's names of those blocks, in place; `isFirst`: the prompt
 * begins here. Answers how many were replaced: fewer than asked for where the rank's prefix ends.
 */
export function nameBlocks(rank: u32, isFirst: bool, hashes: usize, count: u32): u32 {
  if (rank >= ranksUsed()) return 0
  if (isFirst) node = 0
  const record = recordOf(rank)
  for (let i: u32 = 0; i < count; i++) {
    const at = hashes + (i << 3)
    const child = childOf(node, load<u64>(at))
    if (!child || !hasRank(setOf(child), rank)) return i
    node = child
    store<u64>(at, nameOf(record, child))
  }
  return count
}
