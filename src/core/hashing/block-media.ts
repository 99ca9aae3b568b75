/**
 * Images and other media inside a prompt. An engine mixes a media object's hash into every block that the object touches;
 * so do we. Only the hashes count: where in the block the object lies does not change the hash.
 */
import { setHashAt } from '../protocol/index.js'
import type { HashColumn, MmExtraInfo } from '../protocol/index.js'

/**
 * Media hashes per block, ready to be hashed: those of block i are `hashes[starts[i]] .. hashes[starts[i + 1]]`, ascending.
 * Blocks beyond the list have none.
 */
export interface BlockMedia {
  readonly blockCount: number
  readonly starts: Uint32Array
  readonly hashes: HashColumn
}

/** Undefined when no block has any. Duplicates are kept: an object that is named twice is hashed twice. */
export function toBlockMedia(blocks: readonly (MmExtraInfo | null | undefined)[]): BlockMedia | undefined {
  const starts = new Uint32Array(blocks.length + 1)
  const sorted: bigint[] = []
  for (let block = 0; block < blocks.length; block++) {
    const hashes = (blocks[block]?.mmObjects ?? []).map(({ mmHash }) => BigInt.asUintN(64, mmHash))
    for (const hash of hashes.sort((a, b) => (a < b ? -1 : a > b ? 1 : 0))) sorted.push(hash)
    starts[block + 1] = sorted.length
  }
  if (sorted.length === 0) return undefined
  const column = new Uint32Array(2 * sorted.length)
  for (let at = 0; at < sorted.length; at++) setHashAt(column, at, sorted[at]!)
  return { blockCount: blocks.length, starts, hashes: column }
}

/** How many hashes block `block` carries. */
export function mediaCountAt(media: BlockMedia | undefined, block: number): number {
  if (media === undefined || block >= media.blockCount) return 0
  return media.starts[block + 1]! - media.starts[block]!
}

/** The first of `blockCount` blocks whose media differ; `blockCount` when none does. */
export function commonMediaBlocks(a: BlockMedia | undefined, b: BlockMedia | undefined, blockCount: number): number {
  if (a === b) return blockCount
  for (let block = 0; block < blockCount; block++) {
    const count = mediaCountAt(a, block)
    if (count !== mediaCountAt(b, block)) return block
    if (count === 0) continue
    const fromA = 2 * a!.starts[block]!
    const fromB = 2 * b!.starts[block]!
    for (let at = 0; at < 2 * count; at++) if (a!.hashes[fromA + at] !== b!.hashes[fromB + at]) return block
  }
  return blockCount
}

/**
 * From ranges of the prompt to objects per block, one slot per started block: each range is cut at the block borders and
 * counted from the block's start; a second range of the same object joins the first. Null: nothing in this block.
 *
 * Upstream joins objects by their hash. An engine's events do not: a picture that stands twice in a block is named, and
 * hashed, twice. `repeats: 'kept'` keeps apart what the request has apart.
 */
export function toBlockExtraInfo(
  request: MmExtraInfo,
  blockSize: number,
  tokenCount: number,
  repeats: 'joined' | 'kept' = 'joined',
): (MmExtraInfo | null)[] {
  if (blockSize <= 0 || tokenCount <= 0) return []
  const slots = Array.from({ length: Math.ceil(tokenCount / blockSize) }, () => new Map<unknown, Ranges>())
  for (const object of request.mmObjects) {
    const { mmHash, offsets } = object
    const key = repeats === 'kept' ? object : mmHash
    for (const [start, end] of offsets) {
      const last = Math.min(Math.floor((end - 1) / blockSize), slots.length - 1)
      for (let block = Math.max(0, Math.floor(start / blockSize)); block <= last; block++) {
        const from = Math.max(start - block * blockSize, 0)
        const to = Math.min(end - block * blockSize, blockSize)
        if (from >= to) continue
        const known = slots[block]!.get(key)
        if (known) known.offsets.push([from, to])
        else slots[block]!.set(key, { mmHash, offsets: [[from, to]] })
      }
    }
  }
  return slots.map((slot) => (slot.size === 0 ? null : { mmObjects: [...slot.values()] }))
}

interface Ranges {
  readonly mmHash: bigint
  readonly offsets: [number, number][]
}

/**
 * The token that stands for an image in SGLang's convention: 1,000,000 plus the low 30 bits of its hash. With it on both
 * sides no media field is needed.
 */
export function padValue(mmHash: bigint): number {
  return 1_000_000 + Number(mmHash & 0x3fff_ffffn)
}
