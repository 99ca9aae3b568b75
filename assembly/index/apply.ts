/** Applies a batch of packed events. The word layout is that of src/core/index/event-batch.ts. */
import { aliasRelease } from './aliases'
import { AGES, OVERFLOW, find, fingerprintOf, lookup, matches, nodeAt, prepare, relax } from './buckets'
import {
  addChild, capOf, changeSet, childOf, chunkOf, countNodes, externalAt, externalOf, indexOf, kidsAt, lenOf, localAt, nextOf, setAt,
  tryFree,
} from './chunks'
import {
  addName, countEvicted, countHeld, dropHit, dropHold, dropHoldUnlessNamed, dropLost, evictOldest, halveAges, heldTotal, rankOfOldest, refreshOldest, removeName,
} from './holds'
import { RANKS_MAX, allowReserve } from './memory'
import { aliasCountOf, bucketsOf, countOf, heldOf, oldestOf, recordOf, setCount, setOldest } from './ranks'
import { clearRank, drain } from './drain'
import { seatOf } from './seats'
import { HASHES, HOMES, STEP, touchHomes } from './touch'
import { SINGLE, forgetMemo, hasRank, withRank } from './sets'

const OK: u8 = 0
const PARENT_NOT_FOUND: u8 = 1
const BLOCK_NOT_FOUND: u8 = 2
const INVALID: u8 = 3
const DUPLICATE: u8 = 4
const EXHAUSTED: u8 = 5

let maxBlocks: u32 = 0xffffffff
let maxPerRank: u32 = 0xffffffff
let epoch: u32 = 0
let epochBase: u32 = 0
let epochFill: u32 = 0
let epochSize: u32 = 0
let areHostEpochs: bool = false

/** With `hostEpochs` the caller says when an epoch begins: several cores share one clock then. */
export function setCaps(overall: u32, perRank: u32, hostEpochs: bool): void {
  maxBlocks = overall
  maxPerRank = perRank
  areHostEpochs = hostEpochs
  const least = min(overall, perRank)
  epochSize = least == 0xffffffff ? 0 : max<u32>(1, least >> 6)
}

export function epochNow(): u32 {
  return epoch
}

export function apply(words: usize, events: u32, statuses: usize): void {
  let at = words
  for (let event: u32 = 0; event < events; event++) {
    const head = load<u32>(at)
    const named = load<u32>(at, 4)
    const count = load<u32>(at, 8)
    const parent = load<u64>(at, 16)
    at += 24
    let status = OK
    const kind = head & 0xff
    if (kind == 0) {
      status = applyStored(seatOf(named), (head & 0x100) != 0, parent, at, at + (count << 3), count)
      at += count << 4
    } else if (kind == 1) {
      status = applyRemoved(seatOf(named), at, count)
      at += count << 3
    } else clearRank(named)
    store<u8>(statuses + event, status)
  }
}

function applyStored(rank: u32, hasParent: bool, parent: u64, externals: usize, locals: usize, given: u32): u8 {
  const record = recordOf(rank)
  let current: u32 = 0
  if (hasParent) {
    for (let i: u32 = 0; i < given; i++) if (load<u64>(externals + (i << 3)) == parent) return INVALID
    current = find(record, parent)
    if (!current) return PARENT_NOT_FOUND
  }
  if (!given) return OK
  // An event that is larger than the cap keeps its head: what comes behind could not stay.
  const count = min(given, min(maxBlocks, maxPerRank))
  if (count < given) countEvicted(given - count)
  if (epochSize && !areHostEpochs) openEpoch(count)
  epochFill += count
  if (!heldOf(record)) setOldest(record, epoch)
  let status = storeRun(rank, record, current, externals, locals, count)
  // What nobody has any more must not cost anybody a block.
  if (status == EXHAUSTED && drain(0xffffffff)) status = storeRun(rank, record, current, externals, locals, count)
  if (epochSize) enforceCaps(rank, record)
  return status
}

function storeRun(rank: u32, record: usize, from: u32, externals: usize, locals: usize, count: u32): u8 {
  const single = SINGLE | rank
  let current = from
  let changed = false
  let isFresh = false
  forgetMemo()
  for (let start: u32 = 0; start < count; start += STEP) {
    const size = min(STEP, count - start)
    const ready = prepare(record, size)
    if (dropLost(rank) || !ready) return EXHAUSTED
    touchHomes(record, externals + (start << 3), size)
    for (let i: u32 = 0; i < size; i++) {
      if (isFresh) {
        const added = appendFresh(record, current, single, externals + (start << 3), locals + (start << 3), i, size)
        if (added) {
          i += added
          current += added
          if (i == size) break
        }
      }
      const external = load<u64>(externals + ((start + i) << 3))
      const local = load<u64>(locals + ((start + i) << 3))
      const hash = load<u64>(HASHES + (i << 3))
      const home = load<u32>(HOMES + (i << 2))
      let child: u32 = isFresh ? 0 : childOf(current, local)
      const old = lookup(record, external, hash, home)
      if (!child) {
        isFresh = true // nothing can hang on a block that did not exist
        child = addChild(current, local, external, single, count - start - i)
        if (!child) return EXHAUSTED
      } else {
        isFresh = false
        if (old == child) {
          current = child
          continue
        }
        const chunk = chunkOf(child)
        const cap = capOf(chunk)
        const set = load<u32>(setAt(chunk, cap, indexOf(child)))
        if (!set) store<u64>(externalAt(child), external) // a hole has no name left
        if (!hasRank(set, rank)) {
          const to = withRank(set, rank)
          if (!to) return EXHAUSTED
          changeSet(chunk, cap, indexOf(child), set, to)
        }
      }
      // The new hold is in the set by now: what goes with the old name cannot take this block along.
      if (old) {
        forgetMemo() // it remembers an added rank, this one goes
        dropHit(rank, record, external, hash, old)
        forgetMemo()
      }
      if (!addName(record, external, hash, home, child, epoch)) {
        undo(rank, record, child)
        return EXHAUSTED
      }
      changed = true
      current = child
    }
  }
  return changed ? OK : DUPLICATE
}

/**
 * The way of most stored blocks: behind a block that is new itself, into the same chunk, under a name that the rank has
 * not used, into a bucket with room. Answers how many blocks went this way; the next one is for the long way.
 */
@inline function appendFresh(record: usize, current: u32, single: u32, externals: usize, locals: usize, first: u32, end: u32): u32 {
  if (aliasCountOf(record)) return 0
  const chunk = chunkOf(current)
  const cap = capOf(chunk)
  const start = indexOf(current) + 1
  const room = min(cap - start, end - first)
  let added: u32 = 0
  for (; added < room; added++) {
    const i = first + added
    const home = <usize>load<u32>(HOMES + (i << 2))
    const fingerprint = fingerprintOf(load<u64>(HASHES + (i << 3)))
    const names = v128.load(home)
    const ninth = <u32>load<u16>(home, 16)
    if (v128.any_true(i16x8.eq(names, i16x8.splat(<i16>fingerprint))) || ninth == fingerprint || load<u8>(home, OVERFLOW)) break
    const free = i16x8.bitmask(i16x8.eq(names, i16x8.splat(0))) | (<u32>(ninth == 0) << 8)
    if (!free) break
    const slot = <u32>ctz(free)
    const index = start + added
    store<u64>(chunk + 64 + (index << 3), load<u64>(externals + (i << 3)))
    store<u64>(localAt(chunk, cap, index), load<u64>(locals + (i << 3)))
    store<u32>(setAt(chunk, cap, index), single)
    store<u16>(home + (slot << 1), <u16>fingerprint)
    store<u32>(nodeAt(home, slot), <u32>chunk + index)
    store<u8>(home + slot, <u8>epoch, AGES)
  }
  if (added) {
    store<u8>(chunk, <u8>(start + added), 8)
    setCount(record, countOf(record) + added)
    countHeld(added)
    countNodes(added)
  }
  return added
}

/** A hold that got no name: nobody could ever remove it. */
function undo(rank: u32, record: usize, node: u32): void {
  const chunk = chunkOf(node)
  const set = load<u32>(setAt(chunk, capOf(chunk), indexOf(node)))
  forgetMemo()
  if (set == (SINGLE | rank)) {
    changeSet(chunk, capOf(chunk), indexOf(node), set, 0)
    tryFree(node)
  } else {
    allowReserve(true)
    dropHoldUnlessNamed(rank, record, node)
    allowReserve(false)
  }
}

function applyRemoved(rank: u32, externals: usize, count: u32): u8 {
  const record = recordOf(rank)
  if (!heldOf(record)) return count ? BLOCK_NOT_FOUND : OK
  let status = OK
  forgetMemo()
  allowReserve(true)
  for (let start: u32 = 0; start < count; start += STEP) {
    const size = min(STEP, count - start)
    if (!bucketsOf(record)) {
      for (let i: u32 = 0; i < size; i++) if (!removeName(rank, load<u64>(externals + ((start + i) << 3)))) status = BLOCK_NOT_FOUND
      continue
    }
    touchHomes(record, externals + (start << 3), size)
    for (let i = removeOwn(rank, record, externals + (start << 3), 0, size); i < size; ) {
      const external = load<u64>(externals + ((start + i) << 3))
      const hash = load<u64>(HASHES + (i << 3))
      const node = lookup(record, external, hash, load<u32>(HOMES + (i << 2)))
      if (node) dropHit(rank, record, external, hash, node)
      else status = BLOCK_NOT_FOUND
      i = removeOwn(rank, record, externals + (start << 3), i + 1, size)
    }
    relax(record, size)
    dropLost(rank)
  }
  if (!heldOf(record)) aliasRelease(record)
  allowReserve(false)
  return status
}

/**
 * The way of most removed blocks: the rank has no aliases and the name lies in its home bucket. Mostly nobody else holds
 * the block and it is the last of its chunk, which then just gets shorter. Answers the first that needs the long way.
 */
@inline function removeOwn(rank: u32, record: usize, externals: usize, first: u32, end: u32): u32 {
  if (aliasCountOf(record)) return first
  const single = SINGLE | rank
  let i = first
  for (; i < end; i++) {
    const external = load<u64>(externals + (i << 3))
    const home = <usize>load<u32>(HOMES + (i << 2))
    let mask = matches(home, fingerprintOf(load<u64>(HASHES + (i << 3))))
    let node: u32 = 0
    for (; mask; mask &= mask - 1) {
      node = load<u32>(nodeAt(home, <u32>ctz(mask)))
      if (externalOf(node) == external) break
    }
    if (!mask) break
    store<u16>(home + (<u32>ctz(mask) << 1), 0)
    const chunk = chunkOf(node)
    const index = indexOf(node)
    const cap = capOf(chunk)
    const sets = setAt(chunk, cap, index)
    const isLast = index + 1 == lenOf(chunk) && index != 0
    if (isLast && load<u32>(sets) == single && !nextOf(chunk) && !load<u8>(kidsAt(chunk, cap, index))) {
      store<u8>(chunk, <u8>index, 8)
      const breaks = load<u64>(chunk, 16)
      if ((breaks >> index) & 1) store<u64>(chunk, breaks & ~((<u64>1) << index), 16)
      countNodes(-1)
      if (!load<u32>(sets - 4)) tryFree(node - 1) // a hole that only this block kept
    } else dropHold(rank, node)
  }
  setCount(record, countOf(record) - (i - first))
  countHeld(<i32>first - <i32>i)
  return i
}

/** An event that does not fit into the rest of the epoch opens the next one: an epoch is never larger than a cap. */
function openEpoch(count: u32): void {
  if (epochFill && epochFill + count > epochSize) nextEpoch()
}

export function nextEpoch(): void {
  if (((epoch + 1 - epochBase) & 255) >= 254) {
    halveAges(epoch)
    epochBase = epoch - 128
  }
  epoch = (epoch + 1) & 255
  epochFill = 0
}

function enforceCaps(rank: u32, record: usize): void {
  while (heldOf(record) > maxPerRank && evictOldest(rank, epoch)) {}
  if (heldTotal() > maxBlocks) drain(heldTotal() - maxBlocks)
  while (heldTotal() > maxBlocks && evictOldestOfAll()) {}
}

export function evictOldestOfAll(): u32 {
  const rank = oldestRank()
  return rank < RANKS_MAX ? evictOldest(rank, epoch) : 0
}

/** In epochs before now; 0xffffffff when nobody holds anything. */
export function oldestAge(): u32 {
  const rank = oldestRank()
  return rank < RANKS_MAX ? (epoch - oldestOf(recordOf(rank))) & 255 : 0xffffffff
}

/** What a record says of its oldest may be gone since: only a claim that still stands counts. */
function oldestRank(): u32 {
  while (true) {
    const rank = rankOfOldest(epoch)
    if (rank >= RANKS_MAX) return rank
    refreshOldest(rank, epoch)
    if (rankOfOldest(epoch) == rank) return rank
  }
}
