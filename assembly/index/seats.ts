/**
 * Ranks are the caller's numbers. In here each has a seat: the number of its record, and its bit in the sets of holders. As a
 * rule they are the same. A rank that is cleared while it holds much leaves its seat and takes another one with its next block;
 * what lies at the old seat counts for nobody from then on, and is taken away in steps.
 *
 *   record, from byte 60   [ the rank's seat + 1 | the seat's rank + 1 | next dead seat + 1 | alias slot | bucket ]
 */
import { RANK_BYTES, RANKS, RANKS_MAX } from './memory'

/** A bit for every dead seat: lookups leave them out. */
const DEAD: usize = memory.data(65536 / 8)

let known: u32 = 0
let moved: u32 = 0
let firstDead: u32 = 0
let lastDead: u32 = 0

@inline function recordAt(number: u32): usize {
  return RANKS + number * RANK_BYTES
}

/** How many ranks were ever named, as the highest says. */
export function ranksKnown(): u32 {
  return known
}
/** Does any rank sit elsewhere than at its own number? */
@inline export function areMoved(): bool {
  return moved != 0
}
@inline export function deadBits(word: u32): u64 {
  return load<u64>(DEAD + (word << 3))
}
export function isDead(seat: u32): bool {
  return firstDead != 0 && ((deadBits(seat >> 6) >> (seat & 63)) & 1) != 0
}
/** The seat that died first, + 1; 0 when there is none. */
@inline export function oldestDead(): u32 {
  return firstDead
}
@inline export function nextDead(seat: u32): u32 {
  return load<u32>(recordAt(seat), 68)
}
@inline export function rankAt(seat: u32): u32 {
  return load<u32>(recordAt(seat), 64) - 1
}

@inline export function seatOf(rank: u32): u32 {
  const seat = load<u32>(recordAt(rank), 60)
  return seat ? seat - 1 : takeSeat(rank)
}

function isTaken(seat: u32): bool {
  return load<u32>(recordAt(seat), 64) != 0 || isDead(seat)
}

/** Its own number where that is free. */
function takeSeat(rank: u32): u32 {
  known = max(known, rank + 1)
  let seat = rank
  if (isTaken(seat)) {
    seat = 0
    while (isTaken(seat)) seat++
    moved++
  }
  store<u32>(recordAt(rank), seat + 1, 60)
  store<u32>(recordAt(seat), rank + 1, 64)
  return seat
}

/** What lies at the rank's seat is nobody's from now on. False, and nothing happens, where seats could run short. */
export function leaveSeat(rank: u32): bool {
  const seat = seatOf(rank)
  if (!haveSpareSeats()) return false
  if (seat != rank) moved--
  store<u32>(recordAt(rank), 0, 60)
  const record = recordAt(seat)
  store<u32>(record, 0, 64)
  store<u32>(record, 0, 68)
  store<u32>(record, 0, 72)
  store<u32>(record, 0, 76)
  const word = DEAD + ((seat >> 6) << 3)
  store<u64>(word, load<u64>(word) | ((<u64>1) << (seat & 63)))
  if (firstDead) store<u32>(recordAt(lastDead - 1), seat + 1, 68)
  else firstDead = seat + 1
  lastDead = seat + 1
  return true
}

/** Half of the seats for ranks, the other half for what they left. */
function haveSpareSeats(): bool {
  let dead: u32 = 0
  for (let at = firstDead; at; at = nextDead(at - 1)) dead++
  return dead < (RANKS_MAX >> 1) && known < (RANKS_MAX >> 1)
}

/** The seat that died first is empty: anybody may take it. */
export function freeOldestDead(): void {
  const seat = firstDead - 1
  const word = DEAD + ((seat >> 6) << 3)
  firstDead = nextDead(seat)
  store<u64>(word, load<u64>(word) & ~((<u64>1) << (seat & 63)))
}
