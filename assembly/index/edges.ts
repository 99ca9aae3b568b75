/**
 * Children that do not lie behind their parent: (parent, local hash) -> child. Extendible hashing over pages of 4 KiB,
 * so that growing splits one page at a time and never stops the world.
 *
 *   page  [ depth 4 | count 4 | - 8 ] [ 255 x ( local 8 | parent 4 | child 4 ) ]   child 0: empty
 */
import { alloc, allocZeroed, classOf, release } from './memory'
import { mix } from './mix'

const SLOTS: u32 = 255
const FULL: u32 = 190

let dir: usize = 0
let dirBits: u32 = 0
let edges: u32 = 0

export function edgeCount(): u32 {
  return edges
}

@inline function hashOf(parent: u32, local: u64): u64 {
  return mix(local + (<u64>parent * 0x9e3779b97f4a7c15))
}
@inline function pageOf(hash: u64): usize {
  return load<u32>(dir + (<usize>((hash >> 1) >> (63 - dirBits)) << 2))
}
@inline function homeOf(hash: u64): u32 {
  return <u32>(((hash & 0xffffffff) * SLOTS) >> 32)
}
@inline function slotAt(page: usize, slot: u32): usize {
  return page + 16 + (slot << 4)
}

export function edgeFind(parent: u32, local: u64): u32 {
  if (!dir) return 0
  const hash = hashOf(parent, local)
  const page = pageOf(hash)
  const end = slotAt(page, SLOTS)
  let at = slotAt(page, homeOf(hash))
  let child = load<u32>(at, 12)
  while (child) {
    if (load<u64>(at) == local && load<u32>(at, 8) == parent) return child
    at += 16
    if (at == end) at = slotAt(page, 0)
    child = load<u32>(at, 12)
  }
  return 0
}

export function edgeAdd(parent: u32, local: u64, child: u32): bool {
  if (!dir) {
    dir = alloc(6)
    const page = allocZeroed(12)
    if (!dir || !page) {
      dir = 0
      return false
    }
    store<u32>(dir, <u32>page)
  }
  const hash = hashOf(parent, local)
  let page = pageOf(hash)
  while (load<u32>(page, 4) >= FULL) {
    if (!split(page, hash)) {
      if (load<u32>(page, 4) + 1 >= SLOTS) return false
      break
    }
    page = pageOf(hash)
  }
  place(page, hash, parent, local, child)
  edges++
  return true
}

export function edgeRemove(parent: u32, local: u64, child: u32): void {
  const hash = hashOf(parent, local)
  const page = pageOf(hash)
  let slot = homeOf(hash)
  while (load<u32>(slotAt(page, slot), 12) != child) slot = slot + 1 == SLOTS ? 0 : slot + 1
  for (let next: u32 = slot + 1 == SLOTS ? 0 : slot + 1; true; next = next + 1 == SLOTS ? 0 : next + 1) {
    const from = slotAt(page, next)
    if (!load<u32>(from, 12)) break
    const home = homeOf(hashOf(load<u32>(from, 8), load<u64>(from)))
    const fromHome = next >= home ? next - home : next + SLOTS - home
    const fromGap = next >= slot ? next - slot : next + SLOTS - slot
    if (fromHome >= fromGap) {
      v128.store(slotAt(page, slot), v128.load(from))
      slot = next
    }
  }
  store<u32>(slotAt(page, slot), 0, 12)
  store<u32>(page, load<u32>(page, 4) - 1, 4)
  edges--
}

function place(page: usize, hash: u64, parent: u32, local: u64, child: u32): void {
  let slot = homeOf(hash)
  while (load<u32>(slotAt(page, slot), 12)) slot = slot + 1 == SLOTS ? 0 : slot + 1
  const at = slotAt(page, slot)
  store<u64>(at, local)
  store<u32>(at, parent, 8)
  store<u32>(at, child, 12)
  store<u32>(page, load<u32>(page, 4) + 1, 4)
}

function split(page: usize, hash: u64): bool {
  const depth = load<u32>(page)
  if (depth == dirBits && !doubleDir()) return false
  const other = allocZeroed(12)
  const spare = alloc(12)
  if (!other || !spare) {
    if (other) release(other, 12)
    if (spare) release(spare, 12)
    return false
  }
  memory.copy(spare, page, 4096)
  memory.fill(page, 0, 4096)
  store<u32>(page, depth + 1)
  store<u32>(other, depth + 1)
  // The directory entries of this page are neighbours; the upper half now leads to the other page.
  const span: u32 = 1 << (dirBits - depth)
  const first = <u32>((hash >> 1) >> (63 - dirBits)) & ~(span - 1)
  for (let entry = first + (span >> 1); entry < first + span; entry++) store<u32>(dir + (entry << 2), <u32>other)
  for (let slot: u32 = 0; slot < SLOTS; slot++) {
    const at = slotAt(spare, slot)
    const child = load<u32>(at, 12)
    if (!child) continue
    const own = hashOf(load<u32>(at, 8), load<u64>(at))
    place(pageOf(own), own, load<u32>(at, 8), load<u64>(at), child)
  }
  release(spare, 12)
  return true
}

function doubleDir(): bool {
  if (dirBits >= 24) return false
  const k = classOf(4 << (dirBits + 1))
  const wider = alloc(k)
  if (!wider) return false
  const count: u32 = 1 << dirBits
  for (let entry: u32 = 0; entry < count; entry++) {
    const page = load<u32>(dir + (entry << 2))
    store<u32>(wider + (entry << 3), page)
    store<u32>(wider + (entry << 3), page, 4)
  }
  release(dir, classOf(4 << dirBits))
  dir = wider
  dirBits++
  return true
}
