/** Lists what one rank holds contiguously from the root, each block after its parent. */
import { bucketNumber, bucketTotal, find, nodeIn, settle, takenIn } from './buckets'
import { capOf, chunkOf, indexOf, localAt, parentOf, setOf } from './chunks'
import { dropLost, nameOf } from './holds'
import { alloc, classOf, release } from './memory'
import { aliasCountOf, byExternalOf, heldOf, maskOf, recordOf } from './ranks'
import { hasRank } from './sets'

let list: usize = 0
let listClass: u32 = 0
let listed: u32 = 0
let free: u32 = 0
/** From here on the list has slots of the alias table: further names of blocks that were listed before. */
let furtherFrom: u32 = 0

/** Collects the rank's blocks; answers how many, or 0xffffffff when there is no memory for the list. */
export function collect(rank: u32): u32 {
  discard()
  const record = recordOf(rank)
  const names = heldOf(record)
  if (!names) return 0
  settle(record)
  dropLost(rank)
  listClass = classOf(names << 2)
  list = alloc(listClass)
  if (!list) return 0xffffffff
  listed = 0
  free = names
  forEach(rank, record, true)
  listFurtherNames(record)
  forEach(rank, record, false)
  return listed
}

/** Gives the list back. */
export function discard(): void {
  if (list) release(list, listClass)
  list = 0
  listed = 0
}

function listFurtherNames(record: usize): void {
  furtherFrom = listed
  if (!aliasCountOf(record)) return
  for (let slot: u32 = 0; slot <= maskOf(record); slot++) {
    const at = byExternalOf(record) + (slot << 4)
    if (!load<u32>(at, 12)) continue
    const node = load<u32>(at, 8)
    const isWhole = (load<u64>(chunkOf(node), 32) >> indexOf(node)) & 1
    if (isWhole && nameOf(record, node) != load<u64>(at)) store<u32>(list + (listed++ << 2), slot)
  }
}

function forEach(rank: u32, record: usize, isVisit: bool): void {
  const buckets = bucketTotal(record)
  for (let bucket: u32 = 0; bucket < buckets; bucket++) {
    const at = bucketNumber(record, bucket)
    for (let taken = takenIn(at); taken; taken &= taken - 1) {
      const node = nodeIn(at, <u32>ctz(taken))
      if (isVisit) visit(rank, node)
      else unmark(node)
    }
  }
  if (!aliasCountOf(record)) return
  for (let slot: u32 = 0; slot <= maskOf(record); slot++) {
    const at = byExternalOf(record) + (slot << 4)
    if (!load<u32>(at, 12)) continue
    if (isVisit) visit(rank, load<u32>(at, 8))
    else unmark(load<u32>(at, 8))
  }
}

/** Climbs to the first ancestor that is decided, then decides all below it. The way up is kept at the list's far end. */
function visit(rank: u32, from: u32): void {
  let node = from
  let top = free
  let isWhole = true
  while (node) {
    const chunk = chunkOf(node)
    const bit = (<u64>1) << indexOf(node)
    if (load<u64>(chunk, 24) & bit) {
      isWhole = (load<u64>(chunk, 32) & bit) != 0
      break
    }
    if (!hasRank(setOf(node), rank)) {
      isWhole = false
      break
    }
    store<u32>(list + (--top << 2), node)
    node = parentOf(node)
  }
  for (; top < free; top++) {
    const held = load<u32>(list + (top << 2))
    const chunk = chunkOf(held)
    const bit = (<u64>1) << indexOf(held)
    store<u64>(chunk, load<u64>(chunk, 24) | bit, 24)
    if (!isWhole) continue
    store<u64>(chunk, load<u64>(chunk, 32) | bit, 32)
    store<u32>(list + (listed++ << 2), held)
  }
}

function unmark(node: u32): void {
  const chunk = chunkOf(node)
  store<u64>(chunk, 0, 24)
  store<u64>(chunk, 0, 32)
}

/** Writes blocks [from, from + count) of the list: [ has parent 4 | - 4 | parent name 8 | local 8 | name 8 ] each. */
export function describe(rank: u32, from: u32, count: u32, facts: usize): void {
  const record = recordOf(rank)
  let at = facts
  for (let i = from; i < from + count; i++) {
    let node = load<u32>(list + (i << 2))
    let name: u64
    if (i < furtherFrom) name = nameOf(record, node)
    else {
      const alias = byExternalOf(record) + (node << 4)
      name = load<u64>(alias)
      node = load<u32>(alias, 8)
    }
    const chunk = chunkOf(node)
    const parent = parentOf(node)
    store<u32>(at, parent ? 1 : 0)
    store<u64>(at, parent ? nameOf(record, parent) : 0, 8)
    store<u64>(at, load<u64>(localAt(chunk, capOf(chunk), indexOf(node))), 16)
    store<u64>(at, name, 24)
    at += 32
  }
}

/**
 * For each of `count` names what `describe` writes of its block, the first word being 0 for a name that the rank does not
 * have or whose parent it does not hold, 1 for a block at the root, 2 for one below another. Needs no list.
 */
export function describeNames(rank: u32, names: usize, count: u32, facts: usize): void {
  const record = recordOf(rank)
  for (let i: u32 = 0; i < count; i++) {
    const at = facts + (i << 5)
    const name = load<u64>(names + (i << 3))
    const node = find(record, name)
    store<u32>(at, 0)
    store<u64>(at, name, 24)
    if (!node) continue
    const parent = parentOf(node)
    if (parent && !hasRank(setOf(parent), rank)) continue
    const chunk = chunkOf(node)
    store<u32>(at, parent ? 2 : 1)
    store<u64>(at, parent ? nameOf(record, parent) : 0, 8)
    store<u64>(at, load<u64>(localAt(chunk, capOf(chunk), indexOf(node))), 16)
  }
}
