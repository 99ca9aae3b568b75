/**
 * From tokens to block hashes. `hash` starts from nothing; `extend` starts from the hashes of an earlier prompt, compares
 * tokens and hashes only what is new. Both fill a `BlockHashes` that the caller owns.
 */
import { newHashColumn, WarmrouteError } from '../protocol/index.js'
import type { HashColumn } from '../protocol/index.js'
import type { HashBackend, HashBackendName } from './backend.js'
import type { BlockHashes } from './block-hashes.js'
import type { BlockMedia } from './block-media.js'
import { commonMediaBlocks, mediaCountAt } from './block-media.js'
import { commonPrefix } from './common-prefix.js'
import type { HashScheme } from './hash-scheme.js'
import { blockCountOf, isSameScheme, windowOf } from './hash-scheme.js'
import { TsBackend } from './ts-backend.js'
import { WasmBackend } from './wasm-backend.js'

export interface BlockHasherOptions {
  /** Left out: WebAssembly where it runs, else TypeScript. Asking for `wasm` where it does not run is an error. */
  readonly backend?: HashBackendName | undefined
}

export interface ExtendOptions {
  /** Where the result goes; left out, into the known hashes. */
  readonly into?: BlockHashes | undefined
  /** Of the new prompt. */
  readonly media?: BlockMedia | undefined
  /** So many leading tokens are known to be the same (a token cache may know) and are not compared again. */
  readonly sharedTokens?: number | undefined
}

/**
 * Makes a hasher with memory of its own (about 200 kB); one per thread is enough.
 *
 * @example
 * import { createBlockHasher } from 'warmroute/core'
 *
 * console.log(createBlockHasher({ backend: 'ts' }).backend) // => ts
 */
export function createBlockHasher(options: BlockHasherOptions = {}): BlockHasher {
  if (options.backend === 'ts') return new BlockHasher(new TsBackend())
  const wasm = WasmBackend.create()
  if (wasm === undefined && options.backend === 'wasm') {
    throw new WarmrouteError('WR_INVALID_ARGUMENT', {
      reason: 'WebAssembly with SIMD does not run here',
      backend: 'wasm',
    })
  }
  return new BlockHasher(wasm ?? new TsBackend())
}

/**
 * Hashes prompts into columns that are used again; nothing is allocated per prompt.
 *
 * @example
 * import { BlockHashes, type BlockHasher, createBlockHasher, createHashScheme } from 'warmroute/core'
 *
 * const hasher: BlockHasher = createBlockHasher()
 * const scheme = createHashScheme({ blockSize: 2 })
 * const [turn, nextTurn] = [new BlockHashes(), new BlockHashes()]
 * hasher.hash(Uint32Array.of(1, 2, 3, 4), scheme, turn)
 * hasher.extend(turn, Uint32Array.of(1, 2, 3, 4, 5, 6), scheme, { into: nextTurn })
 * console.log(nextTurn.count) // => 3
 */
export class BlockHasher {
  readonly #backend: HashBackend
  #scratch: Uint32Array = new Uint32Array(64)

  constructor(backend: HashBackend) {
    this.#backend = backend
  }

  get backend(): HashBackendName {
    return this.#backend.name
  }

  /** Hashes every complete block of `tokens`. */
  hash(tokens: Uint32Array, scheme: HashScheme, into: BlockHashes, media?: BlockMedia): void {
    const count = blockCountOf(scheme, tokens.length)
    into.reserve(count, 0)
    this.#fill(tokens, scheme, media, 0, count, into)
  }

  /**
   * The same result as `hash`, taking from `known` what both prompts share. Answers how many blocks were taken over.
   * Without `options.into`, `known` itself is extended and no hash is copied. With it, the new hashes go behind the known
   * ones where there is room, and `known` keeps its own.
   */
  extend(known: BlockHashes, tokens: Uint32Array, scheme: HashScheme, options: ExtendOptions = {}): number {
    const { into = known, media } = options
    const count = blockCountOf(scheme, tokens.length)
    const shared = sharedBlocks(known, tokens, scheme, count, options)
    if (into === known || shared === 0) into.reserve(count, shared)
    else into.continueFrom(known, shared, count)
    this.#fill(tokens, scheme, media, shared, count, into)
    return shared
  }

  /** Chains local hashes that came from elsewhere, for instance from a request that carries them. */
  chain(local: HashColumn, scheme: HashScheme, sequence: HashColumn): void {
    this.#backend.chainBlocks(scheme, 0, local.length >>> 1, local, sequence)
  }

  #fill(
    tokens: Uint32Array,
    scheme: HashScheme,
    media: BlockMedia | undefined,
    from: number,
    count: number,
    into: BlockHashes,
  ): void {
    const { local, sequence } = into
    if (from < count) this.#backend.hashBlocks(tokens, scheme, from, count, local, sequence)
    const firstWithMedia = media ? this.#hashMediaBlocks(tokens, scheme, media, from, count, local) : count
    if (firstWithMedia < count) this.#backend.chainBlocks(scheme, firstWithMedia, count, local, sequence)
    into.tokens = tokens
    into.scheme = scheme
    into.media = media
    into.count = count
  }

  /** Media are rare: blocks that carry some are hashed once more, one by one, and the chain runs again from the first. */
  #hashMediaBlocks(
    tokens: Uint32Array,
    scheme: HashScheme,
    media: BlockMedia,
    from: number,
    count: number,
    local: HashColumn,
  ): number {
    const window = windowOf(scheme)
    let first = count
    for (let block = from; block < Math.min(count, media.blockCount); block++) {
      const mediaCount = mediaCountAt(media, block)
      if (mediaCount === 0) continue
      const words = this.#scratchOf(window + 2 * mediaCount)
      const start = block * scheme.blockSize
      words.set(tokens.subarray(start, start + window))
      const at = media.starts[block]!
      words.set(media.hashes.subarray(2 * at, 2 * (at + mediaCount)), window)
      this.#backend.hashWords(words, scheme, local, block)
      if (first === count) first = block
    }
    return first
  }

  #scratchOf(length: number): Uint32Array {
    if (this.#scratch.length < length) this.#scratch = newHashColumn(length)
    return this.#scratch.subarray(0, length)
  }
}

/** Blocks that `known` already has hashes for: same scheme, same tokens in the whole window, same media. */
function sharedBlocks(
  known: BlockHashes,
  tokens: Uint32Array,
  scheme: HashScheme,
  count: number,
  { media, sharedTokens = 0 }: ExtendOptions,
): number {
  if (known.scheme === undefined || known.count === 0 || !known.isWhole || !isSameScheme(known.scheme, scheme)) return 0
  const blocks = blockCountOf(scheme, commonPrefix(known.tokens, tokens, sharedTokens))
  return commonMediaBlocks(known.media, media, Math.min(blocks, known.count, count))
}
