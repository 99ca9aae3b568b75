/** Reads runs of blocks, and the paths that lead to them, out of the core's memory. Layout: assembly/index/chunks.ts. */
import { type HashColumn, newHashColumn } from '../protocol/index.js'
import { address, type IndexCore } from './index-core.js'
import type { KnownRun, Random, ShardSampler } from './shard.js'

const slabBytes = 65_536
const slabHeadBytes = 64
/** Of chunks for 8, 24 and 64 blocks. */
export const chunkBytes = [256, 576, 1408] as const
const bucketSlots = 9
export const rankRecordBytes = 128

/** Addresses of all chunks in use, slab by slab. */
export function* chunksInUse(core: IndexCore, view: Uint32Array): Iterable<number> {
  for (let slab = address(core.slabs()); slab !== 0; slab = view[slab >>> 2]!) {
    const size = chunkBytes[view[(slab >>> 2) + 1]!]!
    for (let chunk = slab + slabHeadBytes; chunk + size <= slab + slabBytes; chunk += size)
      if (capOf(view, chunk) !== 0) yield chunk
  }
}

export function lenOf(view: Uint32Array, chunk: number): number {
  return view[(chunk >>> 2) + 2]! & 0xff
}

export function capOf(view: Uint32Array, chunk: number): number {
  return (view[(chunk >>> 2) + 2]! >>> 8) & 0xff
}

/** Blocks that lead to the chunk. */
export function blocksBefore(view: Uint32Array, chunk: number): number {
  return view[(chunk >>> 2) + 10]!
}

/** Local hashes from the first block to the last one of this chunk, or to its block number `count`. */
export function pathThrough(view: Uint32Array, chunk: number, count: number = lenOf(view, chunk)): HashColumn {
  const path = newHashColumn(blocksBefore(view, chunk) + count)
  for (let at = chunk; at !== 0; ) {
    const locals = (at >>> 2) + 16 + 2 * capOf(view, at)
    path.set(view.subarray(locals, locals + 2 * count), 2 * blocksBefore(view, at))
    const parent = view[at >>> 2]!
    count = (parent & 63) + 1
    at = (parent & ~63) >>> 0
  }
  return path
}

export function runsOfCore(core: IndexCore, hashesMax: number): readonly KnownRun[] | undefined {
  if (address(core.chunks()) > hashesMax) return undefined
  const view = new Uint32Array(core.memory.buffer)
  const runs: KnownRun[] = []
  let left = hashesMax
  for (const chunk of chunksInUse(core, view)) {
    left -= blocksBefore(view, chunk) + lenOf(view, chunk)
    if (left < 0) return undefined
    runs.push({ blocks: lenOf(view, chunk), path: pathThrough(view, chunk), weight: 1 })
  }
  return runs
}

export function sampleCore(core: IndexCore, random: Random): ShardSampler {
  const view = new Uint32Array(core.memory.buffer)
  const slabs: number[] = []
  for (let slab = address(core.slabs()); slab !== 0; slab = view[slab >>> 2]!) slabs.push(slab)
  const holdsBelow = sumsOf(core)
  return {
    run: () => drawRun(view, slabs, random),
    heldPath: () => {
      const hold = random(holdsBelow.at(-1) ?? 0)
      const node = drawHeld(core, view, rankOfHold(holdsBelow, hold), random)
      return node === 0 ? undefined : pathThrough(view, (node & ~63) >>> 0, (node & 63) + 1)
    },
  }
}

/** Slabs have more of the small chunks, so those are drawn less often and weigh more. */
function drawRun(view: Uint32Array, slabs: readonly number[], random: Random): KnownRun | undefined {
  const slab = slabs[random(slabs.length)]
  if (slab === undefined) return undefined
  const size = chunkBytes[view[(slab >>> 2) + 1]!]!
  const slots = Math.floor((slabBytes - slabHeadBytes) / size)
  const chunk = slab + slabHeadBytes + size * random(slots)
  if (capOf(view, chunk) === 0) return undefined
  return { blocks: lenOf(view, chunk), path: pathThrough(view, chunk), weight: slots }
}

/** For each rank, how many blocks it and those before it hold. */
function sumsOf(core: IndexCore): Float64Array {
  const sums = new Float64Array(core.ranks())
  let sum = 0
  for (let rank = 0; rank < sums.length; rank++) sums[rank] = sum += address(core.blocksOf(rank))
  return sums
}

function rankOfHold(sums: Float64Array, hold: number): number {
  let [low, high] = [0, sums.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if (sums[middle]! > hold) high = middle
    else low = middle + 1
  }
  return low
}

/** A name's node out of the rank's buckets (assembly/index/buckets.ts); 0 where the draws hit free slots only. */
function drawHeld(core: IndexCore, view: Uint32Array, rank: number, random: Random): number {
  if (rank >= core.ranks()) return 0
  const record = (address(core.rankRecords()) + rankRecordBytes * core.seatOf(rank)) >>> 2
  const [buckets, pages, , nextBuckets, nextPages, , frontier] = [1, 2, 3, 4, 5, 6, 7].map((at) => view[record + at]!)
  if (!buckets) return 0
  for (let draws = 0; draws < 64; draws++) {
    let bucket = random(buckets)
    let list = pages!
    if (bucket < frontier!) {
      bucket = Math.floor((bucket * nextBuckets!) / buckets) // moved to the next table
      list = nextPages!
    }
    const at = (view[(list >>> 2) + (bucket >>> 6)]! + 64 * (bucket & 63)) >>> 2
    const slot = random(bucketSlots)
    const fingerprint = (view[at + (slot >>> 1)]! >>> (16 * (slot & 1))) & 0xffff
    if (fingerprint !== 0) return view[at + 7 + slot]!
  }
  return 0
}
