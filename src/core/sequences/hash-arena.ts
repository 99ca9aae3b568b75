/**
 * The hashes of runs, in pages. A run is one stretch of one page, so that reading it is one loop.
 *
 *   page 0  [ run 3 | gone | run 7 | run 1 ]    full: what ended leaves a gap that nobody fills
 *   page 1  [ run 4 | run 9 | ->           ]    open: the next run begins where the last one ended
 *   page 2  [ run 5                          ]  a long run has a page of exactly its size
 *
 * Growth is another page, and nothing is copied for it. Memory is at most about twice what lives: when there are too many
 * gaps, each operation moves a few runs out of the page with the largest share of them, until that page is empty and can
 * be used again or dropped. So no operation takes long, whatever lives (docs/decisions/0263).
 * A run can be cut anywhere without a copy, and parts that still touch grow together without one.
 */
import { newHashColumn } from '../protocol/index.js'
import type { HashColumn } from '../protocol/index.js'
import { growUint32, roomFor } from './columns.js'
import { LinkedLists } from './linked-lists.js'

/** 256 KB: less than a millisecond even where the first touch of 4 KB costs 12 us. */
const pageHashesDefault = 32_768
/** A longer run has a page of its own, so at most a quarter of a page is left over at its end. */
const runsPerPageMin = 4
/** The first pages are smaller: most trackers of a test, and of a quiet model, hold little. */
const firstPageShare = 1 / 32
/** Hashes in use, gaps included, per hash that lives: above this, runs are moved. */
const usedPerLive = 1.75
/** The same with empty pages that wait: above this, they are dropped. The distance keeps pages from going and coming all the time. */
const capacityPerLive = 2
/** Pages that are left alone: the open one always has a gap, and a small tracker need not move anything. */
const usedSlackPages = 2
const capacitySlackPages = 3
/** Hashes that may be moved per hash that an operation adds or ends: enough to keep up even with pages that end in a large gap. */
const paceFactor = 4
const noWords: HashColumn = newHashColumn(0)

export class HashArena {
  /** How many hashes each run has; 0: there is no such run. */
  length = new Uint32Array(0)
  #pageOf = new Uint32Array(0)
  #startOf = new Uint32Array(0) // in hashes, like every place in a page
  readonly #runsIn = new LinkedLists()
  /** Two words per hash, as in a `HashColumn`. Without words: the number waits for another page. */
  readonly #pages: HashColumn[] = []
  readonly #liveIn: number[] = []
  readonly #freeNumbers: number[] = []
  readonly #spares: number[] = [] // empty pages of full size
  #open = -1
  #top = 0 // where the next run of the open page begins
  #emptying = -1
  #live = 0
  #capacity = 0
  readonly #pageHashes: number

  constructor(pageHashes: number = pageHashesDefault) {
    this.#pageHashes = pageHashes
  }

  /** Hashes for which there is memory. */
  get capacity(): number {
    return this.#capacity
  }

  get byteLength(): number {
    return 8 * this.#capacity + 12 * this.length.length + this.#runsIn.byteLength
  }

  pageOf(run: number): number {
    return this.#pageOf[run]!
  }

  lowWord(run: number, index: number): number {
    return this.#pages[this.#pageOf[run]!]![2 * (this.#startOf[run]! + index)]!
  }

  highWord(run: number, index: number): number {
    return this.#pages[this.#pageOf[run]!]![2 * (this.#startOf[run]! + index) + 1]!
  }

  /** How many hashes of the run equal those of the column, from `start` to `end`. */
  matched(run: number, column: HashColumn, start: number, end: number): number {
    const words = this.#pages[this.#pageOf[run]!]!
    const base = 2 * this.#startOf[run]!
    const from = 2 * start
    const wordCount = 2 * Math.min(this.length[run]!, end - start)
    for (let at = 0; at < wordCount; at += 2)
      if (words[base + at] !== column[from + at] || words[base + at + 1] !== column[from + at + 1]) return at >>> 1
    return wordCount >>> 1
  }

  /** A new run: `count` hashes of the column, from hash `start` on. */
  add(run: number, column: HashColumn, start: number, count: number): void {
    const page = this.#pageFor(count)
    const to = this.#take(page, count)
    copyHashes(column, start, this.#pages[page]!, to, count)
    this.#place(run, page, to, count)
    this.#tidy(count)
  }

  /** The first `count` hashes become the new run `upper`. */
  cut(run: number, upper: number, count: number): void {
    const start = this.#startOf[run]!
    this.#startOf[run] = start + count
    this.length[run]! -= count
    this.#place(upper, this.#pageOf[run]!, start, count)
  }

  /** Puts the hashes of `upper` in front of those of `run`; `upper` is gone. */
  join(upper: number, run: number): void {
    const above = this.length[upper]!
    const below = this.length[run]!
    const page = this.#pageOf[run]!
    if (this.#pageOf[upper] === page && this.#startOf[upper]! + above === this.#startOf[run]) {
      this.#runsIn.remove(page, upper)
      this.#startOf[run] = this.#startOf[upper]!
      this.length[run] = above + below
      this.length[upper] = 0
      return
    }
    const newPage = this.#pageFor(above + below)
    const to = this.#take(newPage, above + below)
    copyHashes(this.#pages[this.#pageOf[upper]!]!, this.#startOf[upper]!, this.#pages[newPage]!, to, above)
    copyHashes(this.#pages[page]!, this.#startOf[run]!, this.#pages[newPage]!, to + above, below)
    this.#lift(upper)
    this.#lift(run)
    this.#place(run, newPage, to, above + below)
    this.#tidy(above + below)
  }

  release(run: number): void {
    const count = this.length[run]!
    this.#lift(run)
    this.#tidy(count)
  }

  /** A page with room for so many hashes. */
  #pageFor(count: number): number {
    if (runsPerPageMin * count > this.#pageHashes) return this.#newPage(count)
    if (this.#open >= 0 && this.#top + count <= this.#sizeOf(this.#open)) return this.#open
    const size = Math.max(this.#capacity, runsPerPageMin * count, this.#pageHashes * firstPageShare)
    this.#open = this.#spares.pop() ?? this.#newPage(Math.min(size, this.#pageHashes))
    this.#top = 0
    return this.#open
  }

  /** Takes the room, which lives from now on: a page is not empty because what it had has just been lifted out of it. */
  #take(page: number, count: number): number {
    this.#liveIn[page]! += count
    this.#live += count
    if (page !== this.#open) return 0
    this.#top += count
    return this.#top - count
  }

  #place(run: number, page: number, start: number, count: number): void {
    this.#makeRoom(run)
    this.#pageOf[run] = page
    this.#startOf[run] = start
    this.length[run] = count
    this.#runsIn.push(page, run)
  }

  #lift(run: number): void {
    const page = this.#pageOf[run]!
    const count = this.length[run]!
    this.length[run] = 0
    this.#runsIn.remove(page, run)
    this.#live -= count
    this.#liveIn[page]! -= count
    if (this.#liveIn[page] === 0) this.#emptied(page)
  }

  /** While too many hashes are gaps, moves what is left in the page that has most of them. */
  #tidy(count: number): void {
    for (let left = paceFactor * count; left > 0 && this.#hasTooManyGaps(); ) {
      if (this.#emptying < 0) this.#emptying = this.#emptiest()
      const run = this.#runsIn.first(this.#emptying)
      left -= this.length[run]!
      this.#move(run)
    }
    const capacityMax = capacityPerLive * this.#live + capacitySlackPages * this.#pageHashes
    while (this.#capacity > capacityMax && this.#spares.length > 0) this.#drop(this.#spares.pop()!)
  }

  #hasTooManyGaps(): boolean {
    const used = this.#capacity - this.#spares.length * this.#pageHashes
    return used > usedPerLive * this.#live + usedSlackPages * this.#pageHashes
  }

  /** Neither the open page nor a spare one. With too many gaps, more than two fifths of the others together is gaps, so of this one. */
  #emptiest(): number {
    let emptiest = -1
    let leastShare = 1
    for (let page = 0; page < this.#pages.length; page++) {
      const share = this.#liveIn[page]! / this.#sizeOf(page) // NaN where the number waits
      if (share < leastShare && page !== this.#open && this.#liveIn[page]! > 0) {
        emptiest = page
        leastShare = share
      }
    }
    return emptiest
  }

  #move(run: number): void {
    const count = this.length[run]!
    const from = this.#pageOf[run]!
    const page = this.#pageFor(count)
    const to = this.#take(page, count)
    copyHashes(this.#pages[from]!, this.#startOf[run]!, this.#pages[page]!, to, count)
    this.#lift(run)
    this.#place(run, page, to, count)
  }

  #emptied(page: number): void {
    if (page === this.#emptying) this.#emptying = -1
    if (page === this.#open) this.#top = 0
    else if (this.#sizeOf(page) === this.#pageHashes) this.#spares.push(page)
    else this.#drop(page)
  }

  #sizeOf(page: number): number {
    return this.#pages[page]!.length >>> 1
  }

  #newPage(size: number): number {
    const page = this.#freeNumbers.pop() ?? this.#pages.length
    this.#pages[page] = newHashColumn(size)
    this.#liveIn[page] = 0
    this.#capacity += size
    return page
  }

  #drop(page: number): void {
    this.#capacity -= this.#sizeOf(page)
    this.#pages[page] = noWords
    this.#freeNumbers.push(page)
  }

  #makeRoom(run: number): void {
    if (run < this.length.length) return
    const capacity = roomFor(run + 1, this.length.length)
    this.length = growUint32(this.length, capacity)
    this.#pageOf = growUint32(this.#pageOf, capacity)
    this.#startOf = growUint32(this.#startOf, capacity)
  }
}

function copyHashes(from: HashColumn, start: number, to: HashColumn, at: number, count: number): void {
  const end = 2 * (start + count)
  // A view costs about as much as copying a hundred words one by one.
  if (count > 50) to.set(from.subarray(2 * start, end), 2 * at)
  else for (let word = 2 * start, into = 2 * at; word < end; word++, into++) to[into] = from[word]!
}
