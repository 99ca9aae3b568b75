/** Puts the holders of restored runs back. */
import { insert, lookup, prepare } from './buckets'
import { capOf, externalAt, externalOf, lenOf, setAt } from './chunks'
import { countHeld, dropLost } from './holds'
import { heldOf, recordOf, setOldest } from './ranks'
import { retainMany } from './sets'
import { HASHES, HOMES, touchHomes } from './touch'

/** Lets `set` hold blocks [from, to) of a run. Nobody held them, and none that follow them. */
export function restoreSets(run: u32, from: u32, to: u32, set: u32): void {
  const cap = capOf(run)
  for (let index = from; index < to; index++) store<u32>(setAt(run, cap, index), set)
  retainMany(set, to - from)
  let breaks = load<u64>(run, 16)
  if (from) {
    const bit = (<u64>1) << from
    breaks = load<u32>(setAt(run, cap, from - 1)) != set ? breaks | bit : breaks & ~bit
  }
  if (to < lenOf(run)) breaks |= (<u64>1) << to
  store<u64>(run, breaks, 16)
}

/**
 * Names blocks [from, to) of a run by their own hashes, for a rank that is in their sets. False when memory ran out, or when the
 * rank would use one name twice: such a snapshot is not one of ours.
 */
export function restoreNames(rank: u32, run: u32, from: u32, to: u32, age: u32): bool {
  const record = recordOf(rank)
  if (!prepare(record, to - from) || dropLost(rank)) return false
  if (!heldOf(record)) setOldest(record, age)
  touchHomes(record, externalAt(run + from), to - from)
  for (let index = from; index < to; index++) {
    const external = externalOf(run + index)
    const hash = load<u64>(HASHES + ((index - from) << 3))
    const home = <usize>load<u32>(HOMES + ((index - from) << 2))
    if (lookup(record, external, hash, home)) return false
    if (!insert(record, external, hash, home, run + index, age)) return false
    countHeld(1)
  }
  return true
}
