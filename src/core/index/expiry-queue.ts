/**
 * Which predicted blocks are due to be forgotten. Follows lib/kv-router/src/indexer/pruning.rs at 1.5.0: ends are rounded
 * up to buckets of 100 ms since the start, and a time to live of 0 ends at once. Time is an argument and never runs
 * backwards here.
 *
 *   bucket  a list of runs; buckets come into being in the order in which they end
 *   run     neighbours of a chain that end together: rank, bucket, list, length                 32 bytes, and its first timer
 *   timer   hashLo, hashHi, its run, next and previous in it                                   20 bytes
 *
 * A conversation refreshes hundreds of blocks per turn. A sequence hash names the whole chain up to its block, so a run
 * whose last hash stands in the prompt where it should lies in the prompt as a whole, and is refreshed by one number. A
 * prompt that leaves a run in its middle cuts it there, once. So a chain meets a run at its head or not at all, and the
 * table knows heads only, until somebody asks for single blocks (engines that report what was predicted). The time to live is the same for all, so a refresh always
 * means the newest bucket; the list moves on when the old bucket ends.
 *
 * Timers stand in lanes. A rank has one; where it is cancelled with many timers it leaves the lane, which is nobody's then, and
 * what stands there goes in steps.
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

// Words of a run, which stands in two rings:
const runLane = 0
const runBucket = 1
const runList = 2
const runLength = 3
const ofList = 0
const ofLane = 1
// Words of a timer, which stands in one:
const timerLo = 0
const timerHi = 1
const timerRun = 2
const timerPrevious = 4
const ofRun = 0
const nobody = 0xffff_ffff

export class ExpiryQueue {
  readonly #ttlMs: number
  readonly #startMs: number
  readonly #seed: number
  #nowMs: number
  readonly #runs = new LinkedRecords(4, 2)
  readonly #timers = new LinkedRecords(3, 1)
  #heads = new Uint32Array(16) // by run: first timer + 1
  /** Finds timers: the heads of runs, or all of them. */
  readonly #table = new IdTable()
  #knowsAll = false
  #size = 0
  /** Bucket to its list, in the order in which they end: a new bucket always ends last. */
  readonly #buckets = new Map<number, number>()
  #lists = new Uint32Array(16) // by list: first run + 1
  readonly #freeLists: number[] = []
  #listEnd = 0
  #laneOf = new Uint32Array(16) // by rank: its lane + 1
  #ranks = new Uint32Array(16) // by lane: its rank, or nobody
  #runsOf = new Uint32Array(16) // by lane: first run + 1
  #laneSizes = new Uint32Array(16) // by lane: timers
  #laneEnd = 0
  readonly #freeLanes: number[] = []
  readonly #deadLanes: number[] = []
  #deadSize = 0

  constructor(options: ExpiryOptions) {
    this.#ttlMs = options.ttlMs
    this.#startMs = options.startMs
    this.#nowMs = options.startMs
    this.#seed = options.seed
  }

  /** Timers of ranks. */
  get size(): number {
    return this.#size
  }

  /** Timers that are nobody's, and still to be taken away. */
  get deadSize(): number {
    return this.#deadSize
  }

  get bytesUsed(): number {
    const columns = [this.#heads, this.#lists, this.#laneOf, this.#ranks, this.#runsOf, this.#laneSizes]
    const columnBytes = columns.reduce((sum, column) => sum + column.byteLength, 0)
    return this.#timers.bytesUsed + this.#runs.bytesUsed + this.#table.bytesUsed + columnBytes
  }

  /** No timer ends before this; undefined where there is none. What a caller's clock has to wait for. */
  get nextExpiryMs(): number | undefined {
    if (this.size === 0) return undefined
    for (const bucket of this.#buckets.keys()) return this.#endMs(bucket)
    return undefined
  }

  /** Timers of one rank. */
  sizeOf(rank: Rank): number {
    const lane = this.#findLane(rank)
    return lane < 0 ? 0 : this.#laneSizes[lane]!
  }

  /** How many leading blocks of a chain have a timer. */
  prefixOf(rank: Rank, hashes: HashColumn, blockCount: number): number {
    const lane = this.#findLane(rank)
    if (lane < 0) return 0
    let block = 0
    while (block < blockCount) {
      const timer = this.#find(lane, hashes[2 * block]!, hashes[2 * block + 1]!)
      if (timer < 0) break
      block += this.#matched(timer, hashes, block, blockCount)
    }
    return block
  }

  /** Starts or refreshes the timers of a chain of blocks, except those marked in `isExempt`, which have none. */
  start(rank: Rank, hashes: HashColumn, blockCount: number, nowMs: number, isExempt?: Uint8Array): void {
    const bucket = this.#bucketAt(nowMs)
    const list = this.#listFor(bucket)
    const lane = this.#laneFor(rank)
    let fresh = -1 // the run of timers that are made side by side
    for (let block = 0; block < blockCount; ) {
      const lo = hashes[2 * block]!
      const hi = hashes[2 * block + 1]!
      const isKept = isExempt?.[block] !== 1
      const timer = isKept ? this.#find(lane, lo, hi) : -1
      if (timer >= 0) {
        const length = this.#matched(timer, hashes, block, blockCount)
        this.#refresh(timer, length, bucket)
        block += length
      } else {
        if (isKept) {
          if (fresh < 0) fresh = this.#newRun(lane, bucket, list)
          this.#newTimer(fresh, lane, lo, hi)
        }
        block++
      }
      if (timer >= 0 || !isKept) fresh = -1
    }
  }

  has(rank: Rank, hashLo: number, hashHi: number): boolean {
    this.#learnAll()
    const lane = this.#findLane(rank)
    return lane >= 0 && this.#find(lane, hashLo, hashHi) >= 0
  }

  /** The block is no prediction any more. True if it had a timer. */
  cancel(rank: Rank, hashLo: number, hashHi: number): boolean {
    this.#learnAll()
    const lane = this.#findLane(rank)
    const timer = lane < 0 ? -1 : this.#find(lane, hashLo, hashHi)
    if (timer < 0) return false
    this.#forget(lane, timer)
    this.#release(lane, this.#timers.get(timer, timerRun), timer)
    return true
  }

  /** The rank has no timer any more. If it had more than `timersMax`, they are nobody's, and `drain` takes them away. */
  cancelRank(rank: Rank, timersMax: number = Number.POSITIVE_INFINITY): void {
    const lane = this.#findLane(rank)
    if (lane < 0) return
    const size = this.#laneSizes[lane]!
    if (size <= timersMax) return void this.#dropRuns(lane, size)
    this.#laneOf[rank] = 0
    this.#ranks[lane] = nobody
    this.#deadLanes.push(lane)
    this.#size -= size
    this.#deadSize += size
  }

  /** Takes so many timers away that are nobody's; answers how many are left. */
  drain(timersMax: number): number {
    for (let left = timersMax; left > 0 && this.#deadLanes.length > 0; ) {
      const lane = this.#deadLanes[0]!
      left -= this.#dropRuns(lane, left)
      if (this.#laneSizes[lane] !== 0) continue
      this.#deadLanes.shift()
      this.#freeLanes.push(lane)
    }
    return this.#deadSize
  }

  #dropRuns(lane: number, timersMax: number): number {
    let dropped = 0
    while (dropped < timersMax && this.#runsOf[lane] !== 0) {
      const run = this.#runsOf[lane]! - 1
      const length = Math.min(timersMax - dropped, this.#lengthOf(run))
      this.#dropFirst(run, length)
      dropped += length
    }
    return dropped
  }

  /**
   * Moves timers that have ended into removals. Answers how much it did, at most `workMax`, in timers taken and runs looked at
   * that were refreshed; 0 when none is left that has ended.
   */
  takeEnded(nowMs: number, workMax: number, into: EventBatch): number {
    this.#nowMs = Math.max(this.#nowMs, nowMs)
    return this.#take(this.#nowMs, workMax, into)
  }

  /** Moves the timers that end first into removals, ended or not. While no timer is nobody's. */
  takeOldest(timersMax: number, into: EventBatch): void {
    const least = this.#size - timersMax
    while (this.#size > least) this.#take(Number.POSITIVE_INFINITY, this.#size - least, into)
  }

  #take(untilMs: number, workMax: number, into: EventBatch): number {
    let work = 0
    for (const [bucket, list] of this.#buckets) {
      if (this.#endMs(bucket) > untilMs || work >= workMax) break
      while (work < workMax && this.#lists[list] !== 0) work += this.#takeRun(bucket, list, workMax - work, into)
      if (this.#lists[list] !== 0) break
      this.#buckets.delete(bucket)
      this.#freeLists.push(list)
    }
    return work
  }

  /** A run is one removal, or the beginning of one; one that was asked for again goes to the list of its bucket now. */
  #takeRun(bucket: number, list: number, timersMax: number, into: EventBatch): number {
    const runs = this.#runs
    const run = this.#lists[list]! - 1
    const own = runs.get(run, runBucket)
    if (own !== bucket) {
      const later = this.#buckets.get(own)! // it was made by the refresh, and buckets go in order
      runs.remove(ofList, this.#lists, list, run)
      runs.append(ofList, this.#lists, later, run)
      runs.set(run, runList, later)
      return 1
    }
    const length = Math.min(timersMax, this.#lengthOf(run))
    const rank = this.#ranks[runs.get(run, runLane)]!
    if (rank === nobody) this.#dropFirst(run, length)
    else {
      const word = into.openRemoved(rank, length)
      this.#dropFirst(run, length, into.words, word)
    }
    return length
  }

  #findLane(rank: Rank): number {
    return rank < this.#laneOf.length ? this.#laneOf[rank]! - 1 : -1
  }

  #laneFor(rank: Rank): number {
    const known = this.#findLane(rank)
    if (known >= 0) return known
    const lane = this.#freeLanes.pop() ?? this.#laneEnd++
    if (rank >= this.#laneOf.length) this.#laneOf = widened(this.#laneOf, rank + 1)
    if (lane >= this.#ranks.length) {
      this.#ranks = widened(this.#ranks, lane + 1)
      this.#runsOf = widened(this.#runsOf, lane + 1)
      this.#laneSizes = widened(this.#laneSizes, lane + 1)
    }
    this.#laneOf[rank] = lane + 1
    this.#ranks[lane] = rank
    return lane
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

  #newRun(lane: number, bucket: number, list: number): number {
    const run = this.#runs.allocate()
    this.#runs.set(run, runLane, lane)
    this.#runs.set(run, runBucket, bucket)
    this.#runs.set(run, runList, list)
    this.#runs.set(run, runLength, 0)
    if (run >= this.#heads.length) this.#heads = widened(this.#heads, run + 1)
    this.#runs.append(ofLane, this.#runsOf, lane, run)
    this.#runs.append(ofList, this.#lists, list, run)
    return run
  }

  #newTimer(run: number, lane: number, hashLo: number, hashHi: number): void {
    const timer = this.#timers.allocate()
    this.#timers.set(timer, timerLo, hashLo)
    this.#timers.set(timer, timerHi, hashHi)
    this.#join(run, timer)
    this.#laneSizes[lane]!++
    this.#size++
    if (this.#knowsAll || this.#lengthOf(run) === 1) this.#learn(lane, timer)
  }

  /** How many blocks of a chain, from this one on, are those of the timer's run from that timer on: one at least. */
  #matched(timer: number, hashes: HashColumn, block: number, blockCount: number): number {
    const timers = this.#timers
    const run = timers.get(timer, timerRun)
    const head = this.#heads[run]! - 1
    const length = this.#lengthOf(run)
    const last = block + length - 1
    if (timer === head && last < blockCount && this.#isAt(timers.get(head, timerPrevious), hashes, last)) return length
    let count = 1
    for (let at = timer; block + count < blockCount; count++) {
      at = timers.after(ofRun, this.#heads, run, at)
      if (at < 0 || !this.#isAt(at, hashes, block + count)) break
    }
    return count
  }

  /** So many timers, from this one on, end in this bucket now. Those that do not are cut off. */
  #refresh(timer: number, count: number, bucket: number): void {
    const run = this.#timers.get(timer, timerRun)
    if (this.#runs.get(run, runBucket) === bucket) return
    let own = run
    // A chain enters a run at its head, unless somebody made up its hashes.
    if (timer !== this.#heads[run]! - 1) own = this.#move(run, timer, count)
    else if (count < this.#lengthOf(run)) own = this.#cut(run, timer, count)
    this.#runs.set(own, runBucket, bucket)
  }

  /** Parts a run behind its first `count` timers; answers the run that has those. The shorter part gets another number. */
  #cut(run: number, head: number, count: number): number {
    const length = this.#lengthOf(run)
    if (2 * count <= length) return this.#move(run, head, count)
    let first = head
    for (let at = 0; at < count; at++) first = this.#timers.after(ofRun, this.#heads, run, first)
    this.#move(run, first, length - count)
    return run
  }

  /** `count` timers of a run, from this one on, become a run of their own that ends when the old one does. */
  #move(run: number, first: number, count: number): number {
    const runs = this.#runs
    const lane = runs.get(run, runLane)
    const isHead = first === this.#heads[run]! - 1
    const moved = this.#newRun(lane, runs.get(run, runBucket), runs.get(run, runList))
    for (let timer = first, left = count; left > 0; left--) {
      const next = this.#timers.after(ofRun, this.#heads, run, timer)
      this.#leave(run, timer)
      this.#join(moved, timer)
      timer = next
    }
    if (!this.#knowsAll) this.#learn(lane, isHead ? this.#heads[run]! - 1 : first)
    return moved
  }

  #join(run: number, timer: number): void {
    this.#timers.set(timer, timerRun, run)
    this.#timers.append(ofRun, this.#heads, run, timer)
    this.#runs.set(run, runLength, this.#lengthOf(run) + 1)
  }

  /** A run that has no timer any more is gone. */
  #leave(run: number, timer: number): void {
    const runs = this.#runs
    const length = this.#lengthOf(run) - 1
    this.#timers.remove(ofRun, this.#heads, run, timer)
    runs.set(run, runLength, length)
    if (length > 0) return
    runs.remove(ofLane, this.#runsOf, runs.get(run, runLane), run)
    runs.remove(ofList, this.#lists, runs.get(run, runList), run)
    runs.release(run)
  }

  #lengthOf(run: number): number {
    return this.#runs.get(run, runLength)
  }

  #find(lane: number, hashLo: number, hashHi: number): number {
    const table = this.#table
    const hash = this.#hash(lane, hashLo, hashHi)
    const timers = this.#timers
    for (let slot = table.first(hash); slot >= 0; slot = table.next(slot, hash)) {
      const timer = table.idAt(slot)
      if (timers.get(timer, timerLo) !== hashLo || timers.get(timer, timerHi) !== hashHi) continue
      if (this.#runs.get(timers.get(timer, timerRun), runLane) === lane) return timer
    }
    return -1
  }

  #isAt(timer: number, hashes: HashColumn, block: number): boolean {
    const timers = this.#timers
    return timers.get(timer, timerLo) === hashes[2 * block] && timers.get(timer, timerHi) === hashes[2 * block + 1]
  }

  /** The first `count` timers of a run go; their hashes are written down where somebody wants them. */
  #dropFirst(run: number, count: number, names?: Uint32Array, at = 0): void {
    const lane = this.#runs.get(run, runLane)
    const isPart = count < this.#lengthOf(run)
    for (let block = 0; block < count; block++) {
      const timer = this.#heads[run]! - 1
      if (names) {
        names[at + 2 * block] = this.#timers.get(timer, timerLo)
        names[at + 2 * block + 1] = this.#timers.get(timer, timerHi)
      }
      if (this.#knowsAll || block === 0) this.#forget(lane, timer)
      this.#release(lane, run, timer)
    }
    if (isPart && !this.#knowsAll) this.#learn(lane, this.#heads[run]! - 1)
  }

  #release(lane: number, run: number, timer: number): void {
    this.#leave(run, timer)
    this.#timers.release(timer)
    this.#laneSizes[lane]!--
    if (this.#ranks[lane] === nobody) this.#deadSize--
    else this.#size--
  }

  #learn(lane: number, timer: number): void {
    this.#table.add(this.#hash(lane, this.#timers.get(timer, timerLo), this.#timers.get(timer, timerHi)), timer)
  }

  #forget(lane: number, timer: number): void {
    this.#table.deleteId(this.#hash(lane, this.#timers.get(timer, timerLo), this.#timers.get(timer, timerHi)), timer)
  }

  /** From the first question about a single block on, the table knows every timer. */
  #learnAll(): void {
    if (this.#knowsAll) return
    this.#knowsAll = true
    for (let lane = 0; lane < this.#laneEnd; lane++)
      for (let run = this.#runsOf[lane]! - 1; run >= 0; run = this.#runs.after(ofLane, this.#runsOf, lane, run)) {
        let timer = this.#heads[run]! - 1
        while ((timer = this.#timers.after(ofRun, this.#heads, run, timer)) >= 0) this.#learn(lane, timer)
      }
  }

  #hash(lane: number, hashLo: number, hashHi: number): number {
    return mixWords(this.#seed, lane, hashLo, hashHi, 0)
  }
}
