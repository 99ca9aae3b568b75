/**
 * Blocks as nodes of a trie, laid out in chunks of 8, 24 or 64. A chunk belongs to one run of blocks and grows and
 * shrinks at its tail like a stack: node i + 1 is a child of node i, and only node 0 has its parent named.
 *
 *   node id  address of its chunk (a multiple of 64) + its index in it; the root is 0
 *   chunk    [ parent 4 | next 4 | len 1 | cap 1 | isNext 1 | - | finds 4 | breaks 8 | seen 8 | whole 8 | depth 4 |
 *              edge kids 4 | - ] 64 bytes, then cap x external hash 8, local hash 8, set 4, kids 1
 *
 * next    the chunk that goes on where this one is full
 * breaks  bit i: node i has other holders than node i - 1, so a lookup compares hashes and jumps from break to break
 * kids    children that lie neither at i + 1 nor in next; 255 means "many", until the chunk has no edges at all
 */
import { alloc } from './memory'
import { edgeAdd, edgeFind, edgeRemove } from './edges'
import { releaseSet, retain } from './sets'

const NONE: u32 = 0xffffffff
/** Free chunks of each class; then all slabs, newest first. */
const HEADS: usize = memory.data(4 * 4)
const SLABS: usize = HEADS + 12

let nodes: u32 = 0
let chunks: u32 = 0

@inline export function chunkOf(node: u32): usize {
  return node & ~63
}
@inline export function indexOf(node: u32): u32 {
  return node & 63
}
@inline export function lenOf(chunk: usize): u32 {
  return load<u8>(chunk, 8)
}
@inline export function capOf(chunk: usize): u32 {
  return load<u8>(chunk, 9)
}
@inline export function nextOf(chunk: usize): u32 {
  return load<u32>(chunk, 4)
}
@inline export function externalAt(node: u32): usize {
  return (node & ~63) + 64 + ((node & 63) << 3)
}
@inline export function externalOf(node: u32): u64 {
  return load<u64>(externalAt(node))
}
@inline export function localAt(chunk: usize, cap: u32, index: u32): usize {
  return chunk + 64 + ((cap + index) << 3)
}
@inline export function setAt(chunk: usize, cap: u32, index: u32): usize {
  return chunk + 64 + (cap << 4) + (index << 2)
}
@inline export function kidsAt(chunk: usize, cap: u32, index: u32): usize {
  return chunk + 64 + cap * 20 + index
}
export function setOf(node: u32): u32 {
  const chunk = chunkOf(node)
  return load<u32>(setAt(chunk, capOf(chunk), indexOf(node)))
}

@inline export function countNodes(by: i32): void {
  nodes += by
}
export function nodeCount(): u32 {
  return nodes
}
export function chunkCount(): u32 {
  return chunks
}
export function firstSlab(): u32 {
  return load<u32>(SLABS)
}

export function parentOf(node: u32): u32 {
  return indexOf(node) ? node - 1 : load<u32>(chunkOf(node))
}

/** The child of `node` with this local hash; 0 when there is none. */
export function childOf(node: u32, local: u64): u32 {
  if (!node) return edgeFind(0, local)
  const chunk = chunkOf(node)
  const index = indexOf(node)
  const cap = capOf(chunk)
  if (index + 1 < lenOf(chunk)) {
    if (load<u64>(localAt(chunk, cap, index + 1)) == local) return node + 1
  } else {
    const next = nextOf(chunk)
    if (next && load<u64>(localAt(next, capOf(next), 0)) == local) return next
  }
  return load<u8>(kidsAt(chunk, cap, index)) ? edgeFind(node, local) : 0
}

/** A new child with holders `set`. `remaining` blocks of this run are known to come. 0 when there is no memory. */
export function addChild(parent: u32, local: u64, external: u64, set: u32, remaining: u32): u32 {
  let chunk = chunkOf(parent)
  let before: u32 = 0
  let isNext = false
  if (parent) {
    const len = lenOf(chunk)
    before = capOf(chunk)
    if (indexOf(parent) + 1 == len) {
      if (len < before) {
        store<u64>(externalAt(parent + 1), external)
        store<u64>(localAt(chunk, before, len), local)
        store<u32>(setAt(chunk, before, len), set)
        if (load<u32>(setAt(chunk, before, len - 1)) != set) {
          store<u64>(chunk, load<u64>(chunk, 16) | ((<u64>1) << len), 16)
        }
        store<u8>(chunk, <u8>(len + 1), 8)
        retain(set)
        nodes++
        return parent + 1
      }
      isNext = nextOf(chunk) == 0
    }
  }
  const child = newChunk(parent, isNext ? max(remaining, before * 2) : remaining)
  if (!child) return 0
  const cap = capOf(child)
  store<u64>(externalAt(child), external)
  store<u64>(localAt(child, cap, 0), local)
  store<u32>(setAt(child, cap, 0), set)
  store<u8>(child, 1, 8)
  if (!link(parent, child, local, isNext)) {
    freeChunk(child)
    return 0
  }
  retain(set)
  nodes++
  return child
}

function link(parent: u32, child: u32, local: u64, isNext: bool): bool {
  if (isNext) {
    store<u32>(chunkOf(parent), child, 4)
    store<u8>(child, 1, 10)
    return true
  }
  if (!edgeAdd(parent, local, child)) return false
  if (parent) {
    const chunk = chunkOf(parent)
    const kids = kidsAt(chunk, capOf(chunk), indexOf(parent))
    store<u32>(chunk, load<u32>(chunk, 44) + 1, 44)
    if (load<u8>(kids) < 255) store<u8>(kids, load<u8>(kids) + 1)
  }
  return true
}

/** Gives node `index` other holders. */
export function changeSet(chunk: usize, cap: u32, index: u32, from: u32, to: u32): void {
  store<u32>(setAt(chunk, cap, index), to)
  let breaks = load<u64>(chunk, 16)
  if (index) {
    const bit = (<u64>1) << index
    breaks = load<u32>(setAt(chunk, cap, index - 1)) != to ? breaks | bit : breaks & ~bit
  }
  if (index + 1 < lenOf(chunk)) {
    const bit = (<u64>2) << index
    breaks = load<u32>(setAt(chunk, cap, index + 1)) != to ? breaks | bit : breaks & ~bit
  }
  store<u64>(chunk, breaks, 16)
  retain(to)
  releaseSet(from)
}

/** Frees the node if nobody holds it and nothing hangs on it, and then its ancestors as far as that holds for them. */
export function tryFree(node: u32): void {
  let chunk = chunkOf(node)
  let index = indexOf(node)
  while (true) {
    const cap = capOf(chunk)
    if (index + 1 != lenOf(chunk) || nextOf(chunk)) return
    let breaks = load<u64>(chunk, 16)
    while (load<u32>(setAt(chunk, cap, index)) == 0 && load<u8>(kidsAt(chunk, cap, index)) == 0) {
      nodes--
      breaks &= ~((<u64>1) << index)
      if (!index) {
        index = NONE
        break
      }
      index--
    }
    if (index != NONE) {
      store<u8>(chunk, <u8>(index + 1), 8)
      store<u64>(chunk, breaks, 16)
      return
    }
    const parent = load<u32>(chunk)
    const isNext = load<u8>(chunk, 10)
    const local = load<u64>(localAt(chunk, cap, 0))
    const gone = <u32>chunk
    freeChunk(chunk)
    if (isNext) store<u32>(chunkOf(parent), 0, 4)
    else edgeRemove(parent, local, gone)
    if (!parent) return
    chunk = chunkOf(parent)
    index = indexOf(parent)
    if (!isNext && unlinkKid(chunk, index)) index = lenOf(chunk) - 1
  }
}

/** True when the chunk lost its last edge, and with it any "many" mark: its tail may be free now. */
function unlinkKid(chunk: usize, index: u32): bool {
  const cap = capOf(chunk)
  const left = load<u32>(chunk, 44) - 1
  store<u32>(chunk, left, 44)
  const kids = kidsAt(chunk, cap, index)
  if (load<u8>(kids) != 255) {
    store<u8>(kids, load<u8>(kids) - 1)
    if (left) return false
  }
  if (left) return false
  memory.fill(kidsAt(chunk, cap, 0), 0, cap)
  return true
}

function capOfClass(c: u32): u32 {
  return c == 0 ? 8 : c == 1 ? 24 : 64
}
export function bytesOfClass(c: u32): u32 {
  return c == 0 ? 256 : c == 1 ? 576 : 1408
}

/** Short runs get small chunks, and a run that has shown to go on gets larger ones. */
export function newChunk(parent: u32, wanted: u32): u32 {
  const c: u32 = wanted <= 8 ? 0 : wanted <= 24 ? 1 : 2
  const head = HEADS + (c << 2)
  if (!load<u32>(head) && !newSlab(c)) return 0
  const chunk = load<u32>(head)
  store<u32>(head, load<u32>(chunk))
  const cap = capOfClass(c)
  memory.fill(chunk, 0, 64)
  memory.fill(kidsAt(chunk, cap, 0), 0, cap) // and they are 0 again whenever a node goes
  store<u32>(chunk, parent)
  store<u8>(chunk, <u8>cap, 9)
  const above = chunkOf(parent)
  store<u32>(chunk, parent ? load<u32>(above, 40) + indexOf(parent) + 1 : 0, 40)
  chunks++
  return chunk
}

function freeChunk(chunk: usize): void {
  const cap = capOf(chunk)
  const head = HEADS + ((cap == 8 ? 0 : cap == 24 ? 1 : 2) << 2)
  store<u8>(chunk, 0, 9) // cap 0: free, for whoever walks the slabs
  store<u32>(chunk, load<u32>(head))
  store<u32>(head, <u32>chunk)
  chunks--
}

/** A slab is 64 KiB of chunks of one class behind a line of its own: [ next slab 4 | class 4 ]. */
function newSlab(c: u32): bool {
  const slab = alloc(16)
  if (!slab) return false
  store<u32>(slab, load<u32>(SLABS))
  store<u32>(slab, c, 4)
  store<u32>(SLABS, <u32>slab)
  const head = HEADS + (c << 2)
  const size = bytesOfClass(c)
  for (let at = 64 + ((65536 - 64) / size - 1) * size; at >= 64; at -= size) {
    store<u8>(slab + at, 0, 9)
    store<u32>(slab + at, load<u32>(head))
    store<u32>(head, <u32>(slab + at))
  }
  return true
}

/** For restoring: a chunk filled in one go, `count` <= 64. Nodes have no holders yet. */
export function addRun(parent: u32, count: u32, locals: usize, externals: usize): u32 {
  const chunk = newChunk(parent, count)
  if (!chunk) return 0
  const cap = capOf(chunk)
  memory.copy(externalAt(chunk), externals, count << 3)
  memory.copy(localAt(chunk, cap, 0), locals, count << 3)
  memory.fill(setAt(chunk, cap, 0), 0, cap * 5)
  store<u8>(chunk, <u8>count, 8)
  const above = chunkOf(parent)
  const isNext = parent && indexOf(parent) + 1 == capOf(above) && !nextOf(above)
  if (!link(parent, chunk, load<u64>(locals), isNext != 0)) {
    freeChunk(chunk)
    return 0
  }
  nodes += count
  return chunk
}
