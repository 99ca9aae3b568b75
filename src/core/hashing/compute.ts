/** The public edge: token lists in, `bigint` hashes out. Router code uses `BlockHasher` instead and never sees a `bigint`. */
import { toBigInts, toHashColumn, newHashColumn, WarmrouteError } from '../protocol/index.js'
import type { MmExtraInfo } from '../protocol/index.js'
import type { BlockHasher } from './block-hasher.js'
import { createBlockHasher } from './block-hasher.js'
import { BlockHashes } from './block-hashes.js'
import { toBlockMedia } from './block-media.js'
import type { HashSchemeOptions } from './hash-scheme.js'
import { baseSeed, createHashScheme, seededScheme } from './hash-scheme.js'

export interface ComputeOptions extends Omit<HashSchemeOptions, 'blockSize'> {
  /** Media per block; null where there are none. */
  readonly blockExtraInfo?: readonly (MmExtraInfo | null)[] | undefined
  /** Which hasher computes; left out, one that all such calls share. */
  readonly hasher?: BlockHasher | undefined
}

/**
 * Local hash of every complete block.
 *
 * @example
 * import { computeBlockHashes } from 'warmroute/core'
 *
 * console.log(computeBlockHashes([1, 2, 3, 4, 5], 4).length) // => 1
 * console.log(computeBlockHashes([1, 2, 3, 4], 4)) // => [ 14643705804678351452n ]
 */
export function computeBlockHashes(
  tokens: readonly number[] | Uint32Array,
  blockSize: number,
  options: ComputeOptions = {},
): bigint[] {
  const hashes = new BlockHashes()
  const media = options.blockExtraInfo && toBlockMedia(options.blockExtraInfo)
  const hasher = options.hasher ?? sharedHasher()
  hasher.hash(toTokens(tokens), createHashScheme({ ...options, blockSize }), hashes, media)
  return toBigInts(hashes.localColumn())
}

/**
 * The chain over local hashes: what a prompt is called up to each block.
 *
 * @example
 * import { computeBlockHashes, computeSequenceHashes } from 'warmroute/core'
 *
 * const local = computeBlockHashes([1, 2, 3, 4, 5, 6, 7, 8], 4)
 * console.log(computeSequenceHashes(local)[0] === local[0]) // => true
 */
export function computeSequenceHashes(localHashes: readonly bigint[], hasher: BlockHasher = sharedHasher()): bigint[] {
  const sequence = newHashColumn(localHashes.length)
  hasher.chain(toHashColumn(localHashes), plainChain, sequence)
  return toBigInts(sequence)
}

/** One step of that chain. */
export function nextSequenceHash(parent: bigint, localHash: bigint): bigint {
  return computeSequenceHashes([parent, localHash])[1]!
}

/** Refuses what is no u32 instead of letting a typed array fold it into another token. */
export function toTokens(tokens: readonly number[] | Uint32Array): Uint32Array {
  if (tokens instanceof Uint32Array) return tokens
  const typed = Uint32Array.from(tokens)
  const wrong = tokens.findIndex((token, at) => token !== typed[at])
  if (wrong >= 0) {
    throw new WarmrouteError('WR_INVALID_ARGUMENT', {
      reason: 'a token is an integer from 0 to 4294967295',
      token: tokens[wrong],
      index: wrong,
    })
  }
  return typed
}

const plainChain = seededScheme(0, false, baseSeed, baseSeed)
let shared: BlockHasher | undefined

export function sharedHasher(): BlockHasher {
  return (shared ??= createBlockHasher())
}
