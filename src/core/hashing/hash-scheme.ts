/**
 * How prompts of one kind are cut and seeded. A scheme is made once per (block size, adapter, namespace, eagle flag) and
 * reused for every prompt, because making one hashes the two names. Follows lib/kv-hashing/src/salt.rs at v1.5.0.
 */
import { setHashAt, toHashColumn, WarmrouteError } from '../protocol/index.js'
import type { HashColumn } from '../protocol/index.js'
import { utf8 } from './bytes.js'
import { xxh3Into } from './xxh3.js'

/** The seed of every chain, and what the block seed starts from. */
export const baseSeed = 1337n

/**
 * Made by `createHashScheme`.
 *
 * @example
 * import { computeBlockHashes, createHashScheme, type HashScheme } from 'warmroute/core'
 *
 * const schemes: HashScheme[] = ['a', 'b'].map((cacheNamespace) => createHashScheme({ blockSize: 16, cacheNamespace }))
 * console.log(schemes[0]!.seeds.join() === schemes[1]!.seeds.join()) // => false
 */
export interface HashScheme {
  readonly blockSize: number
  /** Windows overlap by one token: block i also covers the first token of block i + 1. */
  readonly isEagle: boolean
  /** Block seed, then chain seed. */
  readonly seeds: HashColumn
}

/** What sets a prompt's blocks apart from the same tokens elsewhere. Empty means absent, as it does for an engine. */
export interface PromptNames {
  /** Adapter name; on the wire `lora_name`. */
  readonly loraName?: string | null | undefined
  /** On the wire `cache_namespace` or `cache_salt`. */
  readonly cacheNamespace?: string | null | undefined
}

/**
 * What a scheme is made of.
 *
 * @example
 * import { createHashScheme, type HashSchemeOptions } from 'warmroute/core'
 *
 * const options: HashSchemeOptions = { blockSize: 64, isEagle: true }
 * console.log(createHashScheme(options).isEagle) // => true
 */
export interface HashSchemeOptions extends PromptNames {
  /** Tokens per block. 0 is legal and yields no hashes. */
  readonly blockSize: number
  readonly isEagle?: boolean | undefined
}

/**
 * What makes two prompts comparable: block size, adapter and tenant. Make one per combination and keep it.
 *
 * @example
 * import { createHashScheme } from 'warmroute/core'
 *
 * const scheme = createHashScheme({ blockSize: 16, loraName: 'sql', cacheNamespace: 'tenant-7' })
 * console.log(scheme.blockSize, scheme.isEagle) // => 16 false
 */
export function createHashScheme(options: HashSchemeOptions): HashScheme {
  return seededScheme(options.blockSize, options.isEagle ?? false, blockSeed(options), baseSeed)
}

/** A scheme whose seeds come from elsewhere, for instance from a key. */
export function seededScheme(blockSize: number, isEagle: boolean, ofBlocks: bigint, ofChain: bigint): HashScheme {
  if (!Number.isInteger(blockSize) || blockSize < 0 || blockSize > 0xffff_ffff) {
    throw new WarmrouteError('WR_INVALID_ARGUMENT', {
      reason: 'a block size is an integer from 0 to 4294967295',
      blockSize,
    })
  }
  return { blockSize, isEagle, seeds: toHashColumn([ofBlocks, ofChain]) }
}

/** The seed of local block hashes: names are added to it, not to the hashed bytes. The inner seeds 0 and 1 keep the same text apart. */
export function blockSeed(names: PromptNames): bigint {
  let seed = baseSeed
  if (names.loraName) seed += xxh3(utf8(names.loraName), 0n)
  if (names.cacheNamespace) seed += xxh3(utf8(names.cacheNamespace), 1n)
  return BigInt.asUintN(64, seed)
}

/** Tokens that one block's hash covers; at most one more than `blockSize`. */
export function windowOf(scheme: HashScheme): number {
  return scheme.isEagle ? scheme.blockSize + 1 : scheme.blockSize
}

/** How many complete blocks a prompt has. A partial tail is never hashed. */
export function blockCountOf(scheme: HashScheme, tokenCount: number): number {
  if (scheme.blockSize === 0) return 0
  return Math.floor(Math.max(0, scheme.isEagle ? tokenCount - 1 : tokenCount) / scheme.blockSize)
}

export function isSameScheme(a: HashScheme, b: HashScheme): boolean {
  if (a === b) return true
  if (a.blockSize !== b.blockSize || a.isEagle !== b.isEagle) return false
  return a.seeds.every((word, at) => word === b.seeds[at])
}

/** XXH3-64 of any bytes, for the public edge and for names. */
export function xxh3(bytes: Uint8Array, seed: bigint): bigint {
  setHashAt(seedWords, 0, seed)
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  xxh3Into(result, 0, view, 0, bytes.byteLength, seedWords[0]!, seedWords[1]!)
  return resultAsU64[0]!
}

const seedWords: HashColumn = new Uint32Array(2)
const result: HashColumn = new Uint32Array(2)
const resultAsU64 = new BigUint64Array(result.buffer)
