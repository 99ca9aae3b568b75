/** Takes away what lies at dead seats, a few names at a time. Nobody looks it up meanwhile, so its tables just get emptier. */
import { aliasRelease } from './aliases'
import { bucketAt, emptySlot, nextBucketAt, nodeIn, releaseTable, takenIn } from './buckets'
import { countHeld, clearSeat, dropHold, removeName } from './holds'
import { RANK_BYTES, RANKS, allowReserve } from './memory'
import {
  aliasCountOf, byExternalOf, countOf, frontierOf, heldOf, maskOf, nextPageCountOf, pageCountOf, pagesOf, setCount,
} from './ranks'
import { freeOldestDead, leaveSeat, nextDead, oldestDead, seatOf } from './seats'
import { forgetMemo } from './sets'

let namesAtOnce: u32 = 0xffffffff

/** A rank with more names than this is cleared in steps. */
export function setNamesAtOnce(names: u32): void {
  namesAtOnce = names
}

/** Forgets all that a rank holds: here and now, or as far as anybody can see. Answers how many names those were. */
export function clearRank(rank: u32): u32 {
  const seat = seatOf(rank)
  const names = heldOf(recordAt(seat))
  if (names <= namesAtOnce || !leaveSeat(rank)) return clearSeat(seat)
  return names
}

/** Names that nobody has any more, and that are still to be taken away. */
export function deadNames(): u32 {
  let names: u32 = 0
  for (let at = oldestDead(); at; at = nextDead(at - 1)) names += heldOf(recordAt(at - 1))
  return names
}

/** Takes about `budget` names away: a bucket is emptied as a whole. Answers whether there were any. */
export function drain(budget: u32): bool {
  if (!oldestDead() || !budget) return false
  let left = <i64>budget
  while (left > 0 && oldestDead()) {
    const seat = oldestDead() - 1
    const record = recordAt(seat)
    const before = heldOf(record)
    takeSome(seat, record, <u32>left)
    if (before && heldOf(record) == before) unreachable() // its count is wrong: a trap is seen, a loop is not
    left -= before - heldOf(record)
    if (heldOf(record)) continue
    releaseTable(record)
    aliasRelease(record)
    freeOldestDead()
  }
  return true
}

@inline function recordAt(seat: u32): usize {
  return RANKS + seat * RANK_BYTES
}

function takeSome(seat: u32, record: usize, budget: u32): void {
  allowReserve(true)
  forgetMemo()
  // Aliases first and by name: a block may have several, and its own beside them.
  const left = takeAliases(seat, record, budget)
  forgetMemo()
  if (left) takeBuckets(seat, record, left)
  allowReserve(false)
}

/** Answers how many more may go. */
function takeAliases(seat: u32, record: usize, budget: u32): u32 {
  let left = budget
  let slot = load<u32>(record, 72)
  while (left && aliasCountOf(record)) {
    const at = byExternalOf(record) + (slot << 4)
    // A removal may move a later entry here, so the slot is looked at again.
    if (load<u32>(at, 12)) {
      removeName(seat, load<u64>(at))
      left--
    } else slot = (slot + 1) & maskOf(record)
  }
  store<u32>(record, slot, 72)
  return left
}

/** First what had not moved when the table died, then what had. */
function takeBuckets(seat: u32, record: usize, budget: u32): void {
  const frontier = frontierOf(record)
  const unmoved = (pageCountOf(record) << 6) - frontier
  const end = unmoved + (nextPageCountOf(record) << 6)
  let left = <i64>budget
  let bucket = load<u32>(record, 76)
  for (; left > 0 && bucket < end; bucket++) {
    const at = bucket < unmoved ? bucketAt(pagesOf(record), frontier + bucket) : nextBucketAt(record, bucket - unmoved)
    if (!at) continue
    const before = countOf(record)
    for (let taken = takenIn(at); taken; taken &= taken - 1) {
      const slot = <u32>ctz(taken)
      const node = nodeIn(at, slot)
      emptySlot(at, slot)
      setCount(record, countOf(record) - 1)
      countHeld(-1)
      dropHold(seat, node)
    }
    left -= before - countOf(record)
  }
  store<u32>(record, bucket, 76)
}
