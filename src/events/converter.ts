/**
 * From a stored event's tokens to local hashes, written behind its external hashes into a batch for the index. Stops at
 * the first block that cannot be hashed and keeps the ones before it.
 */
import type { BlockHasher, BlockMedia } from '../core/hashing/index.js'
import { BlockHashes, padValue } from '../core/hashing/index.js'
import type { EventBatch } from '../core/index/index.js'
import type { Rank } from '../core/protocol/index.js'
import { hashAt } from '../core/protocol/index.js'
import type { DecodedBatch } from './decoded-batch.js'
import type { SchemeCache } from './scheme-cache.js'

export interface ConverterOptions {
  readonly hasher: BlockHasher
  readonly schemes: SchemeCache
  /** The token that stands for an image before it is replaced by its pad value. Without it media enter the hash as such. */
  readonly imageTokenId?: number | undefined
}

export class Converter {
  readonly #hasher: BlockHasher
  readonly #schemes: SchemeCache
  readonly #imageTokenId: number | undefined
  readonly #hashes = new BlockHashes()
  #padded: Uint32Array = new Uint32Array(0)

  constructor(options: ConverterOptions) {
    this.#hasher = options.hasher
    this.#schemes = options.schemes
    this.#imageTokenId = options.imageTokenId
  }

  /** How many leading blocks of the event have all their tokens. */
  completeBlocks(batch: DecodedBatch, event: number): number {
    const size = batch.blockSize[event]!
    if (size === 0) return 0
    const tokens = batch.tokenCount[event]! - batch.isEagle[event]!
    return Math.min(batch.hashCount[event]!, Math.max(0, Math.floor(tokens / size)))
  }

  /** Appends the first `count` blocks of the event. */
  append(
    batch: DecodedBatch,
    event: number,
    count: number,
    namespace: string | undefined,
    rank: Rank,
    out: EventBatch,
  ): void {
    const isEagle = batch.isEagle[event] === 1
    const scheme = this.#schemes.get(batch.adapter[event], namespace, isEagle)
    const start = batch.tokenStart[event]!
    let tokens = batch.tokens.subarray(start, start + count * scheme.blockSize + (isEagle ? 1 : 0))
    let media = batch.mediaTotal === 0 ? undefined : mediaOf(batch, event, count)
    if (media && this.#imageTokenId !== undefined) {
      tokens = this.#pad(tokens, scheme.blockSize, count, media, this.#imageTokenId)
      media = undefined
    }
    this.#hasher.hash(tokens, scheme, this.#hashes, media)
    const at = out.openStored(
      rank,
      count,
      batch.hasParent[event] === 1,
      batch.parents[2 * event]!,
      batch.parents[2 * event + 1]!,
    )
    copyWords(out.words, at, batch.hashes, 2 * batch.hashStart[event]!, 2 * count)
    copyWords(out.words, at + 2 * count, this.#hashes.local, 0, 2 * count)
  }

  /** Each run of the image token becomes the pad value of the block's n-th object; the last object serves what runs outnumber. */
  #pad(tokens: Uint32Array, size: number, count: number, media: BlockMedia, imageTokenId: number): Uint32Array {
    if (this.#padded.length < tokens.length) this.#padded = new Uint32Array(tokens.length)
    const padded = this.#padded.subarray(0, tokens.length)
    padded.set(tokens)
    for (let block = 0; block < count; block++) {
      const from = media.starts[block]!
      const objects = media.starts[block + 1]! - from
      if (objects === 0) continue
      let run = -1
      for (let index = 0; index < size; index++) {
        const at = block * size + index
        if (tokens[at] !== imageTokenId) continue
        if (index === 0 || tokens[at - 1] !== imageTokenId) run++
        padded[at] = padValue(hashAt(media.hashes, from + Math.min(run, objects - 1)))
      }
    }
    return padded
  }
}

/** The media of one event's blocks, ascending inside a block, in the form that hashing takes. */
function mediaOf(batch: DecodedBatch, event: number, blocks: number): BlockMedia | undefined {
  const found: { readonly block: number; readonly hash: bigint }[] = []
  for (let media = 0; media < batch.mediaTotal; media++) {
    const block = batch.mediaBlock[media]!
    if (batch.mediaEvent[media] === event && block < blocks)
      found.push({ block, hash: hashAt(batch.mediaHashes, media) })
  }
  if (found.length === 0) return undefined
  found.sort((a, b) => a.block - b.block || (a.hash < b.hash ? -1 : 1))
  const starts = new Uint32Array(blocks + 1)
  const hashes = new Uint32Array(2 * found.length)
  found.forEach(({ block, hash }, index) => {
    starts[block + 1] = index + 1
    hashes[2 * index] = Number(hash & 0xffff_ffffn)
    hashes[2 * index + 1] = Number(hash >> 32n)
  })
  for (let block = 1; block <= blocks; block++) starts[block] = Math.max(starts[block]!, starts[block - 1]!)
  return { blockCount: blocks, starts, hashes }
}

/** A loop below the size at which making two views costs more than the copy. */
export function copyWords(to: Uint32Array, at: number, from: Uint32Array, start: number, count: number): void {
  if (count > 48) to.set(from.subarray(start, start + count), at)
  else for (let word = 0; word < count; word++) to[at + word] = from[start + word]!
}
