/**
 * Memory of the index core: one bump pointer, and free lists for blocks of 2^k bytes.
 * Nothing is ever moved, so growing costs no copy; the host re-creates its views when the memory has grown.
 */

/** Rank records come first: a fixed place makes their address a multiplication. Untouched ones cost no real memory. */
export const RANK_BYTES: u32 = 128
export const RANKS_MAX: u32 = 65536
/** Kept back from stores, so that removes can still create the smaller holder sets they need. */
const RESERVE: u64 = 4 << 20
const WASM_PAGE: u64 = 65536

const FREE: usize = memory.data(32 * 4)

export const RANKS: usize = (__heap_base + 65535) & ~65535
const HEAP: usize = RANKS + RANKS_MAX * RANK_BYTES

let top: u64 = HEAP
let limit: u64 = 4294901760
let mayUseReserve: bool = false

export function setLimit(bytes: u32): void {
  const pages = <i32>((HEAP + 65535) >> 16)
  if (memory.size() < pages) memory.grow(pages - memory.size()) // the rank records
  limit = min<u64>(<u64>bytes + HEAP, 4294901760)
}

/** Bytes carved so far, free lists included, rank records counted by the caller. */
export function carvedBytes(): u32 {
  return <u32>(top - HEAP)
}

export function allowReserve(yes: bool): void {
  mayUseReserve = yes
}

/** So many bytes are about to be asked for: one growth instead of many. Without memory for all of it nothing happens. */
export function growFor(bytes: u32): void {
  const end = min(top + bytes, limit)
  const have = <u64>memory.size() * WASM_PAGE
  if (end > have) memory.grow(<i32>((end - have + WASM_PAGE - 1) / WASM_PAGE))
}

/** 64 KiB-aligned memory, zeroed by the host the first time; 0 when there is none left. */
export function bump(bytes: u32): usize {
  const end = top + ((<u64>bytes + 65535) & ~65535)
  const reserve = min(RESERVE, (limit - HEAP) >> 3)
  if (end > limit - (mayUseReserve ? 0 : reserve)) return 0
  const have = <u64>memory.size() * WASM_PAGE
  if (end > have) {
    const need = <u32>((end - have + WASM_PAGE - 1) / WASM_PAGE)
    // Large steps: each growth makes the host re-create its views, and V8 collect all garbage once this is over 64 MB.
    // What is never touched costs no real memory.
    const size = <u32>memory.size()
    const room = <u32>((limit + WASM_PAGE - 1) / WASM_PAGE) - size
    const step = max(need, min(room, max(256, size >> 1)))
    if (memory.grow(step) < 0 && memory.grow(need) < 0) return 0
  }
  const at = <usize>top
  top = end
  return at
}

/** The least k with 2^k >= bytes, at least 6: blocks are aligned to cache lines. */
export function classOf(bytes: u32): u32 {
  return bytes <= 64 ? 6 : 32 - clz<u32>(bytes - 1)
}

/** A block of 2^k bytes with whatever its last owner left in it; 0 when there is no memory. */
export function alloc(k: u32): usize {
  const free = allocUsed(k)
  if (free) return free
  if (k >= 16) return bump(<u32>1 << k)
  // Carve a larger block: small ones out of a table page, pages out of a slab.
  const from: u32 = k < 12 ? 12 : 16
  const block = alloc(from)
  if (!block) return 0
  const size: u32 = <u32>1 << k
  for (let at = block + (<u32>1 << from) - size; at > block; at -= size) release(at, k)
  return block
}

/** A block that waits to be used again; 0 when none does. */
export function allocUsed(k: u32): usize {
  const head = FREE + (k << 2)
  const free = load<u32>(head)
  if (free) store<u32>(head, load<u32>(free))
  return free
}

export function allocZeroed(k: u32): usize {
  const at = alloc(k)
  if (at) memory.fill(at, 0, <usize>1 << k)
  return at
}

export function release(at: usize, k: u32): void {
  const head = FREE + (k << 2)
  store<u32>(at, load<u32>(head))
  store<u32>(head, <u32>at)
}
