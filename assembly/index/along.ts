/** How many ranks hold each block of a path, whether or not they hold what leads there: for counting, not for lookups. */
import { childOf, setOf } from './chunks'
import { liveSizeOf } from './sets'

let node: u32 = 0

/**
 * Replaces the next `count` local hashes of a path by how many ranks hold those blocks, in place; `isFirst`: the path begins
 * here. Answers how many were replaced: fewer than asked for where no such block is known.
 */
export function countHolders(isFirst: bool, hashes: usize, count: u32): u32 {
  if (isFirst) node = 0
  for (let i: u32 = 0; i < count; i++) {
    const at = hashes + (i << 3)
    const child = childOf(node, load<u64>(at))
    if (!child) return i
    node = child
    store<u64>(at, liveSizeOf(setOf(child)))
  }
  return count
}
