/** The tokens of one request, with how we know them. Immutable; block hashes are computed when asked for and then kept. */
import type { BlockHasher, BlockMedia, HashScheme } from '../core/hashing/index.js'
import { BlockHashes, isSameScheme, toBlockExtraInfo, toBlockMedia } from '../core/hashing/index.js'
import type { MmExtraInfo } from '../core/protocol/index.js'
import { nextTurn, sliceIds } from './next-turn.js'
import type { RememberedText, RememberedTexts } from './remember/remembered-texts.js'

/** Where ids came from. */
export type TokensSource =
  | 'request' // the request carries them
  | 'tokenizer' // encoded here
  | 'engine' // the engine encoded them for us

/** How sure we are that the engine has the same ids. A running comparison may still find out otherwise. */
export type Exactness =
  | 'proven' // by the engine itself, or by rules that recordings of a real engine confirm
  | 'expected' // by rules that we know from the engine's source alone, or by a clock that may not be the engine's

/** What a remembered text adds: hashes of the shared part need not be computed again. */
export interface Kinship {
  readonly memory: RememberedTexts
  /** This text, where it is remembered itself. */
  readonly own: RememberedText | undefined
  readonly near: RememberedText | undefined
  /** Leading ids that `near` shares. */
  readonly sharedTokens: number
}

/** Milliseconds that making them took. */
export interface TokensTook {
  readonly templateMs: number | undefined
  readonly encodeMs: number
}

export interface TokensParts {
  readonly ids: Uint32Array
  readonly source: TokensSource
  readonly exactness: Exactness
  /** Prompts in the request, for a batch; `ids` are those of the first. */
  readonly promptCount?: number
  /** Ids of all prompts together. */
  readonly totalCount?: number
  readonly kinship?: Kinship | undefined
  /** Images and the like, by their places in `ids`; such a prompt has no kin. */
  readonly media?: MmExtraInfo | undefined
  readonly took?: TokensTook | undefined
}

export class Tokens {
  readonly ids: Uint32Array
  readonly source: TokensSource
  readonly exactness: Exactness
  readonly promptCount: number
  readonly totalCount: number
  readonly media: MmExtraInfo | undefined
  readonly took: TokensTook | undefined
  readonly #kinship: Kinship | undefined
  readonly #hashed: BlockHashes[]

  constructor(parts: TokensParts) {
    this.ids = parts.ids
    this.source = parts.source
    this.exactness = parts.exactness
    this.promptCount = parts.promptCount ?? 1
    this.totalCount = parts.totalCount ?? parts.ids.length
    this.media = parts.media
    this.took = parts.took
    this.#kinship = parts.media ? undefined : parts.kinship
    this.#hashed = this.#kinship?.own?.hashes ?? []
  }

  /** The media that each block of this size touches; undefined where there are none. */
  mediaByBlock(blockSize: number): readonly (MmExtraInfo | null)[] | undefined {
    return this.media && toBlockExtraInfo(this.media, blockSize, this.ids.length, 'kept')
  }

  /** So many that hashing them at once would hold the loop: see `hashAhead`. */
  get isLong(): boolean {
    return this.ids.length > sliceIds
  }

  /** Makes what `blockHashes` gives, for ids of any number: others have their turn of the loop meanwhile. */
  async hashAhead(scheme: HashScheme, hasher: BlockHasher): Promise<void> {
    if (!this.isLong || this.#known(scheme)) return
    const hashes = new BlockHashes()
    const media = this.#media(scheme)
    const near = this.#near(scheme)
    const shared = near ? this.#kinship!.sharedTokens : 0
    let end = Math.min(this.ids.length, shared + sliceIds)
    const first = this.ids.subarray(0, end)
    if (near) hasher.extend(near, first, scheme, { into: hashes, sharedTokens: shared })
    else hasher.hash(first, scheme, hashes, media)
    while (end < this.ids.length) {
      await nextTurn()
      const sharedTokens = end
      end = Math.min(this.ids.length, end + sliceIds)
      hasher.extend(hashes, end < this.ids.length ? this.ids.subarray(0, end) : this.ids, scheme, {
        media,
        sharedTokens,
      })
    }
    if (!this.#known(scheme)) this.#keep(hashes)
  }

  /** Hashes of every complete block. What a remembered text shares is copied, not hashed again. The result is not to be changed. */
  blockHashes(scheme: HashScheme, hasher: BlockHasher): BlockHashes {
    const known = this.#known(scheme)
    if (known) return known
    const hashes = new BlockHashes()
    const near = this.#near(scheme)
    if (near) hasher.extend(near, this.ids, scheme, { into: hashes, sharedTokens: this.#kinship!.sharedTokens })
    else hasher.hash(this.ids, scheme, hashes, this.#media(scheme))
    this.#keep(hashes)
    return hashes
  }

  #known(scheme: HashScheme): BlockHashes | undefined {
    return this.#hashed.find((it) => isOf(it, scheme)) // of these ids: those of a truncated text are no one's own
  }

  #near(scheme: HashScheme): BlockHashes | undefined {
    return this.#kinship?.near?.hashes.find((it) => isOf(it, scheme))
  }

  #media({ blockSize }: HashScheme): BlockMedia | undefined {
    return toBlockMedia(this.mediaByBlock(blockSize) ?? [])
  }

  #keep(hashes: BlockHashes): void {
    if (this.#kinship?.own) this.#kinship.memory.addHashes(this.#kinship.own, hashes)
    else this.#hashed.push(hashes)
  }
}

function isOf(hashes: BlockHashes, scheme: HashScheme): boolean {
  return hashes.scheme !== undefined && isSameScheme(hashes.scheme, scheme)
}
