/**
 * From a prompt to the hashes that routing needs: those the index knows it by, and those its blocks are called by while
 * it runs. Keeps one scheme per adapter and namespace, because making one hashes the names.
 */
import { readFileSync } from 'node:fs'
import type { BlockHasher, BlockHashes, HashScheme, TrackingHashing } from '../core/hashing/index.js'
import {
  createBlockHasher,
  createHashScheme,
  createTrackingHashing,
  fillTrackingHashes,
  toBlockMedia,
} from '../core/hashing/index.js'
import type { HashColumn, MmExtraInfo, RouterConfig, RouterConfigOverride } from '../core/protocol/index.js'
import { assumesKvReuse, newHashColumn, trackedBlockCount, WarmrouteError } from '../core/protocol/index.js'
import type { Randomness } from './router-ports.js'

export interface PromptInput {
  readonly tokens: Uint32Array
  readonly blockMmInfos?: readonly (MmExtraInfo | null)[] | undefined
  readonly loraName?: string | undefined
  readonly cacheNamespace?: string | undefined
}

export interface PromptHashingOptions {
  readonly config: RouterConfig
  readonly blockSize: number
  readonly isEagle: boolean
  readonly modelName: string | undefined
  readonly random: Randomness
}

/** Names come from requests; more than this many at once are forgotten and made again. */
const schemesMax = 1024

export class PromptHashing {
  readonly #options: PromptHashingOptions
  readonly #hasher: BlockHasher = createBlockHasher()
  readonly #tracking: TrackingHashing
  readonly #schemes = new Map<string, { readonly index: HashScheme; readonly tracking: HashScheme }>()

  constructor(options: PromptHashingOptions) {
    const { routerTrackingHash: hash, routerTrackingKeyFile: keyFile, routerTrackingKeyId: keyId } = options.config
    if (hash === 'keyed-xxh3-v1' && options.modelName === undefined)
      throw new WarmrouteError('WR_INVALID_CONFIG', { reason: 'keyed-xxh3-v1 requires a model name' })
    this.#options = options
    this.#tracking = createTrackingHashing({ hash, keyFile, keyId }, (path) => readFileSync(path))
  }

  /** Fills `into` with what the index knows the prompt by. */
  hash(prompt: PromptInput, into: BlockHashes): void {
    const media = prompt.blockMmInfos && toBlockMedia(prompt.blockMmInfos)
    this.#hasher.hash(prompt.tokens, this.#schemesOf(prompt).index, into, media)
  }

  /**
   * What the blocks are called while the request runs; nothing when blocks are not tracked. `known` is the result of
   * `hash`, and `scratch` is used where the names are others.
   */
  trackingNames(
    prompt: PromptInput,
    override: RouterConfigOverride | undefined,
    known: BlockHashes,
    scratch: BlockHashes,
  ): HashColumn | undefined {
    const { config, random } = this.#options
    if (!config.routerTrackActiveBlocks) return undefined
    const isReuseAssumed = assumesKvReuse(config, override)
    if (isReuseAssumed && this.#tracking.name === 'public-xxh3-v1') return known.sequence
    const media = prompt.blockMmInfos && toBlockMedia(prompt.blockMmInfos)
    const scheme = this.#schemesOf(prompt).tracking
    fillTrackingHashes(
      { tokens: prompt.tokens, scheme, media, isReuseAssumed, known },
      this.#hasher,
      (words) => random.fill(words),
      scratch,
    )
    return scratch.sequence
  }

  /** The same for a prompt whose hashes are all that is known of it: `sequence` is what the index knows it by. */
  namesFrom(
    sequence: HashColumn,
    blockCount: number,
    override: RouterConfigOverride | undefined,
  ): HashColumn | undefined {
    const { config } = this.#options
    if (!config.routerTrackActiveBlocks) return undefined
    // Keyed names need the tokens; public ones in their place would tell peers what the key is there to hide.
    const isPublic = this.#tracking.name === 'public-xxh3-v1'
    return isPublic && assumesKvReuse(config, override) ? sequence : this.#privateNames(blockCount)
  }

  /** The same for a prompt of which only the length is known. */
  namesForLength(tokenCount: number): HashColumn | undefined {
    const { config, blockSize, isEagle } = this.#options
    if (!config.routerTrackActiveBlocks) return undefined
    return this.#privateNames(trackedBlockCount(tokenCount, blockSize, isEagle))
  }

  /** The chain over local hashes that were kept while the request waited. */
  chain(local: HashColumn, prompt: Pick<PromptInput, 'loraName' | 'cacheNamespace'>): HashColumn {
    const sequence = newHashColumn(local.length >>> 1)
    this.#hasher.chain(local, this.#schemesOf(prompt).index, sequence)
    return sequence
  }

  /** Names that no other request has. */
  #privateNames(count: number): HashColumn {
    const names = newHashColumn(count)
    if (count > 0) this.#options.random.fill(names)
    return names
  }

  #schemesOf({ loraName, cacheNamespace }: Pick<PromptInput, 'loraName' | 'cacheNamespace'>): {
    readonly index: HashScheme
    readonly tracking: HashScheme
  } {
    const key = JSON.stringify([loraName, cacheNamespace])
    let schemes = this.#schemes.get(key)
    if (!schemes) {
      const { blockSize, isEagle, modelName = '' } = this.#options
      const names = { blockSize, isEagle, loraName, cacheNamespace }
      const tracking = this.#tracking.schemeOf({ ...names, modelName, routingGroup: 'default' })
      schemes = { index: createHashScheme(names), tracking }
      if (this.#schemes.size >= schemesMax) this.#schemes.clear()
      this.#schemes.set(key, schemes)
    }
    return schemes
  }
}
