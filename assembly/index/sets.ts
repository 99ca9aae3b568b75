/**
 * Which ranks hold a block: interned sets. 0 is the empty set, SINGLE | rank a set of one; both need no memory. Any
 * other id is an entry's address / 16. An entry counts the nodes that use it and goes with the last one.
 *
 *   entry  [ hash 8 | refs 4 | count 4 | words 4 | class 4 | bitmap 8 * words ]
 */
import { alloc, allocZeroed, classOf, release } from './memory'
import { deadBits, oldestDead } from './seats'

export const SINGLE: u32 = 0x80000000
const NO_SET: u32 = 0xffffffff

let table: usize = 0
let tableClass: u32 = 0
let mask: u32 = 0
let live: u32 = 0

// The last transition of the event being applied: runs of blocks mostly share one set.
let memoFrom: u32 = NO_SET
let memoTo: u32 = 0

export function liveSets(): u32 {
  return live
}

/** Blocks that two or more ranks hold, and how many such holds that are: one look at every set. */
export function sharedNodes(): f64 {
  let sum: u64 = 0
  for (let slot: u32 = 0; slot < slots(); slot++) {
    const id = load<u32>(table + (slot << 2))
    if (id && liveSizeOf(id) > 1) sum += load<u32>(entryOf(id), 8)
  }
  return <f64>sum
}
export function sharedHolds(): f64 {
  let sum: u64 = 0
  for (let slot: u32 = 0; slot < slots(); slot++) {
    const id = load<u32>(table + (slot << 2))
    const ranks = id ? liveSizeOf(id) : 0
    if (ranks > 1) sum += <u64>load<u32>(entryOf(id), 8) * ranks
  }
  return <f64>sum
}
function slots(): u32 {
  return table ? mask + 1 : 0
}

export function forgetMemo(): void {
  memoFrom = NO_SET
}

@inline function entryOf(set: u32): usize {
  return <usize>set << 4
}

export function hasRank(set: u32, rank: u32): bool {
  if (set & SINGLE) return (set & ~SINGLE) == rank
  if (!set) return false
  return ((wordOf(set, rank >> 6) >> (rank & 63)) & 1) != 0
}

export function wordsOf(set: u32): u32 {
  if (set & SINGLE) return ((set & ~SINGLE) >> 6) + 1
  return set ? load<u32>(entryOf(set), 16) : 0
}

export function wordOf(set: u32, word: u32): u64 {
  if (set & SINGLE) {
    const rank = set & ~SINGLE
    return rank >> 6 == word ? (<u64>1) << (rank & 63) : 0
  }
  if (!set || word >= load<u32>(entryOf(set), 16)) return 0
  return load<u64>(entryOf(set) + (word << 3), 24)
}

export function sizeOf(set: u32): u32 {
  if (set & SINGLE) return 1
  return set ? load<u32>(entryOf(set), 12) : 0
}

/** The same without dead seats. */
export function liveSizeOf(set: u32): u32 {
  if (!oldestDead()) return sizeOf(set)
  let count: u32 = 0
  const words = wordsOf(set)
  for (let word: u32 = 0; word < words; word++) count += <u32>popcnt(wordOf(set, word) & ~deadBits(word))
  return count
}

/** `set` with `rank`; 0 when there is no memory for it. */
export function withRank(set: u32, rank: u32): u32 {
  if (set == memoFrom) return memoTo
  let to: u32
  if (!set) to = SINGLE | rank
  else if (hasRank(set, rank)) return set
  else to = internFlip(set, rank, sizeOf(set) + 1)
  if (!to) return 0
  memoFrom = set
  memoTo = to
  return to
}

/** `set` without `rank`, which it has; NO_MEMORY when there is none for it. */
export const NO_MEMORY: u32 = 0xffffffff
export function withoutRank(set: u32, rank: u32): u32 {
  if (set == memoFrom) return memoTo
  let to: u32
  if (set & SINGLE) to = 0
  else {
    const count = load<u32>(entryOf(set), 12)
    if (count == 2) to = SINGLE | otherOf(set, rank)
    else {
      to = internFlip(set, rank, count - 1)
      if (!to) return NO_MEMORY
    }
  }
  memoFrom = set
  memoTo = to
  return to
}

@inline export function retain(set: u32): void {
  if (set && !(set & SINGLE)) store<u32>(entryOf(set), load<u32>(entryOf(set), 8) + 1, 8)
}

export function retainMany(set: u32, count: u32): void {
  if (set && !(set & SINGLE)) store<u32>(entryOf(set), load<u32>(entryOf(set), 8) + count, 8)
}

@inline export function releaseSet(set: u32): void {
  if (set && !(set & SINGLE)) {
    const refs = load<u32>(entryOf(set), 8) - 1
    store<u32>(entryOf(set), refs, 8)
    if (!refs) drop(set)
  }
}

/** The set with these bits; for restoring. 0 when there is no memory, or no bit. */
export function internBits(bits: usize, words: u32): u32 {
  let hash: u64 = 0
  let count: u32 = 0
  let last: u32 = 0
  for (let word: u32 = 0; word < words; word++) {
    for (let rest = load<u64>(bits + (word << 3)); rest; rest &= rest - 1) {
      last = (word << 6) + <u32>ctz(rest)
      hash ^= zobrist(last)
      count++
    }
  }
  if (!count) return 0
  if (count == 1) return SINGLE | last
  if (!ensureTable()) return 0
  for (let slot = <u32>hash & mask; true; slot = (slot + 1) & mask) {
    const id = load<u32>(table + (slot << 2))
    if (!id) break
    if (load<u64>(entryOf(id)) != hash || load<u32>(entryOf(id), 12) != count) continue
    let same = true
    const width = max(words, wordsOf(id))
    for (let word: u32 = 0; word < width && same; word++) {
      same = wordOf(id, word) == (word < words ? load<u64>(bits + (word << 3)) : 0)
    }
    if (same) return id
  }
  const entry = newEntry(hash, count, words)
  if (!entry) return 0
  memory.copy(entry + 24, bits, words << 3)
  return add(entry, hash)
}

@inline function zobrist(rank: u32): u64 {
  let x = (<u64>rank + 1) * 0x9e3779b97f4a7c15
  x ^= x >> 29
  x *= 0xbf58476d1ce4e5b9
  x ^= x >> 32
  return x * 0x94d049bb133111eb
}

function otherOf(set: u32, rank: u32): u32 {
  const words = wordsOf(set)
  for (let word: u32 = 0; word < words; word++) {
    let bits = wordOf(set, word)
    if (word == rank >> 6) bits &= ~((<u64>1) << (rank & 63))
    if (bits) return (word << 6) + <u32>ctz(bits)
  }
  return 0
}

/** `set` with the bit of `rank` turned over. Hashes may collide, so every candidate's bits are compared. */
function internFlip(set: u32, rank: u32, count: u32): u32 {
  if (!ensureTable()) return 0
  const hash = (set & SINGLE ? zobrist(set & ~SINGLE) : load<u64>(entryOf(set))) ^ zobrist(rank)
  const flipWord = rank >> 6
  const flipBit = (<u64>1) << (rank & 63)
  const words = max(wordsOf(set), flipWord + 1)
  for (let slot = <u32>hash & mask; true; slot = (slot + 1) & mask) {
    const id = load<u32>(table + (slot << 2))
    if (!id) break
    if (load<u64>(entryOf(id)) != hash || load<u32>(entryOf(id), 12) != count) continue
    let same = true
    const width = max(words, wordsOf(id))
    for (let word: u32 = 0; word < width && same; word++) {
      same = wordOf(id, word) == (wordOf(set, word) ^ (word == flipWord ? flipBit : 0))
    }
    if (same) return id
  }
  const entry = newEntry(hash, count, words)
  if (!entry) return 0
  for (let word: u32 = 0; word < words; word++) {
    store<u64>(entry + (word << 3), wordOf(set, word) ^ (word == flipWord ? flipBit : 0), 24)
  }
  return add(entry, hash)
}

function newEntry(hash: u64, count: u32, words: u32): usize {
  const k = classOf(24 + (words << 3))
  const entry = alloc(k)
  if (!entry) return 0
  store<u64>(entry, hash)
  store<u32>(entry, 0, 8)
  store<u32>(entry, count, 12)
  store<u32>(entry, words, 16)
  store<u32>(entry, k, 20)
  return entry
}

function add(entry: usize, hash: u64): u32 {
  const id = <u32>(entry >> 4)
  put(id, <u32>hash)
  live++
  return id
}

function put(id: u32, hash: u32): void {
  let slot = hash & mask
  while (load<u32>(table + (slot << 2))) slot = (slot + 1) & mask
  store<u32>(table + (slot << 2), id)
}

function ensureTable(): bool {
  if (table && live * 2 < mask) return true
  const k = table ? tableClass + 1 : 8
  const wider = allocZeroed(k)
  if (!wider) return table != 0 && live < mask
  const old = table
  const oldClass = tableClass
  const oldMask = mask
  table = wider
  tableClass = k
  mask = (1 << (k - 2)) - 1
  if (old) {
    for (let slot: u32 = 0; slot <= oldMask; slot++) {
      const id = load<u32>(old + (slot << 2))
      if (id) put(id, <u32>load<u64>(entryOf(id)))
    }
    release(old, oldClass)
  }
  return true
}

function drop(set: u32): void {
  if (set == memoFrom || set == memoTo) memoFrom = NO_SET // ids are reused
  let slot = <u32>load<u64>(entryOf(set)) & mask
  while (load<u32>(table + (slot << 2)) != set) slot = (slot + 1) & mask
  // Close the gap: move back every later entry of the cluster that may lie here.
  for (let next = (slot + 1) & mask; true; next = (next + 1) & mask) {
    const id = load<u32>(table + (next << 2))
    if (!id) break
    const home = <u32>load<u64>(entryOf(id)) & mask
    if (((next - home) & mask) >= ((next - slot) & mask)) {
      store<u32>(table + (slot << 2), id)
      slot = next
    }
  }
  store<u32>(table + (slot << 2), 0)
  live--
  release(entryOf(set), load<u32>(entryOf(set), 20))
}
