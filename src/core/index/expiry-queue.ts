/**
 * Which predicted blocks are due to be forgotten. The time to live is the same for all, so the newest timer is always
 * the last one to end: one queue in order of arrival replaces upstream's heap, and a refresh moves a timer to the end.
 * Follows lib/kv-router/src/indexer/pruning.rs at 1.5.0: ends are rounded up to buckets of 100 ms since the start, and
 * a time to live of 0 ends at once. Time is an argument and never runs backwards here.
 *
 *   timer  rank, hashLo, hashHi, bucket, and its places in two lists      32 bytes, and 16 to 32 in the table
 */
import type { Rank } from '../protocol/index.js'
import type { EventBatch } from './event-batch.js'
import { IdTable, mixWords } from './id-table.js'
import { LinkedRecords, widened } from './linked-records.js'

export const bucketMs = 100

export interface ExpiryOptions {
  readonly ttlMs: number
  /** Buckets are counted from here. */
  readonly startMs: number
  /** Keeps table positions unpredictable to those who choose hashes. */
  readonly seed: number
}

const timerWords = 8
const byAge = 0 // rings of a timer
const ofRank = 1

export class ExpiryQueue {
  readonly #ttlMs: number
  readonly #startMs: number
  readonly #seed: number
  #nowMs: number
  readonly #timers = new LinkedRecords(4, 2)
  readonly #table = new IdTable()
  readonly #oldest = new Uint32Array(1)
  #ranks = new Uint32Array(16) // by rank: first timer + 1

  constructor(options: ExpiryOptions) {
    this.#ttlMs = options.ttlMs
    this.#startMs = options.startMs
    this.#nowMs = options.startMs
    this.#seed = options.seed
  }

  get size(): number {
    return this.#table.size
  }

  get bytesUsed(): number {
    return this.#timers.bytesUsed + this.#table.bytesUsed + this.#ranks.byteLength
  }

  /** When the next timer ends, or undefined: what a caller's clock has to wait for. */
  get nextExpiryMs(): number | undefined {
    const oldest = this.#first
    return oldest < 0 ? undefined : this.#endMs(oldest)
  }

  /** Starts the timer of a block, or moves it to the end of the queue if its bucket is a later one now. */
  start(rank: Rank, hashLo: number, hashHi: number, nowMs: number): void {
    const bucket = this.#bucketAt(nowMs)
    let timer = this.#find(rank, hashLo, hashHi)
    if (timer >= 0) {
      if (this.#timers.words[timerWords * timer + 3] === bucket) return
      this.#timers.remove(byAge, this.#oldest, 0, timer)
    } else timer = this.#newTimer(rank, hashLo, hashHi)
    this.#timers.words[timerWords * timer + 3] = bucket
    this.#timers.append(byAge, this.#oldest, 0, timer)
  }

  /** The block is no prediction any more. True if it had a timer. */
  cancel(rank: Rank, hashLo: number, hashHi: number): boolean {
    const timer = this.#find(rank, hashLo, hashHi)
    if (timer >= 0) this.#drop(timer)
    return timer >= 0
  }

  has(rank: Rank, hashLo: number, hashHi: number): boolean {
    return this.#find(rank, hashLo, hashHi) >= 0
  }

  cancelRank(rank: Rank): void {
    while (rank < this.#ranks.length && this.#ranks[rank] !== 0) this.#drop(this.#ranks[rank]! - 1)
  }

  /** Moves timers that have ended, at most `blocksMax`, into removals; answers how many blocks those name. */
  takeEnded(nowMs: number, blocksMax: number, into: EventBatch): number {
    this.#nowMs = Math.max(this.#nowMs, nowMs)
    let count = 0
    for (let timer = this.#first; timer >= 0 && count < blocksMax; timer = this.#after(timer)) {
      if (this.#endMs(timer) > this.#nowMs) break
      count++
    }
    return this.takeOldest(count, into)
  }

  /** Moves the oldest timers into removals, ended or not. Neighbours of one rank share an event. */
  takeOldest(blockCount: number, into: EventBatch): number {
    let left = Math.min(blockCount, this.size)
    const taken = left
    while (left > 0) {
      const rank = this.#timers.words[timerWords * this.#first]!
      const run = this.#runLength(rank, left)
      let word = into.openRemoved(rank, run)
      for (let block = 0; block < run; block++) {
        const timer = this.#first
        into.words[word++] = this.#timers.words[timerWords * timer + 1]!
        into.words[word++] = this.#timers.words[timerWords * timer + 2]!
        this.#drop(timer)
      }
      left -= run
    }
    return taken
  }

  #runLength(rank: Rank, lengthMax: number): number {
    let length = 0
    for (let timer = this.#first; timer >= 0 && length < lengthMax; length++) {
      if (this.#timers.words[timerWords * timer] !== rank) break
      timer = this.#after(timer)
    }
    return length
  }

  /** Rounded up, so that nothing ends early; with no time to live at all, rounded down: it has ended already. */
  #bucketAt(nowMs: number): number {
    this.#nowMs = Math.max(this.#nowMs, nowMs)
    const buckets = (this.#nowMs - this.#startMs + this.#ttlMs) / bucketMs
    return this.#ttlMs === 0 ? Math.floor(buckets) : Math.ceil(buckets - 1e-9) // 0.07 s is 70.000...01 ms
  }

  #endMs(timer: number): number {
    return this.#startMs + bucketMs * this.#timers.words[timerWords * timer + 3]!
  }

  get #first(): number {
    return this.#oldest[0]! - 1
  }

  #after(timer: number): number {
    return this.#timers.after(byAge, this.#oldest, 0, timer)
  }

  #newTimer(rank: Rank, hashLo: number, hashHi: number): number {
    const timer = this.#timers.allocate()
    const { words } = this.#timers
    words[timerWords * timer] = rank
    words[timerWords * timer + 1] = hashLo
    words[timerWords * timer + 2] = hashHi
    if (rank >= this.#ranks.length) this.#ranks = widened(this.#ranks, rank + 1)
    this.#timers.append(ofRank, this.#ranks, rank, timer)
    this.#table.add(this.#hash(rank, hashLo, hashHi), timer)
    return timer
  }

  #find(rank: Rank, hashLo: number, hashHi: number): number {
    const table = this.#table
    const timers = this.#timers.words
    const hash = this.#hash(rank, hashLo, hashHi)
    for (let slot = table.first(hash); slot >= 0; slot = table.next(slot, hash)) {
      const timer = table.idAt(slot)
      const at = timerWords * timer
      if (timers[at] === rank && timers[at + 1] === hashLo && timers[at + 2] === hashHi) return timer
    }
    return -1
  }

  #drop(timer: number): void {
    const at = timerWords * timer
    const rank = this.#timers.words[at]!
    this.#table.deleteId(this.#hash(rank, this.#timers.words[at + 1]!, this.#timers.words[at + 2]!), timer)
    this.#timers.remove(ofRank, this.#ranks, rank, timer)
    this.#timers.remove(byAge, this.#oldest, 0, timer)
    this.#timers.release(timer)
  }

  #hash(rank: Rank, hashLo: number, hashHi: number): number {
    return mixWords(this.#seed, rank, hashLo, hashHi, 0)
  }
}
