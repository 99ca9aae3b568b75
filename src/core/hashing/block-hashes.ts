/**
 * The hashes of one prompt, together with what they were computed from, so that the next prompt of the conversation can
 * start from them. One instance is filled again and again: its columns grow, are never shrunk, and are valid up to `count`.
 */
import { newHashColumn } from '../protocol/index.js'
import type { HashColumn } from '../protocol/index.js'
import type { BlockMedia } from './block-media.js'
import type { HashScheme } from './hash-scheme.js'

export class BlockHashes {
  /** Complete blocks hashed. */
  count = 0
  /** Content hash of each block, wherever it stands in the prompt. */
  local: HashColumn = newHashColumn(0)
  /** Hash of the chain up to and including each block. */
  sequence: HashColumn = newHashColumn(0)

  /**
   * The prompt itself, by reference: it must not change while these hashes are used as a known prefix. Copying it would
   * cost as much as comparing it.
   */
  tokens: Uint32Array = new Uint32Array(0)
  scheme: HashScheme | undefined
  media: BlockMedia | undefined

  /** Makes room for `count` blocks and keeps the first `keep`. */
  reserve(count: number, keep: number): void {
    if (this.local.length >= 2 * count) return
    const capacity = Math.max(count, this.local.length) // twice the old capacity, in hashes
    this.local = grown(this.local, capacity, keep)
    this.sequence = grown(this.sequence, capacity, keep)
  }

  /** Forgets the prompt and keeps the memory. */
  clear(): void {
    this.count = 0
    this.tokens = new Uint32Array(0)
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
}

function grown(column: HashColumn, capacity: number, keep: number): HashColumn {
  const larger = newHashColumn(capacity)
  larger.set(column.subarray(0, 2 * keep))
  return larger
}
