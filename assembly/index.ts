/**
 * The exact prefix index, as one WebAssembly module. What it answers is said in src/core/index/prefix-index.ts; how
 * the parts are laid out is drawn above each part. Hashes are i64 here and never cross the boundary as numbers: they
 * travel through memory.
 */
import { aliasTotal } from './index/aliases'
import { countHolders } from './index/along'
import { apply as applyEvents, epochNow, evictOldestOfAll, nextEpoch, oldestAge, setCaps } from './index/apply'
import { find as findName, prepare } from './index/buckets'
import { nameBlocks } from './index/chain'
import { addRun, chunkCount, externalOf, firstSlab, nodeCount, setOf } from './index/chunks'
import { collect as collectHeld, describe as describeHeld, describeNames as describeNamed, discard as discardHeld } from './index/dump'
import { edgeCount } from './index/edges'
import { clearRank as clear, deadNames as deadTotal, drain as drainDead, setNamesAtOnce } from './index/drain'
import { addHold, evictedTotal, heldTotal, nameOf } from './index/holds'
import { hotList } from './index/hot'
import { RANKS, RANK_BYTES, alloc, carvedBytes, classOf, growFor as growMemory, release, setLimit } from './index/memory'
import { setSeed } from './index/mix'
import { heldOf, ranksUsed, recordOf } from './index/ranks'
import { restoreNames as nameRestored, restoreSets } from './index/restore'
import { ranksKnown, rankAt as rankOf, seatOf as seatFor } from './index/seats'
import { internBits, liveSets, liveSizeOf, releaseSet, retain, sharedHolds, sharedNodes } from './index/sets'
import { touched } from './index/touch'
import { begin, depthReached, finish, lookedAhead, walk as walkOn } from './index/walk'

export function init(seedLo: u32, seedHi: u32, maxBytes: u32): void {
  setSeed(seedLo, seedHi)
  setLimit(maxBytes)
}
export function limitBlocks(overall: u32, perRank: u32, hostEpochs: bool): void {
  setCaps(overall, perRank, hostEpochs)
}
/** For several cores that share one clock and one cap. */
export function passEpochs(count: u32): void {
  for (let i: u32 = 0; i < min<u32>(count, 255); i++) nextEpoch()
}
export function ageOfOldest(): u32 {
  return oldestAge()
}
export function evictOldest(): u32 {
  return evictOldestOfAll()
}

export function growFor(bytes: u32): void {
  growMemory(bytes)
}
/** Buffers for the host: at least `bytes` bytes, 0 when there is no memory. */
export function take(bytes: u32): u32 {
  return <u32>alloc(classOf(bytes))
}
export function give(at: u32, bytes: u32): void {
  release(at, classOf(bytes))
}

export function apply(words: u32, events: u32, statuses: u32): void {
  applyEvents(words, events, statuses)
}

export function findBegin(results: u32): void {
  begin(results)
}
export function findWalk(hashes: u32, count: u32): bool {
  return walkOn(hashes, count)
}
export function findFinish(): u32 {
  return finish()
}
export function findDepth(): u32 {
  return depthReached()
}
/** Replaces the node of each result by what the rank calls it: [ rank 4 | node 4 ] -> name 8, in place. */
export function nameResults(results: u32, names: u32, count: u32): void {
  for (let i: u32 = 0; i < count; i++) {
    const at = results + i * 12
    store<u64>(names + (i << 3), nameOf(recordOf(seatFor(load<u32>(at))), load<u32>(at, 8)))
  }
}

export function nameChain(rank: u32, isFirst: bool, hashes: u32, count: u32): u32 {
  return nameBlocks(seatFor(rank), isFirst, hashes, count)
}

export function holdersAlong(isFirst: bool, hashes: u32, count: u32): u32 {
  return countHolders(isFirst, hashes, count)
}

export function holds(rank: u32, external: u32): bool {
  return findName(recordOf(seatFor(rank)), load<u64>(external)) != 0
}
export function blocksOf(rank: u32): u32 {
  return rank < ranksKnown() ? heldOf(recordOf(seatFor(rank))) : 0
}
export function clearRank(rank: u32): u32 {
  return rank < ranksKnown() ? clear(rank) : 0
}
/** Ranks with more names are cleared in steps. */
export function clearInSteps(names: u32): void {
  setNamesAtOnce(names)
}
/** Takes about so many names of cleared ranks away; answers how many are left. */
export function drain(names: u32): u32 {
  drainDead(names)
  return deadTotal()
}

export function collect(rank: u32): u32 {
  return collectHeld(seatFor(rank))
}
export function describe(rank: u32, from: u32, count: u32, facts: u32): void {
  describeHeld(seatFor(rank), from, count, facts)
}
export function describeNames(rank: u32, names: u32, count: u32, facts: u32): void {
  describeNamed(seatFor(rank), names, count, facts)
}
export function discard(): void {
  discardHeld()
}

export function heldBlocks(): u32 {
  return heldTotal() - deadTotal()
}
export function distinctBlocks(): u32 {
  return nodeCount()
}
export function holderSets(): u32 {
  return liveSets()
}
export function sharedBlocks(): f64 {
  return sharedNodes()
}
export function holdsOfShared(): f64 {
  return sharedHolds()
}
export function aliases(): u32 {
  return aliasTotal()
}
export function evictedBlocks(): f64 {
  return evictedTotal()
}
export function bytesUsed(): u32 {
  return carvedBytes() + ranksUsed() * RANK_BYTES
}
export function ranks(): u32 {
  return ranksKnown()
}
/** Inside, ranks have seats: see seats.ts. */
export function seats(): u32 {
  return ranksUsed()
}
export function seatOf(rank: u32): u32 {
  return seatFor(rank)
}
export function rankAt(seat: u32): u32 {
  return rankOf(seat)
}
export function chunks(): u32 {
  return chunkCount()
}
export function edges(): u32 {
  return edgeCount()
}
export function hot(): u32 {
  return hotList()
}
export function holdersOf(node: u32): u32 {
  return liveSizeOf(setOf(node))
}
/** Keeps the touch pass alive: the optimiser may not drop loads whose sum somebody could ask for. */
export function checksum(): u32 {
  return touched() + lookedAhead()
}

// ---- snapshots: the host reads chunks from memory, and hands runs back ----

export function slabs(): u32 {
  return firstSlab()
}
export function rankRecords(): u32 {
  return <u32>RANKS
}
/** Does the rank at this seat call this block by the name that the block was stored under, in whichever table? */
export function usesOwn(seat: u32, node: u32): bool {
  return findName(recordOf(seat), externalOf(node)) == node
}
/** Room for so many names, so that a restored table need not grow on the way. */
export function reserve(rank: u32, names: u32): bool {
  return prepare(recordOf(seatFor(rank)), names)
}
/** A set with these bits, kept until `dropSet`. */
export function keepSet(bits: u32, words: u32): u32 {
  const set = internBits(bits, words)
  retain(set)
  return set
}
export function dropSet(set: u32): void {
  releaseSet(set)
}
/** A run of at most 64 blocks without holders; answers its first node, 0 when there is no memory. */
export function restoreRun(parent: u32, count: u32, locals: u32, externals: u32): u32 {
  return addRun(parent, count, locals, externals)
}
/** Blocks [from, to) of a run are held by `set`; each of its ranks then gets their names. */
export function restoreHolders(run: u32, from: u32, to: u32, set: u32): void {
  restoreSets(run, from, to, set)
}
export function restoreNames(rank: u32, run: u32, from: u32, to: u32): bool {
  return nameRestored(seatFor(rank), run, from, to, epochNow())
}
/** False when the rank uses this name already, or memory ran out. */
export function restoreAlias(rank: u32, node: u32, external: u32): bool {
  const name = load<u64>(external)
  const seat = seatFor(rank)
  return !findName(recordOf(seat), name) && addHold(seat, node, name, epochNow())
}
