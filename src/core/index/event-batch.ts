/**
 * Many KV events of many ranks in one buffer of u32 words, so that they cross into WebAssembly in one call.
 *
 *   event   [ kind | flags, rank, blockCount, 0, parentLo, parentHi ]  six words, so that hashes stay 8-byte aligned
 *           [ external hashes: 2 words each ]                          stored and removed
 *           [ local hashes: 2 words each ]                             stored
 */
import type { HashColumn, Rank } from '../protocol/index.js'
import { hashCount, WarmrouteError } from '../protocol/index.js'

export const eventKinds = { stored: 0, removed: 1, cleared: 2 } as const

/** Set in an event's first word when its parent words mean something: external hash 0 is a legal parent. */
export const hasParentFlag = 0x100

export const eventHeaderWords = 6

/** Ranks are bits of holder sets, so a wild rank number would cost memory in every set. */
export const ranksMax = 65_536

export class EventBatch {
  /** The packed events; only the first `wordCount` words count. Replaced when the batch grows. */
  words: Uint32Array
  wordCount = 0
  eventCount = 0
  blockCount = 0

  constructor(wordCapacity = 4096) {
    this.words = new Uint32Array(Math.max(eventHeaderWords, wordCapacity))
  }

  clear(): void {
    this.wordCount = 0
    this.eventCount = 0
    this.blockCount = 0
  }

  /** Blocks in chain order below `parent` (a column of one hash), or below the root. */
  stored(
    rank: Rank,
    parent: HashColumn | undefined,
    external: HashColumn,
    local: HashColumn,
    count: number = hashCount(external),
  ): void {
    const at = this.openStored(rank, count, parent !== undefined, parent?.[0] ?? 0, parent?.[1] ?? 0)
    this.words.set(external.subarray(0, 2 * count), at)
    this.words.set(local.subarray(0, 2 * count), at + 2 * count)
  }

  removed(rank: Rank, external: HashColumn, count: number = hashCount(external)): void {
    const at = this.openRemoved(rank, count)
    this.words.set(external.subarray(0, 2 * count), at)
  }

  /** The rank holds nothing any more. */
  cleared(rank: Rank): void {
    this.#open(eventKinds.cleared, rank, 0, 0)
  }

  /** Adds one event that is packed already. */
  append(event: Uint32Array, blocks: number): void {
    const end = this.wordCount + event.length
    if (end > this.words.length) this.#grow(end)
    this.words.set(event, this.wordCount)
    this.wordCount = end
    this.eventCount++
    this.blockCount += blocks
  }

  /**
   * The form without copies: answers the word at which the caller writes `count` external hashes and, right behind
   * them, `count` local ones.
   */
  openStored(rank: Rank, count: number, hasParent: boolean, parentLo: number, parentHi: number): number {
    const at = this.#open(eventKinds.stored | (hasParent ? hasParentFlag : 0), rank, count, 4 * count)
    this.words[at - 2] = parentLo
    this.words[at - 1] = parentHi
    return at
  }

  /** Answers the word at which the caller writes `count` external hashes. */
  openRemoved(rank: Rank, count: number): number {
    return this.#open(eventKinds.removed, rank, count, 2 * count)
  }

  #open(kind: number, rank: Rank, count: number, payloadWords: number): number {
    if (!(rank >= 0 && rank < ranksMax)) {
      throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: `rank must be below ${ranksMax}`, rank })
    }
    const start = this.wordCount
    const at = start + eventHeaderWords
    if (at + payloadWords > this.words.length) this.#grow(at + payloadWords)
    const words = this.words
    words[start] = kind
    words[start + 1] = rank
    words[start + 2] = count
    words[start + 3] = 0
    words[start + 4] = 0
    words[start + 5] = 0
    this.wordCount = at + payloadWords
    this.eventCount++
    this.blockCount += count
    return at
  }

  #grow(wordsNeeded: number): void {
    const wider = new Uint32Array(Math.max(wordsNeeded, 2 * this.words.length))
    wider.set(this.words.subarray(0, this.wordCount))
    this.words = wider
  }
}
