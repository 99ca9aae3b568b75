/**
 * Names that do not fit the bucket table: a rank calls a block otherwise than the rank that stored it first, holds one
 * block under several hashes, or its bucket has no room within reach. Per rank, two tables of equal size with the same
 * entries: one found by external hash, one by node.
 *
 *   entry  [ external 8 | node 4 | used << 31 | age 4 ]
 */
import { alloc, classOf, release } from './memory'
import { mix } from './mix'
import { aliasCountOf, byExternalOf, byNodeOf, maskOf, setAliasCount, setAliasTables } from './ranks'

const USED: u32 = 0x80000000

let total: u32 = 0

export function aliasTotal(): u32 {
  return total
}

@inline function nodeHome(node: u32, mask: u32): u32 {
  return <u32>(mix(node) >> 32) & mask
}
@inline function externalHome(external: u64, mask: u32): u32 {
  return <u32>(mix(external) >> 32) & mask
}

/** The node that the rank calls by this hash; 0 when none. */
export function aliasFind(rank: usize, external: u64): u32 {
  if (!aliasCountOf(rank)) return 0
  const mask = maskOf(rank)
  const table = byExternalOf(rank)
  let at = table + (externalHome(external, mask) << 4)
  while (load<u32>(at, 12)) {
    if (load<u64>(at) == external) return load<u32>(at, 8)
    at = at == table + (mask << 4) ? table : at + 16
  }
  return 0
}

/** The address of some alias of this node, whose first 8 bytes are the external hash; 0 when none. */
export function aliasOfNode(rank: usize, node: u32): usize {
  if (!aliasCountOf(rank)) return 0
  const mask = maskOf(rank)
  const table = byNodeOf(rank)
  let at = table + (nodeHome(node, mask) << 4)
  while (load<u32>(at, 12)) {
    if (load<u32>(at, 8) == node) return at
    at = at == table + (mask << 4) ? table : at + 16
  }
  return 0
}

/** Room for one more; false when there is no memory. */
export function aliasPrepare(rank: usize): bool {
  const count = aliasCountOf(rank)
  const mask = maskOf(rank)
  const size = count || byExternalOf(rank) ? mask + 1 : 0
  if (count * 2 < size) return true
  const wider = size ? size * 2 : 4
  const k = classOf(wider << 4)
  const external = alloc(k)
  const node = alloc(k)
  if (!external || !node) {
    if (external) release(external, k)
    if (node) release(node, k)
    return false
  }
  memory.fill(external, 0, wider << 4)
  memory.fill(node, 0, wider << 4)
  const old = byExternalOf(rank)
  const oldNode = byNodeOf(rank)
  setAliasTables(rank, external, node, wider - 1)
  for (let slot: u32 = 0; slot < size; slot++) {
    const at = old + (slot << 4)
    if (load<u32>(at, 12)) put(rank, load<u64>(at), load<u32>(at, 8), load<u32>(at, 12))
  }
  if (old) {
    release(old, classOf(size << 4))
    release(oldNode, classOf(size << 4))
  }
  return true
}

/** After `aliasPrepare`. The rank does not use this hash yet. */
export function aliasAdd(rank: usize, external: u64, node: u32, age: u32): void {
  put(rank, external, node, USED | age)
  setAliasCount(rank, aliasCountOf(rank) + 1)
  total++
}

export function aliasRemove(rank: usize, external: u64, node: u32): void {
  const mask = maskOf(rank)
  const table = byExternalOf(rank)
  let slot = externalHome(external, mask)
  while (load<u64>(table + (slot << 4)) != external) slot = (slot + 1) & mask
  closeGap(table, mask, slot, true)
  const nodes = byNodeOf(rank)
  slot = nodeHome(node, mask)
  while (load<u64>(nodes + (slot << 4)) != external || load<u32>(nodes + (slot << 4), 8) != node) slot = (slot + 1) & mask
  closeGap(nodes, mask, slot, false)
  setAliasCount(rank, aliasCountOf(rank) - 1)
  total--
}

/** Gives the tables of a rank without aliases back. */
export function aliasRelease(rank: usize): void {
  const table = byExternalOf(rank)
  if (!table) return
  const k = classOf((maskOf(rank) + 1) << 4)
  release(table, k)
  release(byNodeOf(rank), k)
  setAliasTables(rank, 0, 0, 0)
}

function put(rank: usize, external: u64, node: u32, mark: u32): void {
  const mask = maskOf(rank)
  place(byExternalOf(rank), mask, externalHome(external, mask), external, node, mark)
  place(byNodeOf(rank), mask, nodeHome(node, mask), external, node, mark)
}

function place(table: usize, mask: u32, home: u32, external: u64, node: u32, mark: u32): void {
  let slot = home
  while (load<u32>(table + (slot << 4), 12)) slot = (slot + 1) & mask
  const at = table + (slot << 4)
  store<u64>(at, external)
  store<u32>(at, node, 8)
  store<u32>(at, mark, 12)
}

function closeGap(table: usize, mask: u32, gap: u32, byExternal: bool): void {
  let slot = gap
  for (let next = (slot + 1) & mask; true; next = (next + 1) & mask) {
    const at = table + (next << 4)
    if (!load<u32>(at, 12)) break
    const home = byExternal ? externalHome(load<u64>(at), mask) : nodeHome(load<u32>(at, 8), mask)
    if (((next - home) & mask) >= ((next - slot) & mask)) {
      v128.store(table + (slot << 4), v128.load(at))
      slot = next
    }
  }
  v128.store(table + (slot << 4), i64x2.splat(0))
}
