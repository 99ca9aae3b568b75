/**
 * Finds, for every rank, the longest prefix of a prompt that it holds. The prompt comes in pieces, so that one that
 * misses early is not copied in whole and none is too long. Hashes are compared in bulk, and holders only where the
 * chunk says that they change.
 */
import { capOf, chunkOf, indexOf, kidsAt, lenOf, localAt, nextOf, setAt } from './chunks'
import { edgeFind } from './edges'
import { notePassed } from './hot'
import { areMoved, deadBits, rankAt } from './seats'
import { wordOf, wordsOf } from './sets'

/** Ranks that hold everything so far; only the words from `low` up to `high` can have bits. */
const ACTIVE: usize = memory.data(65536 / 8)
const NO_SET: u32 = 0xffffffff
let low: u32 = 0
let high: u32 = 0

/** Out: [ rank 4 | depth 4 | last node 4 ] for each rank with a depth. */
let first: usize = 0
let out: usize = 0
let found: u32 = 0

let depth: u32 = 0
let node: u32 = 0
let set: u32 = 0
let isDone: bool = false
/** Keeps the early look at the next chunk alive. */
let ahead: u32 = 0

export function lookedAhead(): u32 {
  return ahead
}

export function begin(results: usize): void {
  first = results
  out = results
  found = 0
  depth = 0
  node = 0
  set = NO_SET
  isDone = false
}

/** Walks on with the next `count` hashes; false when no further ones can matter. */
export function walk(hashes: usize, count: u32): bool {
  let at = hashes
  const end = hashes + (count << 3)
  while (!isDone && at < end) {
    const child = step(load<u64>(at))
    if (!child) {
      isDone = true
      break
    }
    at = walkChunk(child, at, end)
  }
  return !isDone
}

/** Ends the walk: whoever is still active holds all of it. Answers how many ranks were found. */
export function finish(): u32 {
  if (depth) leave(0)
  if (areMoved()) for (let at = first; at < out; at += 12) store<u32>(at, rankAt(load<u32>(at)))
  return found
}

export function depthReached(): u32 {
  return depth
}

@inline function step(local: u64): u32 {
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

/** `first` matches the hash at `at`. Answers where the first hash lies that this chunk does not match. */
function walkChunk(first: u32, at: usize, end: usize): usize {
  const chunk = chunkOf(first)
  const start = indexOf(first)
  const cap = capOf(chunk)
  const most = min(lenOf(chunk) - start, <u32>((end - at) >> 3))
  const next = nextOf(chunk)
  if (next) ahead += load<u8>(next, 8) + load<u8>(next, 576) // where a chunk of 64 has its first local hashes
  const same = sameHashes(localAt(chunk, cap, start), at, most)
  if (chunk != chunkOf(node)) notePassed(chunk) // a prompt that comes in parts may go on in the middle
  if (!narrow(load<u32>(setAt(chunk, cap, start)))) return at
  let from = start
  if (start + 1 < 64) {
    let breaks = (load<u64>(chunk, 16) >> start) >> 1
    if (same < 64) breaks &= ((<u64>1) << (same - 1)) - 1
    else breaks &= 0x7fffffffffffffff
    for (; breaks; breaks &= breaks - 1) {
      const index = start + 1 + <u32>ctz(breaks)
      depth += index - from
      node = <u32>chunk + index - 1
      from = index
      if (!narrow(load<u32>(setAt(chunk, cap, index)))) return at
    }
  }
  depth += start + same - from
  node = <u32>chunk + start + same - 1
  return at + (same << 3)
}

/** How many of the leading `count` hashes are equal, at least 1. */
@inline function sameHashes(a: usize, b: usize, count: u32): u32 {
  let same: u32 = 1
  while (same + 8 <= count) {
    const x = a + (same << 3)
    const y = b + (same << 3)
    const one = v128.or(v128.xor(v128.load(x), v128.load(y)), v128.xor(v128.load(x, 16), v128.load(y, 16)))
    const two = v128.or(v128.xor(v128.load(x, 32), v128.load(y, 32)), v128.xor(v128.load(x, 48), v128.load(y, 48)))
    if (v128.any_true(v128.or(one, two))) break
    same += 8
  }
  while (same < count && load<u64>(a + (same << 3)) == load<u64>(b + (same << 3))) same++
  return same
}

/** The next block is held by `holders`: the others leave with the depth so far. False when nobody is left. */
@inline function narrow(holders: u32): bool {
  if (holders == set) return true
  return narrowTo(holders)
}

function narrowTo(holders: u32): bool {
  if (!depth) {
    low = 0
    high = wordsOf(holders)
    let any: u64 = 0
    for (let word: u32 = 0; word < high; word++) {
      const bits = wordOf(holders, word) & ~deadBits(word)
      store<u64>(ACTIVE + (word << 3), bits)
      any |= bits
    }
    set = holders
    if (any) return true
    isDone = true
    return false
  }
  return leave(holders)
}

function leave(holders: u32): bool {
  let any: u64 = 0
  let lowest = high
  let last = low
  for (let word = low; word < high; word++) {
    const at = ACTIVE + (word << 3)
    const active = load<u64>(at)
    if (!active) continue
    const stay = active & wordOf(holders, word)
    for (let gone = active & ~stay; gone; gone &= gone - 1) {
      store<u32>(out, (word << 6) + <u32>ctz(gone))
      store<u32>(out, depth, 4)
      store<u32>(out, node, 8)
      out += 12
      found++
    }
    if (stay) {
      store<u64>(at, stay)
      if (!any) lowest = word
      last = word + 1
      any |= stay
    } else store<u64>(at, 0)
  }
  low = lowest
  high = last
  set = holders
  if (any) return true
  isDone = true
  return false
}
