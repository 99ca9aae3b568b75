/**
 * External hash -> node, per rank: buckets of one cache line, so that a stored or removed block costs one line here.
 *
 *   bucket  [ 9 x fingerprint 2 | overflow 1 | 9 x age 1 | 9 x node 4 ]   fingerprint 0: empty
 *   page    64 buckets; a table is a list of pages, and its last 4 buckets take overflow only
 *
 * A bucket's number grows with the hash, so a table moves to another size bucket by bucket: what lies below the
 * frontier is in the next table, the rest still here. Overflow counts the names that passed this bucket because it was
 * full; a count and not a flag, because with flags every bucket ends up flagged after some turnover.
 *
 * The next table has all its pages from the start, so that a move never ends for want of memory, but none is touched before names
 * come near it: fresh memory is zero already, and a page that was used before is cleared then. Touching a million names' pages
 * at once takes 15 ms where memory is virtual.
 */
import { alloc, allocUsed, allowReserve, bump, classOf, release } from './memory'
import { aliasAdd, aliasFind, aliasPrepare, aliasRemove } from './aliases'
import { externalOf } from './chunks'
import { mix } from './mix'
import {
  aliasCountOf, bucketsOf, countOf, frontierOf, growAboveOf, heldOf, nextBucketsOf, nextPageCountOf, nextPagesOf,
  pageCountOf, pagesOf, setCount, setFrontier, setLimits, setNextTable, setOldest, setTable, shrinkBelowOf,
} from './ranks'

const SLOTS: u32 = 9
export const OVERFLOW: usize = 18
export const AGES: usize = 19
const NODES: usize = 28
const TAIL: u32 = 4
const PAGE_CLASS: u32 = 12
const PAGE_BYTES: u32 = 1 << PAGE_CLASS
/** In the list of pages: this one holds what its last owner left there. */
const UNCLEAN: u32 = 1
const REACH: u32 = 8
/** Names per bucket on average, in tenths: fuller loses more to overflow than it saves. */
const GROW: u32 = 54
const SHRINK: u32 = 12

// Where the last lookup found its name.
let hitBucket: usize = 0
let hitSlot: u32 = 0
let hitPassed: u32 = 0
let hitIsAlias: bool = false

@inline export function fingerprintOf(hash: u64): u32 {
  const low = <u32>hash & 0xffff
  return low ? low : 1
}

@inline export function scale(hash: u64, buckets: u32): u32 {
  return <u32>(((hash >> 32) * buckets) >> 32)
}

@inline export function bucketAt(pages: usize, bucket: u32): usize {
  return load<u32>(pages + ((bucket >> 6) << 2)) + ((bucket & 63) << 6)
}

/** The home bucket of a hash. Only for a rank that has a table. */
@inline export function homeOf(rank: usize, hash: u64): usize {
  const bucket = scale(hash, bucketsOf(rank))
  if (bucket < frontierOf(rank)) return bucketAt(nextPagesOf(rank), scale(hash, nextBucketsOf(rank)))
  return bucketAt(pagesOf(rank), bucket)
}

@inline export function matches(bucket: usize, fingerprint: u32): u32 {
  const eight = i16x8.bitmask(i16x8.eq(v128.load(bucket), i16x8.splat(<i16>fingerprint)))
  return eight | (<u32>(load<u16>(bucket, 16) == <u16>fingerprint) << 8)
}

@inline export function nodeAt(bucket: usize, slot: u32): usize {
  return bucket + NODES + (slot << 2)
}

/** The node under this name; 0 when the rank does not use it. `home` may be 0 for a rank without a table. */
@inline export function lookup(rank: usize, external: u64, hash: u64, home: usize): u32 {
  if (home) {
    for (let mask = matches(home, fingerprintOf(hash)); mask; mask &= mask - 1) {
      const slot = <u32>ctz(mask)
      const node = load<u32>(nodeAt(home, slot))
      if (externalOf(node) == external) {
        hitBucket = home
        hitSlot = slot
        hitPassed = 0
        hitIsAlias = false
        return node
      }
    }
    if (load<u8>(home, OVERFLOW)) {
      const node = lookupPast(rank, external, hash)
      if (node) return node
    }
  }
  if (!aliasCountOf(rank)) return 0
  hitIsAlias = true
  return aliasFind(rank, external)
}

export function find(rank: usize, external: u64): u32 {
  const hash = mix(external)
  return lookup(rank, external, hash, bucketsOf(rank) ? homeOf(rank, hash) : 0)
}

/** Is the block's own name the one this rank uses (perhaps among others)? */
export function usesOwnName(rank: usize, node: u32): bool {
  if (!bucketsOf(rank)) return false
  const external = externalOf(node)
  const hash = mix(external)
  const home = homeOf(rank, hash)
  for (let mask = matches(home, fingerprintOf(hash)); mask; mask &= mask - 1) {
    if (load<u32>(nodeAt(home, <u32>ctz(mask))) == node) return true
  }
  return load<u8>(home, OVERFLOW) != 0 && lookupPast(rank, external, hash) == node
}

function lookupPast(rank: usize, external: u64, hash: u64): u32 {
  let bucket = scale(hash, bucketsOf(rank))
  let pages = pagesOf(rank)
  let end = pageCountOf(rank) << 6
  if (bucket < frontierOf(rank)) {
    bucket = scale(hash, nextBucketsOf(rank))
    pages = nextPagesOf(rank)
    end = nextPageCountOf(rank) << 6
  }
  const fingerprint = fingerprintOf(hash)
  for (let passed: u32 = 1; passed < REACH && bucket + passed < end; passed++) {
    const at = bucketAt(pages, bucket + passed)
    for (let mask = matches(at, fingerprint); mask; mask &= mask - 1) {
      const slot = <u32>ctz(mask)
      const node = load<u32>(nodeAt(at, slot))
      if (externalOf(node) == external) {
        hitBucket = at
        hitSlot = slot
        hitPassed = passed
        hitIsAlias = false
        return node
      }
    }
    if (!load<u8>(at, OVERFLOW)) return 0
  }
  return 0
}

/** Takes away the name that the last lookup found; answers whether it was an alias. */
@inline export function removeHit(rank: usize, external: u64, hash: u64, node: u32): bool {
  if (hitIsAlias) {
    aliasRemove(rank, external, node)
    return true
  }
  store<u16>(hitBucket + (hitSlot << 1), 0)
  setCount(rank, countOf(rank) - 1)
  if (hitPassed) passBack(rank, hash, hitPassed)
  return false
}

function passBack(rank: usize, hash: u64, passed: u32): void {
  let bucket = scale(hash, bucketsOf(rank))
  let pages = pagesOf(rank)
  if (bucket < frontierOf(rank)) {
    bucket = scale(hash, nextBucketsOf(rank))
    pages = nextPagesOf(rank)
  }
  countPassed(pages, bucket, passed, -1)
}

function countPassed(pages: usize, bucket: u32, passed: u32, by: i32): void {
  for (let step: u32 = 0; step < passed; step++) {
    const at = bucketAt(pages, bucket + step)
    const overflow = <i32>load<u8>(at, OVERFLOW)
    if (overflow < 255) store<u8>(at, <u8>(overflow + by), OVERFLOW) // 255 stays: from there on it is a flag
  }
}

/** The rank calls `node` by its own hash. After `prepare`; false only when there is no memory. */
@inline export function insert(rank: usize, external: u64, hash: u64, home: usize, node: u32, age: u32): bool {
  const free = matches(home, 0)
  if (free) {
    const slot = <u32>ctz(free)
    store<u16>(home + (slot << 1), <u16>fingerprintOf(hash))
    store<u32>(nodeAt(home, slot), node)
    store<u8>(home + slot, <u8>age, AGES)
    setCount(rank, countOf(rank) + 1)
    return true
  }
  return insertPast(rank, external, hash, node, age)
}

function insertPast(rank: usize, external: u64, hash: u64, node: u32, age: u32): bool {
  const bucket = scale(hash, bucketsOf(rank))
  const moved = bucket < frontierOf(rank)
  const placed = moved
    ? place(nextPagesOf(rank), nextPageCountOf(rank) << 6, scale(hash, nextBucketsOf(rank)), hash, node, age)
    : place(pagesOf(rank), pageCountOf(rank) << 6, bucket, hash, node, age)
  if (placed) {
    setCount(rank, countOf(rank) + 1)
    return true
  }
  if (!aliasPrepare(rank)) return false
  aliasAdd(rank, external, node, age)
  return true
}

function place(pages: usize, end: u32, bucket: u32, hash: u64, node: u32, age: u32): bool {
  for (let passed: u32 = 0; passed < REACH && bucket + passed < end; passed++) {
    const at = bucketAt(pages, bucket + passed)
    const free = matches(at, 0)
    if (!free) continue
    const slot = <u32>ctz(free)
    store<u16>(at + (slot << 1), <u16>fingerprintOf(hash))
    store<u32>(nodeAt(at, slot), node)
    store<u8>(at + slot, <u8>age, AGES)
    countPassed(pages, bucket, passed, 1)
    return true
  }
  return false
}

/** Makes sure that `more` names fit, and moves a part of a table that is changing its size. */
export function prepare(rank: usize, more: u32): bool {
  if (!bucketsOf(rank)) {
    if (!startTable(rank, 1)) return false
    finishMove(rank)
  }
  if (nextPagesOf(rank)) move(rank, paceOf(more))
  if (countOf(rank) + more <= growAboveOf(rank)) return true
  if (nextPagesOf(rank)) finishMove(rank)
  if (countOf(rank) + more <= growAboveOf(rank)) return true
  const pages = pageCountOf(rank)
  const wanted = max(pages + (pages >> 2) + (pages >> 3) + 1, ((countOf(rank) + more) * 10) / (GROW * 64) + 1)
  if (!startTable(rank, wanted)) return countOf(rank) + more < pages * 64 * (SLOTS - 1) // fuller, until memory comes back
  move(rank, paceOf(more))
  return true
}

/** After removes: gives pages back when the table has become mostly empty. */
export function relax(rank: usize, removed: u32): void {
  if (nextPagesOf(rank)) move(rank, removed + 2)
  else if (countOf(rank) < shrinkBelowOf(rank)) {
    if (!heldOf(rank)) releaseTable(rank)
    else if (pageCountOf(rank) > 1) startTable(rank, (countOf(rank) * 10) / (40 * 64) + 1)
  }
}

/** Half a bucket with each name would do: the next table has room for three eighths more, and a bucket holds 5.4. More would only hold the loop longer. */
@inline function paceOf(more: u32): u32 {
  return more - (more >> 2) + 2
}

function startTable(rank: usize, pageCount: u32): bool {
  const pages = alloc(classOf(pageCount << 2))
  if (!pages) return false
  // Fresh pages first: `cleanPages` relies on it.
  let fresh = pageCount
  for (let page: usize; fresh && (page = allocUsed(PAGE_CLASS)); ) store<u32>(pages + (--fresh << 2), <u32>page | UNCLEAN)
  if (!addFreshPages(pages, fresh) && !addPages(pages, fresh)) {
    releasePages(pages, fresh, pageCount)
    return false
  }
  const buckets = (pageCount << 6) - TAIL
  setNextTable(rank, buckets, pages, pageCount)
  setFrontier(rank, 0)
  setLimits(rank, <u32>((<u64>buckets * GROW) / 10), pageCount > 1 ? (buckets * SHRINK) / 10 : 1)
  return true
}

/** Memory that nobody had before; what is left of its last 64 KiB waits for others. */
function addFreshPages(pages: usize, count: u32): bool {
  if (!count) return true
  let at = bump(count << PAGE_CLASS)
  if (!at) return false
  for (let page: u32 = 0; page < count; page++, at += PAGE_BYTES) store<u32>(pages + (page << 2), <u32>at)
  for (; at & 65535; at += PAGE_BYTES) release(at, PAGE_CLASS)
  return true
}

/** Whatever memory is left. */
function addPages(pages: usize, count: u32): bool {
  for (let page: u32 = 0; page < count; page++) {
    const at = alloc(PAGE_CLASS)
    if (!at) {
      while (page--) release(load<u32>(pages + (page << 2)) & ~UNCLEAN, PAGE_CLASS)
      return false
    }
    store<u32>(pages + (page << 2), <u32>at | UNCLEAN)
  }
  return true
}

/** Clears what is unclean of the pages up to this one; names come near them in order. */
function cleanPages(pages: usize, last: u32): void {
  for (let at = pages + (last << 2); load<u32>(at) & UNCLEAN; at -= 4) {
    const page = load<u32>(at) & ~UNCLEAN
    memory.fill(page, 0, PAGE_BYTES)
    store<u32>(at, page)
    if (at == pages) return
  }
}

function finishMove(rank: usize): void {
  move(rank, 0xffffffff)
}

function move(rank: usize, budget: u32): void {
  const buckets = bucketsOf(rank)
  const pages = pagesOf(rank)
  let frontier = frontierOf(rank)
  while (budget-- && frontier < buckets) {
    if (!(frontier & 63)) cleanAhead(rank, min(frontier + 64, buckets))
    moveBucket(rank, pages, frontier)
    frontier++
    setFrontier(rank, frontier)
    if (!(frontier & 63)) {
      const slot = pages + (((frontier >> 6) - 1) << 2)
      release(load<u32>(slot), PAGE_CLASS)
    }
  }
  if (frontier < buckets) return
  const pageCount = pageCountOf(rank)
  for (let page = frontier >> 6; page < pageCount; page++) release(load<u32>(pages + (page << 2)), PAGE_CLASS)
  if (pages) release(pages, classOf(pageCount << 2))
  cleanPages(nextPagesOf(rank), nextPageCountOf(rank) - 1)
  setTable(rank, nextBucketsOf(rank), nextPagesOf(rank), nextPageCountOf(rank))
  setNextTable(rank, 0, 0, 0)
  setFrontier(rank, 0)
}

/** A bucket of the next table; 0 where no name has come near it yet. */
export function nextBucketAt(rank: usize, bucket: u32): usize {
  const page = load<u32>(nextPagesOf(rank) + ((bucket >> 6) << 2))
  return page & UNCLEAN ? 0 : page + ((bucket & 63) << 6)
}

/** Names of buckets before `end` may go to the next table: to their homes there, and a few buckets further. */
function cleanAhead(rank: usize, end: u32): void {
  const home = <u32>((<u64>end * nextBucketsOf(rank)) / bucketsOf(rank))
  cleanPages(nextPagesOf(rank), min((home + REACH) >> 6, nextPageCountOf(rank) - 1))
}

/** Moves every name whose home is this bucket; those of earlier homes have gone before. */
function moveBucket(rank: usize, pages: usize, bucket: u32): void {
  const end = pageCountOf(rank) << 6
  const buckets = bucketsOf(rank)
  for (let passed: u32 = 0; passed < REACH && bucket + passed < end; passed++) {
    const at = bucketAt(pages, bucket + passed)
    const further = load<u8>(at, OVERFLOW)
    for (let mask = ~matches(at, 0) & 0x1ff; mask; mask &= mask - 1) {
      const slot = <u32>ctz(mask)
      const node = load<u32>(nodeAt(at, slot))
      const external = externalOf(node)
      const hash = mix(external)
      if (scale(hash, buckets) != bucket) continue
      const age = <u32>load<u8>(at + slot, AGES)
      store<u16>(at + (slot << 1), 0)
      countPassed(pages, bucket, passed, -1)
      if (place(nextPagesOf(rank), nextPageCountOf(rank) << 6, scale(hash, nextBucketsOf(rank)), hash, node, age)) continue
      setCount(rank, countOf(rank) - 1)
      allowReserve(true)
      if (aliasPrepare(rank)) aliasAdd(rank, external, node, age)
      else if (lostCount < LOST_MAX) store<u32>(LOST + (lostCount++ << 2), node)
      allowReserve(false)
    }
    if (!further) return
  }
}

// Nodes whose names found no room while a table moved and memory was out; the caller forgets these holds.
const LOST_MAX: u32 = 128
const LOST: usize = memory.data(128 * 4)
let lostCount: u32 = 0

export function takeLost(): u32 {
  return lostCount ? load<u32>(LOST + (--lostCount << 2)) : 0
}

/** Gives all memory of an empty table back, in the middle of a move too. */
export function releaseTable(rank: usize): void {
  releasePages(pagesOf(rank), frontierOf(rank) >> 6, pageCountOf(rank))
  releasePages(nextPagesOf(rank), 0, nextPageCountOf(rank))
  setNextTable(rank, 0, 0, 0)
  setFrontier(rank, 0)
  setTable(rank, 0, 0, 0)
  setLimits(rank, 0, 0)
  setCount(rank, 0)
  setOldest(rank, 0)
}

function releasePages(pages: usize, first: u32, pageCount: u32): void {
  if (!pages) return
  for (let page = first; page < pageCount; page++) release(load<u32>(pages + (page << 2)) & ~UNCLEAN, PAGE_CLASS)
  release(pages, classOf(pageCount << 2))
}

// Walking a table bucket by bucket, for clears, dumps and eviction. Finish a move first.
export function settle(rank: usize): void {
  if (nextPagesOf(rank)) finishMove(rank)
}
@inline export function bucketNumber(rank: usize, bucket: u32): usize {
  return bucketAt(pagesOf(rank), bucket)
}
@inline export function bucketTotal(rank: usize): u32 {
  return pageCountOf(rank) << 6
}
@inline export function takenIn(bucket: usize): u32 {
  return ~matches(bucket, 0) & 0x1ff
}
@inline export function nodeIn(bucket: usize, slot: u32): u32 {
  return load<u32>(nodeAt(bucket, slot))
}
@inline export function emptySlot(bucket: usize, slot: u32): void {
  store<u16>(bucket + (slot << 1), 0)
}
@inline export function ageIn(bucket: usize, slot: u32): u32 {
  return load<u8>(bucket + slot, AGES)
}
@inline export function setAgeIn(bucket: usize, slot: u32, age: u32): void {
  store<u8>(bucket + slot, <u8>age, AGES)
}
