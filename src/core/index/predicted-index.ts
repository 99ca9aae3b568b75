/**
 * An index of what our own routing decisions should have put into caches. A decision is stored as if the engine had
 * reported it, under sequence hashes, and is forgotten after a time to live; asking again in time keeps it. Used alone
 * where engines send no events (approximate mode), and beside the exact index to bridge the time until events arrive.
 *
 * Blocks that an engine did report have no timer and never expire.
 */
import { type HashColumn, hashCount, newHashColumn, type Rank, WarmrouteError } from '../protocol/index.js'
import { ApplyReport, type EventStatus } from './apply-report.js'
import { EventBatch, eventHeaderWords, eventKinds } from './event-batch.js'
import { ExpiryQueue, type ExpiryOptions } from './expiry-queue.js'
import type { PrefixIndex } from './prefix-index.js'

export interface PredictedOptions extends ExpiryOptions {
  /** Predicted blocks over all ranks; past it the oldest prediction goes, and is counted. */
  readonly blocksMax: number
  /**
   * What a decision takes away at most of predictions that have ended, and what a rank may have to be cleared at once: the rest goes
   * in later calls of `expire` and `drain`. Default: everything goes at once.
   */
  readonly stepBlocks?: number | undefined
}

/** Removals per crossing: bounds the batch however many predictions end together. */
const takeMax = 65_536

export class PredictedIndex {
  readonly index: PrefixIndex
  readonly #expiry: ExpiryQueue
  readonly #blocksMax: number
  readonly #stepBlocks: number
  readonly #batch = new EventBatch()
  readonly #report = new ApplyReport()
  /** False until an engine reports something: until then every block here is a prediction, and nobody need ask. */
  #hasReported = false
  #isReported = new Uint8Array(0) // by block of the decision at hand
  readonly #asked = newHashColumn(1)
  #expiredBlocks = 0
  #evictedBlocks = 0

  constructor(index: PrefixIndex, options: PredictedOptions) {
    this.index = index
    this.#expiry = new ExpiryQueue(options)
    this.#blocksMax = Math.max(1, options.blocksMax)
    this.#stepBlocks = options.stepBlocks ?? Number.POSITIVE_INFINITY
  }

  /** Blocks that will expire unless they are asked for again. */
  get predictedBlocks(): number {
    return this.#expiry.size
  }

  get expiredBlocks(): number {
    return this.#expiredBlocks
  }

  get evictedBlocks(): number {
    return this.#evictedBlocks
  }

  get nextExpiryMs(): number | undefined {
    return this.#expiry.nextExpiryMs
  }

  get timerBytesUsed(): number {
    return this.#expiry.bytesUsed
  }

  /**
   * The request went to this rank: it will hold these blocks. `sequence` is a chain: each hash names all blocks up to its
   * own, and made-up ones may be kept too short or too long. Columns of different lengths are refused and nothing is
   * stored; a store that the index refuses starts no timer.
   */
  record(
    rank: Rank,
    local: HashColumn,
    sequence: HashColumn,
    nowMs: number,
    blockCount = hashCount(local),
  ): EventStatus {
    if (hashCount(local) !== hashCount(sequence) || blockCount > hashCount(local))
      throw new WarmrouteError('WR_INVALID_ARGUMENT', {
        reason: 'a decision needs one sequence hash per local hash',
        localCount: hashCount(local),
        sequenceCount: hashCount(sequence),
      })
    this.expire(nowMs, this.#stepBlocks)
    const count = Math.min(blockCount, this.#blocksMax)
    if (count === 0) return 'ok'
    this.#findReported(rank, sequence, count)
    const status = this.#store(rank, local, sequence, count)
    if (status === 'capacity_exhausted') this.#takeBack(rank, sequence, count)
    if (status !== 'ok' && status !== 'duplicate_store') return status
    this.#expiry.start(rank, sequence, count, nowMs, this.#hasReported ? this.#isReported : undefined)
    this.#evict()
    this.expire(nowMs, this.#stepBlocks) // a time to live of 0 has ended already
    return status
  }

  /**
   * Forgets predictions that have ended, about `blocksMax` of them; answers how many blocks those were. Some are left as long as
   * `nextExpiryMs` has passed, and lookups credit them until they are gone.
   */
  expire(nowMs: number, blocksMax: number = Number.POSITIVE_INFINITY): number {
    const before = this.#expiry.size
    for (let left = blocksMax; left > 0; ) {
      this.#batch.clear()
      const work = this.#expiry.takeEnded(nowMs, Math.min(takeMax, left), this.#batch)
      if (work === 0) break
      // What a cap or an engine's own removal took before is simply gone: the status does not matter.
      this.index.apply(this.#batch, this.#report)
      left -= work
    }
    const expired = before - this.#expiry.size
    this.#expiredBlocks += expired
    return expired
  }

  /** Takes away what cleared ranks left: about `blocksMax` timers, and as many blocks. Answers how many are left. */
  drain(blocksMax: number): number {
    return this.#expiry.drain(blocksMax) + this.index.drain(blocksMax)
  }

  /** Before a batch of real events is applied: what an engine speaks of is no prediction any more. */
  confirm(batch: EventBatch): void {
    this.#hasReported ||= batch.eventCount > 0
    if (this.#expiry.size === 0) return
    const words = batch.words
    for (let at = 0; at < batch.wordCount; ) {
      const kind = words[at]! & 0xff
      const rank = words[at + 1]!
      const count = words[at + 2]!
      at += eventHeaderWords
      if (kind === eventKinds.cleared) this.#expiry.cancelRank(rank, this.#stepBlocks)
      else
        for (let block = 0; block < count; block++)
          this.#expiry.cancel(rank, words[at + 2 * block]!, words[at + 2 * block + 1]!)
      at += kind === eventKinds.stored ? 4 * count : 2 * count
    }
  }

  /** Forgets all of one rank, timers included; answers how many external hashes it held. */
  clearRank(rank: Rank): number {
    this.#expiry.cancelRank(rank, this.#stepBlocks)
    return this.index.clearRank(rank)
  }

  #store(rank: Rank, local: HashColumn, sequence: HashColumn, count: number): EventStatus {
    const known = this.#storedPrefix(rank, sequence, count)
    if (known === count) return 'duplicate_store'
    const parent = known === 0 ? undefined : sequence.subarray(2 * known - 2, 2 * known)
    this.#batch.clear()
    this.#batch.stored(rank, parent, sequence.subarray(2 * known), local.subarray(2 * known), count - known)
    this.index.apply(this.#batch, this.#report)
    return this.#report.statusOf(0)
  }

  /** Memory ran out half way: what got in would have no timer, and would be credited for ever. */
  #takeBack(rank: Rank, sequence: HashColumn, count: number): void {
    this.#batch.clear()
    for (let block = 0; block < count; block++) {
      const name = sequence.subarray(2 * block, 2 * block + 2)
      const isOlder = this.#expiry.has(rank, name[0]!, name[1]!) || (this.#hasReported && this.#isReported[block] === 1)
      if (!isOlder && this.index.holds(rank, name)) this.#batch.removed(rank, name)
    }
    this.index.apply(this.#batch, this.#report)
  }

  /**
   * How many leading blocks need not be stored again. A timer says that we stored the block, not that a cap of the index
   * has left it there; where a rank holds as many blocks as it has timers, and all are ours, none is missing.
   */
  #storedPrefix(rank: Rank, sequence: HashColumn, count: number): number {
    if (this.#hasReported || this.index.blocksOf(rank) !== this.#expiry.sizeOf(rank)) return 0
    return this.#expiry.prefixOf(rank, sequence, count)
  }

  /** A block that is held without a timer was reported by the engine: a decision does not make it mortal. */
  #findReported(rank: Rank, sequence: HashColumn, count: number): void {
    if (!this.#hasReported) return
    if (this.#isReported.length < count) this.#isReported = new Uint8Array(2 * count)
    for (let block = 0; block < count; block++) {
      const lo = (this.#asked[0] = sequence[2 * block]!)
      const hi = (this.#asked[1] = sequence[2 * block + 1]!)
      this.#isReported[block] = !this.#expiry.has(rank, lo, hi) && this.index.holds(rank, this.#asked) ? 1 : 0
    }
  }

  #evict(): void {
    // Timers that are nobody's take room as well; no rank loses a prediction while there are any.
    this.#expiry.drain(Math.max(0, this.#expiry.size + this.#expiry.deadSize - this.#blocksMax))
    const surplus = this.#expiry.size - this.#blocksMax
    if (surplus <= 0) return
    this.#batch.clear()
    this.#expiry.takeOldest(surplus, this.#batch)
    this.#evictedBlocks += surplus
    this.index.apply(this.#batch, this.#report)
  }
}
