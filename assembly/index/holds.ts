/** A rank holds a block under one or more names. The first name puts it into the block's set, the last takes it out. */
import { aliasAdd, aliasOfNode, aliasPrepare, aliasRelease, aliasRemove } from './aliases'
import {
  ageIn, bucketNumber, bucketTotal, find, homeOf, insert, lookup, nodeIn, prepare, releaseTable, removeHit, setAgeIn,
  settle, takenIn, takeLost, usesOwnName,
} from './buckets'
import { capOf, changeSet, chunkOf, externalAt, externalOf, indexOf, setAt, setOf, tryFree } from './chunks'
import { RANK_BYTES, RANKS, allowReserve } from './memory'
import { mix } from './mix'
import {
  aliasCountOf, bucketsOf, byExternalOf, countOf, heldOf, maskOf, oldestOf, ranksUsed, recordOf, setCount, setOldest,
} from './ranks'
import { isDead } from './seats'
import { NO_MEMORY, forgetMemo, hasRank, withRank, withoutRank, wordOf, wordsOf } from './sets'

let held: u32 = 0
let evicted: u64 = 0

export function heldTotal(): u32 {
  return held
}
export function evictedTotal(): f64 {
  return <f64>evicted
}
@inline export function countHeld(by: i32): void {
  held += by
}
@inline export function countEvicted(by: u32): void {
  evicted += by
}

/** After a lookup that found `node`: takes that name away, and the hold if it was the last name. */
@inline export function dropHit(rank: u32, record: usize, external: u64, hash: u64, node: u32): void {
  const wasAlias = removeHit(record, external, hash, node)
  held--
  if (aliasOfNode(record, node) || (wasAlias && usesOwnName(record, node))) return
  dropHold(rank, node)
}

/** Takes the rank out of the block's holders, which it is one of. */
@inline export function dropHold(rank: u32, node: u32): void {
  const chunk = chunkOf(node)
  const cap = capOf(chunk)
  const from = load<u32>(setAt(chunk, cap, indexOf(node)))
  const to = withoutRank(from, rank)
  if (to == NO_MEMORY) {
    forgetForAll(rank, node)
    return
  }
  changeSet(chunk, cap, indexOf(node), from, to)
  if (!to) tryFree(node)
}

export function dropHoldUnlessNamed(rank: u32, record: usize, node: u32): void {
  if (!aliasOfNode(record, node) && !usesOwnName(record, node)) dropHold(rank, node)
}

/** No memory even for a smaller set: nobody gets credit for this block any more, which is safe. */
function forgetForAll(except: u32, node: u32): void {
  const chunk = chunkOf(node)
  const cap = capOf(chunk)
  const set = load<u32>(setAt(chunk, cap, indexOf(node)))
  const words = wordsOf(set)
  for (let word: u32 = 0; word < words; word++) {
    for (let bits = wordOf(set, word); bits; bits &= bits - 1) {
      const rank = (word << 6) + <u32>ctz(bits)
      if (rank == except) continue
      const record = recordOf(rank)
      if (usesOwnName(record, node)) forgetName(record, externalOf(node))
      for (let alias = aliasOfNode(record, node); alias; alias = aliasOfNode(record, node)) forgetName(record, load<u64>(alias))
    }
  }
  changeSet(chunk, cap, indexOf(node), set, 0)
  tryFree(node)
}

function forgetName(record: usize, external: u64): void {
  const node = find(record, external)
  if (!node) return
  removeHit(record, external, mix(external), node)
  held--
  evicted++
}

/** Puts a name into the tables. The block's set has the rank already. */
export function addName(record: usize, external: u64, hash: u64, home: usize, node: u32, age: u32): bool {
  if (externalOf(node) == external) {
    if (!insert(record, external, hash, home, node, age)) return false
  } else {
    if (!aliasPrepare(record)) return false
    aliasAdd(record, external, node, age)
  }
  held++
  return true
}

/** Adds a hold of `node` under `external`; for restoring. The rank does not use this name yet. */
export function addHold(rank: u32, node: u32, external: u64, age: u32): bool {
  const record = recordOf(rank)
  if (!prepare(record, 1)) return false
  if (!heldOf(record)) setOldest(record, age)
  const hash = mix(external)
  const chunk = chunkOf(node)
  const cap = capOf(chunk)
  const from = load<u32>(setAt(chunk, cap, indexOf(node)))
  if (!hasRank(from, rank)) {
    forgetMemo()
    const to = withRank(from, rank)
    if (!to) return false
    changeSet(chunk, cap, indexOf(node), from, to)
  }
  return addName(record, external, hash, homeOf(record, hash), node, age)
}

/** Takes one name away; answers whether the rank used it. */
export function removeName(rank: u32, external: u64): bool {
  const record = recordOf(rank)
  const hash = mix(external)
  const node = lookup(record, external, hash, bucketsOf(record) ? homeOf(record, hash) : 0)
  if (!node) return false
  forgetMemo()
  dropHit(rank, record, external, hash, node)
  return true
}

/** What the rank calls this block, which it holds. */
export function nameOf(record: usize, node: u32): u64 {
  if (!aliasCountOf(record) || usesOwnName(record, node)) return externalOf(node)
  const alias = aliasOfNode(record, node)
  return alias ? load<u64>(alias) : externalOf(node)
}

/** Forgets all that one seat holds, at once; answers how many names those were. */
export function clearSeat(rank: u32): u32 {
  const record = recordOf(rank)
  const names = heldOf(record)
  if (names) {
    allowReserve(true)
    forgetMemo()
    settle(record)
    dropLost(rank)
    // Aliases first and by name: a block may have several, and its own beside them.
    const table = byExternalOf(record)
    for (let slot: u32 = 0; aliasCountOf(record); slot = (slot + 1) & maskOf(record)) {
      while (load<u32>(table + (slot << 4), 12)) removeName(rank, load<u64>(table + (slot << 4)))
    }
    forgetMemo()
    const buckets = bucketTotal(record)
    for (let bucket: u32 = 0; bucket < buckets; bucket++) {
      const at = bucketNumber(record, bucket)
      for (let taken = takenIn(at); taken; taken &= taken - 1) dropHold(rank, nodeIn(at, <u32>ctz(taken)))
    }
    held -= countOf(record)
    setCount(record, 0)
    allowReserve(false)
  }
  releaseTable(record)
  aliasRelease(record)
  return names
}

/** Forgets holds whose names were lost for want of memory; true if there were any. */
export function dropLost(rank: u32): bool {
  let any = false
  for (let node = takeLost(); node; node = takeLost()) {
    held--
    evicted++
    dropHold(rank, node)
    any = true
  }
  return any
}

// ---- ages: knowledge is stamped with an epoch of 8 bits; the oldest epoch of a rank is forgotten as a whole ----

/** Forgets the oldest epoch of a rank; answers how many names went. */
export function evictOldest(rank: u32, now: u32): u32 {
  const record = recordOf(rank)
  if (!heldOf(record)) return 0
  settle(record)
  dropLost(rank)
  forgetMemo()
  const oldest = ageOfOldest(record, now)
  const before = heldOf(record)
  const epoch = (now - oldest) & 255
  const mask = byExternalOf(record) ? maskOf(record) : 0
  for (let slot: u32 = 0; aliasCountOf(record) && slot <= mask; slot++) {
    const at = byExternalOf(record) + (slot << 4)
    // A removal may move a later entry here, so look at the slot again.
    while (load<u32>(at, 12) && (load<u32>(at, 12) & 255) == epoch) removeName(rank, load<u64>(at))
  }
  const buckets = bucketTotal(record)
  for (let bucket: u32 = 0; bucket < buckets; bucket++) {
    const at = bucketNumber(record, bucket)
    for (let taken = takenIn(at); taken; taken &= taken - 1) {
      const slot = <u32>ctz(taken)
      if (ageIn(at, slot) == epoch) removeName(rank, externalOf(nodeIn(at, slot)))
    }
  }
  const gone = before - heldOf(record)
  evicted += gone
  if (heldOf(record)) setOldest(record, (now - ageOfOldest(record, now)) & 255)
  return gone
}

export function refreshOldest(rank: u32, now: u32): void {
  const record = recordOf(rank)
  settle(record)
  dropLost(rank)
  if (heldOf(record)) setOldest(record, (now - ageOfOldest(record, now)) & 255)
}

/** In epochs before `now`. */
function ageOfOldest(record: usize, now: u32): u32 {
  let oldest: u32 = 0
  const mask = byExternalOf(record) ? maskOf(record) : 0
  for (let slot: u32 = 0; aliasCountOf(record) && slot <= mask; slot++) {
    const mark = load<u32>(byExternalOf(record) + (slot << 4), 12)
    if (mark) oldest = max(oldest, (now - mark) & 255)
  }
  const buckets = bucketTotal(record)
  for (let bucket: u32 = 0; bucket < buckets; bucket++) {
    const at = bucketNumber(record, bucket)
    for (let taken = takenIn(at); taken; taken &= taken - 1) oldest = max(oldest, (now - ageIn(at, <u32>ctz(taken))) & 255)
  }
  return oldest
}

/** The rank that may hold the oldest knowledge; RANKS_MAX when nobody holds anything. */
export function rankOfOldest(now: u32): u32 {
  let best: u32 = 0xffffffff
  let bestAge: u32 = 0
  const ranks = ranksUsed()
  for (let rank: u32 = 0; rank < ranks; rank++) {
    const record = RANKS + rank * RANK_BYTES
    if (!heldOf(record) || isDead(rank)) continue
    const age = (now - oldestOf(record)) & 255
    if (best == 0xffffffff || age > bestAge) {
      best = rank
      bestAge = age
    }
  }
  return best
}

/** Epochs are about to repeat: halves all ages, so that half of the numbers are free again. */
export function halveAges(now: u32): void {
  const ranks = ranksUsed()
  for (let rank: u32 = 0; rank < ranks; rank++) {
    const record = RANKS + rank * RANK_BYTES
    if (!heldOf(record) || isDead(rank)) continue
    settle(record)
    dropLost(rank)
    setOldest(record, (now - (((now - oldestOf(record)) & 255) >> 1)) & 255)
    const buckets = bucketTotal(record)
    for (let bucket: u32 = 0; bucket < buckets; bucket++) {
      const at = bucketNumber(record, bucket)
      for (let taken = takenIn(at); taken; taken &= taken - 1) {
        const slot = <u32>ctz(taken)
        setAgeIn(at, slot, (now - (((now - ageIn(at, slot)) & 255) >> 1)) & 255)
      }
    }
    halveAliases(byExternalOf(record), record, now)
    halveAliases(load<u32>(record, 48), record, now)
  }
}

function halveAliases(table: usize, record: usize, now: u32): void {
  if (!table) return
  for (let slot: u32 = 0; slot <= maskOf(record); slot++) {
    const at = table + (slot << 4)
    const mark = load<u32>(at, 12)
    if (mark) store<u32>(at, 0x80000000 | ((now - (((now - mark) & 255) >> 1)) & 255), 12)
  }
}
