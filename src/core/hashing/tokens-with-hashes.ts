/**
 * A prompt that computes its hashes when first asked and keeps them. Changing anything that enters the hashes drops them;
 * setting an option to what it already is does not matter, but for media, where no comparison is made.
 */
import type { HashColumn, MmExtraInfo } from '../protocol/index.js'
import type { BlockHasher } from './block-hasher.js'
import { BlockHashes } from './block-hashes.js'
import { toBlockMedia } from './block-media.js'
import { sharedHasher } from './compute.js'
import { createHashScheme } from './hash-scheme.js'
import type { PromptNames } from './hash-scheme.js'

export class TokensWithHashes {
  readonly tokens: Uint32Array
  readonly blockSize: number
  readonly #hasher: BlockHasher
  readonly #hashes = new BlockHashes()
  #names: PromptNames = {}
  #isEagle = false
  #blockExtraInfo: readonly (MmExtraInfo | null)[] | undefined
  #isComputed = false

  constructor(tokens: Uint32Array, blockSize: number, hasher: BlockHasher = sharedHasher()) {
    this.tokens = tokens
    this.blockSize = blockSize
    this.#hasher = hasher
  }

  /** False after construction and after every change: the next question computes. */
  get isComputed(): boolean {
    return this.#isComputed
  }

  setBlockExtraInfo(blocks: readonly (MmExtraInfo | null)[] | undefined): this {
    this.#blockExtraInfo = blocks
    this.#isComputed = false
    return this
  }

  setLoraName(loraName: string | null): this {
    this.#names = { ...this.#names, loraName }
    this.#isComputed = false
    return this
  }

  setCacheNamespace(cacheNamespace: string | null): this {
    this.#names = { ...this.#names, cacheNamespace }
    this.#isComputed = false
    return this
  }

  setIsEagle(isEagle: boolean): this {
    if (isEagle !== this.#isEagle) this.#isComputed = false
    this.#isEagle = isEagle
    return this
  }

  /** The columns below, with their count; valid until an option changes. */
  hashes(): BlockHashes {
    if (!this.#isComputed) {
      const scheme = createHashScheme({ ...this.#names, blockSize: this.blockSize, isEagle: this.#isEagle })
      const media = this.#blockExtraInfo && toBlockMedia(this.#blockExtraInfo)
      this.#hasher.hash(this.tokens, scheme, this.#hashes, media)
      this.#isComputed = true
    }
    return this.#hashes
  }

  localHashes(): HashColumn {
    return this.hashes().localColumn()
  }

  sequenceHashes(): HashColumn {
    return this.hashes().sequenceColumn()
  }
}
