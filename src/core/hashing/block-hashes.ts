/**
 * The hashes of one prompt, together with what they were computed from, so that the next prompt of the conversation can
 * start from them. One instance is filled again and again: its columns grow, are never shrunk, and are valid up to `count`.
 *
 * The next prompt may be written on behind the previous one, in the same columns (`continueFrom`): a conversation that is kept
 * turn by turn then copies its hashes only when the columns are full. Whoever shares columns never writes over what others
 * were given.
 *
 * The local hashes may lie in a column that somebody lends, for instance an index in its own memory, so that a lookup need
 * not copy them. Such an instance is for one prompt after the other: whoever lends may take the column back at any time,
 * and its length is 0 then.
 */
import { newHashColumn } from '../protocol/index.js'
import type { HashColumn } from '../protocol/index.js'
import type { BlockMedia } from './block-media.js'
import type { HashScheme } from './hash-scheme.js'

/** Shared, since a typed array costs about a microsecond and a prompt's hashes begin with three of these. */
const noHashes: HashColumn = newHashColumn(0)
const noTokens: Uint32Array = new Uint32Array(0)

/** How far columns are written that several prompts share. */
interface Sharing {
  written: number
}

/**
 * The hashes of one prompt, kept so that the next prompt of the same conversation is hashed from where they part.
 *
 * @example
 * import { BlockHashes, createBlockHasher, createHashScheme } from 'warmroute/core'
 *
 * const hashes = new BlockHashes()
 * createBlockHasher().hash(Uint32Array.of(1, 2, 3, 4, 5), createHashScheme({ blockSize: 2 }), hashes)
 * console.log(hashes.count, hashes.localColumn().length) // => 2 4
 */
export class BlockHashes {
  /** Complete blocks hashed. */
  count = 0
  /** Content hash of each block, wherever it stands in the prompt. */
  local: HashColumn = noHashes
  /** Hash of the chain up to and including each block. */
  sequence: HashColumn = noHashes

  /**
   * The prompt itself, by reference: it must not change while these hashes are used as a known prefix. Copying it would
   * cost as much as comparing it.
   */
  tokens: Uint32Array = noTokens
  scheme: HashScheme | undefined
  media: BlockMedia | undefined
  readonly #lend: ((blockCount: number) => HashColumn) | undefined
  #sharing: Sharing | undefined

  /** `lend`: where local hashes go, asked for whenever there is no room for them. */
  constructor(lend?: (blockCount: number) => HashColumn) {
    this.#lend = lend
  }

  /** False where a lent column was taken back: nothing is known then. */
  get isWhole(): boolean {
    return this.local.length >= 2 * this.count
  }

  /** Makes room for `count` blocks and keeps the first `keep`; what follows them is about to be written. */
  reserve(count: number, keep: number): void {
    if (this.#sharing) this.#write(this.#sharing, count, keep)
    if (this.local.length < 2 * count) this.local = this.#roomFor(count, this.local, keep)
    if (this.sequence.length < 2 * count) this.sequence = grown(this.sequence, count, keep)
  }

  /** Takes over the first `keep` hashes of an earlier prompt and makes room for `count`: in its columns, if they end there. */
  continueFrom(known: BlockHashes, keep: number, count: number): void {
    const hasRoom = known.local.length >= 2 * count && known.sequence.length >= 2 * count
    if (!this.#lend && !known.#lend && hasRoom && keep === (known.#sharing?.written ?? known.count)) {
      known.#sharing ??= { written: keep }
      known.#sharing.written = count
      this.#sharing = known.#sharing
      this.local = known.local
      this.sequence = known.sequence
      return
    }
    // Half as much again, so that the turns to come find room.
    if (this.local.length < 2 * count) this.reserve(this.#lend ? count : Math.ceil(1.5 * count), 0)
    else this.reserve(count, 0)
    this.local.set(known.local.subarray(0, 2 * keep))
    this.sequence.set(known.sequence.subarray(0, 2 * keep))
  }

  /** Forgets the prompt and keeps the memory. */
  clear(): void {
    this.count = 0
    this.tokens = noTokens
    this.scheme = undefined
    this.media = undefined
  }

  /** The valid part of a column, as a view; it lives until the next call that fills this instance. */
  localColumn(): HashColumn {
    return this.local.subarray(0, 2 * this.count)
  }

  sequenceColumn(): HashColumn {
    return this.sequence.subarray(0, 2 * this.count)
  }

  /** Others may have been given what lies behind `keep`: then these columns are left to them. */
  #write(sharing: Sharing, count: number, keep: number): void {
    if (keep === sharing.written && 2 * count <= Math.min(this.local.length, this.sequence.length)) {
      sharing.written = count
      return
    }
    this.#sharing = undefined
    const [local, sequence] = [this.local, this.sequence]
    this.local = newHashColumn(count)
    this.sequence = newHashColumn(count)
    this.local.set(local.subarray(0, 2 * keep))
    this.sequence.set(sequence.subarray(0, 2 * keep))
  }

  #roomFor(count: number, column: HashColumn, keep: number): HashColumn {
    if (!this.#lend) return grown(column, count, keep)
    if (keep === 0) return this.#lend(count) // a column that was taken back cannot be read
    const kept = column.slice(0, 2 * keep) // the new room may be the old one's place
    const room = this.#lend(count)
    room.set(kept)
    return room
  }
}

function grown(column: HashColumn, count: number, keep: number): HashColumn {
  const larger = newHashColumn(Math.max(count, column.length)) // at least twice the old capacity, in hashes
  if (keep > 0) larger.set(column.subarray(0, 2 * keep))
  return larger
}
