/**
 * Storage for runs of hashes: one growing array of words, an extent per run. Extents are rounded up to size classes,
 * eight to a doubling, so at most an eighth is waste; a freed extent waits for the next run of its class.
 * When neither helps, the owner moves every live run to the front of a new array: what mixed sizes left behind is
 * recovered there, and the array is at most about twice what lives in it.
 */
import { newHashColumn } from '../protocol/index.js'
import type { HashColumn } from '../protocol/index.js'

export class HashArena {
  /** Two words per hash, as in a `HashColumn`; replaced by `rebuild`. */
  words: HashColumn = newHashColumn(1024)
  #top = 0 // in hashes, like every offset
  #free: number[][] = []

  /** The offset of a fresh extent, or -1: rebuild, then ask again. */
  allocate(count: number): number {
    const waiting = this.#free[classOf(count)]
    if (waiting !== undefined && waiting.length > 0) return waiting.pop()!
    const size = sizeOf(count)
    if (this.#top + size > this.words.length >>> 1) return -1
    const offset = this.#top
    this.#top += size
    return offset
  }

  release(offset: number, count: number): void {
    const size = classOf(count)
    const waiting = this.#free[size]
    if (waiting === undefined) this.#free[size] = [offset]
    else waiting.push(offset)
  }

  /** Copies inside the array. */
  move(from: number, to: number, count: number): void {
    this.words.copyWithin(2 * to, 2 * from, 2 * (from + count))
  }

  /** Copies `count` hashes of a column, from hash `start` on, to `offset`. */
  write(offset: number, column: HashColumn, start: number, count: number): void {
    const words = this.words
    const end = 2 * (start + count)
    // A view costs about as much as copying a hundred words one by one.
    if (count > 50) words.set(column.subarray(2 * start, end), 2 * offset)
    else for (let from = 2 * start, to = 2 * offset; from < end; from++, to++) words[to] = column[from]!
  }

  /** Moves every live run to a new array with room for `extra` more hashes; a run of length 0 is dead. Rewrites `offsets`. */
  rebuild(extra: number, offsets: Uint32Array, lengths: Uint32Array, runCount: number): void {
    let live = 0
    for (let run = 0; run < runCount; run++) if (lengths[run]! > 0) live += sizeOf(lengths[run]!)
    const needed = live + sizeOf(extra)
    const old = this.words
    // A quarter more once large: a doubled array of 100 MB would be mostly slack.
    this.words = newHashColumn(Math.ceil(needed * (needed > 1 << 19 ? 1.25 : 2)))
    this.#top = 0
    this.#free = []
    for (let run = 0; run < runCount; run++) {
      const length = lengths[run]!
      if (length === 0) continue
      this.words.set(old.subarray(2 * offsets[run]!, 2 * (offsets[run]! + length)), 2 * this.#top)
      offsets[run] = this.#top
      this.#top += sizeOf(length)
    }
  }
}

function shiftOf(count: number): number {
  return Math.max(0, 28 - Math.clz32(count)) // leaves 8 to 15 steps
}

function classOf(count: number): number {
  const shift = shiftOf(count)
  return 17 * shift + Math.ceil(count / 2 ** shift)
}

function sizeOf(count: number): number {
  const step = 2 ** shiftOf(count)
  return Math.ceil(count / step) * step
}
