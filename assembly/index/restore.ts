/** Puts the holders of restored runs back. */
import { insert, lookup, prepare } from './buckets'
import { capOf, changeSet, externalAt, externalOf, setAt } from './chunks'
import { countHeld, dropLost } from './holds'
import { heldOf, recordOf, setOldest } from './ranks'
import { wordOf, wordsOf } from './sets'
import { HASHES, HOMES, touchHomes } from './touch'

/** False when memory ran out, or when a rank would use one name twice: such a snapshot is not one of ours. */
export function restoreHolds(run: u32, from: u32, to: u32, set: u32, age: u32): bool {
  const cap = capOf(run)
  for (let index = from; index < to; index++) changeSet(run, cap, index, load<u32>(setAt(run, cap, index)), set)
  const words = wordsOf(set)
  for (let word: u32 = 0; word < words; word++) {
    for (let bits = wordOf(set, word); bits; bits &= bits - 1) {
      const rank = (word << 6) + <u32>ctz(bits)
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
    }
  }
  return true
}
