/**
 * Which predicted blocks are due to be forgotten. Follows lib/kv-router/src/indexer/pruning.rs at 1.5.0: ends are rounded
 * up to buckets of 100 ms since the start, and a time to live of 0 ends at once. Time is an argument and never runs
 * backwards here.
 *
 *   bucket  a list of timers; buckets come into being in the order in which they end
 *   timer   rank, hashLo, hashHi, the bucket in which it ends, the list in which it stands     36 bytes, 16 to 32 in the table
 *
 * The time to live is the same for all, so a refresh always means the newest bucket. It only writes that bucket's number
 * into the timer; the list moves on when the old bucket ends. A conversation refreshes hundreds of blocks per turn.
 */
import type { HashColumn, Rank } from '../protocol/index.js'
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

const timerWords = 9 // rank, hashLo, hashHi, bucket, list, then next and previous in each of two rings:
const ofList = 0
const ofRank = 1

export class ExpiryQueue {
  readonly #ttlMs: number
  readonly #startMs: number
  readonly #seed: number
  #nowMs: number
  readonly #timers = new LinkedRecords(5, 2)
  readonly #table = new IdTable()
  /** Bucket to its list, in the order in which they end: a new bucket always ends last. */
  readonly #buckets = new Map<number, number>()
  #lists = new Uint32Array(16) // by list: first timer + 1
  readonly #freeLists: number[] = []
  #listEnd = 0
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
    return this.#timers.bytesUsed + this.#table.bytesUsed + this.#ranks.byteLength + this.#lists.byteLength
  }

  /** No timer ends before this; undefined where there is none. What a caller's clock has to wait for. */
  get nextExpiryMs(): number | undefined {
    if (this.size === 0) return undefined
    for (const bucket of this.#buckets.keys()) return this.#endMs(bucket)
    return undefined
  }

  /** Starts or refreshes the timers of a chain of blocks, except those marked in `isExempt`. */
  start(rank: Rank, hashes: HashColumn, blockCount: number, nowMs: number, isExempt?: Uint8Array): void {
    const bucket = this.#bucketAt(nowMs)
    const list = this.#listFor(bucket)
    let timer = -1
    for (let block = 0; block < blockCount; block++) {
      if (isExempt?.[block] === 1) continue
      const lo = hashes[2 * block]!
      const hi = hashes[2 * block + 1]!
      timer = this.#findAfter(timer, rank, lo, hi)
      if (timer >= 0) this.#timers.words[timerWords * timer + 3] = bucket
      else timer = this.#newTimer(rank, lo, hi, bucket, list)
    }
  }

  has(rank: Rank, hashLo: number, hashHi: number): boolean {
    return this.#find(rank, hashLo, hashHi) >= 0
  }

  /** The block is no prediction any more. True if it had a timer. */
  cancel(rank: Rank, hashLo: number, hashHi: number): boolean {
    const timer = this.#find(rank, hashLo, hashHi)
    if (timer >= 0) this.#drop(timer)
    return timer >= 0
  }

  cancelRank(rank: Rank): void {
    while (rank < this.#ranks.length && this.#ranks[rank] !== 0) this.#drop(this.#ranks[rank]! - 1)
  }

  /** Moves timers that have ended, at most `blocksMax`, into removals; answers how many blocks those name. */
  takeEnded(nowMs: number, blocksMax: number, into: EventBatch): number {
    this.#nowMs = Math.max(this.#nowMs, nowMs)
    return this.#take(this.#nowMs, blocksMax, into)
  }

  /** Moves the timers that end first into removals, ended or not. */
  takeOldest(blocksMax: number, into: EventBatch): number {
    return this.#take(Number.POSITIVE_INFINITY, blocksMax, into)
  }

  #take(untilMs: number, blocksMax: number, into: EventBatch): number {
    let taken = 0
    for (const [bucket, list] of this.#buckets) {
      if (this.#endMs(bucket) > untilMs || taken === blocksMax) break
      this.#moveRefreshed(bucket, list)
      while (taken < blocksMax && this.#lists[list] !== 0) taken += this.#takeRun(list, blocksMax - taken, into)
      if (this.#lists[list] !== 0) break
      this.#buckets.delete(bucket)
      this.#freeLists.push(list)
    }
    return taken
  }

  /** Timers that were asked for again go to the list of the bucket in which they end now. */
  #moveRefreshed(bucket: number, list: number): void {
    const timers = this.#timers
    for (let timer = this.#lists[list]! - 1; timer >= 0; ) {
      const next = timers.after(ofList, this.#lists, list, timer)
      const own = timers.words[timerWords * timer + 3]!
      if (own !== bucket) {
        const later = this.#buckets.get(own)! // it was made by the refresh, and buckets go in order
        timers.remove(ofList, this.#lists, list, timer)
        timers.append(ofList, this.#lists, later, timer)
        timers.words[timerWords * timer + 4] = later
      }
      timer = next
    }
  }

  /** Neighbours of one rank share a removal. */
  #takeRun(list: number, blocksMax: number, into: EventBatch): number {
    const timers = this.#timers
    const first = this.#lists[list]! - 1
    const rank = timers.words[timerWords * first]!
    let length = 0
    for (let timer = first; timer >= 0 && length < blocksMax; length++) {
      if (timers.words[timerWords * timer] !== rank) break
      timer = timers.after(ofList, this.#lists, list, timer)
    }
    let word = into.openRemoved(rank, length)
    for (let block = 0; block < length; block++) {
      const timer = this.#lists[list]! - 1
      into.words[word++] = timers.words[timerWords * timer + 1]!
      into.words[word++] = timers.words[timerWords * timer + 2]!
      this.#drop(timer)
    }
    return length
  }

  /** Rounded up, so that nothing ends early; with no time to live at all, rounded down: it has ended already. */
  #bucketAt(nowMs: number): number {
    this.#nowMs = Math.max(this.#nowMs, nowMs)
    const buckets = (this.#nowMs - this.#startMs + this.#ttlMs) / bucketMs
    return this.#ttlMs === 0 ? Math.floor(buckets) : Math.ceil(buckets - 1e-9) // 0.07 s is 70.000...01 ms
  }

  #endMs(bucket: number): number {
    return this.#startMs + bucketMs * bucket
  }

  #listFor(bucket: number): number {
    let list = this.#buckets.get(bucket)
    if (list !== undefined) return list
    list = this.#freeLists.pop() ?? this.#listEnd++
    if (list >= this.#lists.length) this.#lists = widened(this.#lists, list + 1)
    this.#buckets.set(bucket, list)
    return list
  }

  #newTimer(rank: Rank, hashLo: number, hashHi: number, bucket: number, list: number): number {
    const timer = this.#timers.allocate()
    const { words } = this.#timers
    const at = timerWords * timer
    words[at] = rank
    words[at + 1] = hashLo
    words[at + 2] = hashHi
    words[at + 3] = bucket
    words[at + 4] = list
    if (rank >= this.#ranks.length) this.#ranks = widened(this.#ranks, rank + 1)
    this.#timers.append(ofRank, this.#ranks, rank, timer)
    this.#timers.append(ofList, this.#lists, list, timer)
    this.#table.add(this.#hash(rank, hashLo, hashHi), timer)
    return timer
  }

  /** A chain's timers were made side by side, or backwards in the places of an older chain: try those before the table. */
  #findAfter(timer: number, rank: Rank, hashLo: number, hashHi: number): number {
    if (timer >= 0) {
      if (this.#isTimer(timer + 1, rank, hashLo, hashHi)) return timer + 1
      if (this.#isTimer(timer - 1, rank, hashLo, hashHi)) return timer - 1
    }
    return this.#find(rank, hashLo, hashHi)
  }

  #find(rank: Rank, hashLo: number, hashHi: number): number {
    const table = this.#table
    const hash = this.#hash(rank, hashLo, hashHi)
    for (let slot = table.first(hash); slot >= 0; slot = table.next(slot, hash)) {
      const timer = table.idAt(slot)
      if (this.#isTimer(timer, rank, hashLo, hashHi)) return timer
    }
    return -1
  }

  /** A timer that was dropped belongs to `noRank`. */
  #isTimer(timer: number, rank: Rank, hashLo: number, hashHi: number): boolean {
    const { words } = this.#timers
    const at = timerWords * timer
    return words[at] === rank && words[at + 1] === hashLo && words[at + 2] === hashHi
  }

  #drop(timer: number): void {
    const { words } = this.#timers
    const at = timerWords * timer
    const rank = words[at]!
    this.#table.deleteId(this.#hash(rank, words[at + 1]!, words[at + 2]!), timer)
    this.#timers.remove(ofRank, this.#ranks, rank, timer)
    this.#timers.remove(ofList, this.#lists, words[at + 4]!, timer)
    this.#timers.release(timer)
    words[at] = noRank
  }

  #hash(rank: Rank, hashLo: number, hashHi: number): number {
    return mixWords(this.#seed, rank, hashLo, hashHi, 0)
  }
}

const noRank = 0xffff_ffff
