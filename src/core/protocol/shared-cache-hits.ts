/**
 * Which blocks of a prompt lie in a cache that all workers share: sorted, disjoint, half-open ranges of block positions.
 * `beyond` is asked once per rank, so the sums from the end are made once.
 */
import { WarmrouteError } from './errors.js'

export class SharedCacheHits {
  readonly totalHits: number
  readonly #starts: Uint32Array
  readonly #ends: Uint32Array
  /** Hits in range i and all after it. */
  readonly #suffix: Uint32Array

  /** Ranges in any order; those that touch or overlap are joined, empty ones dropped. */
  constructor(ranges: Iterable<readonly [start: number, end: number]>) {
    const joined: [number, number][] = []
    for (const [start, end] of [...ranges].sort((a, b) => a[0] - b[0])) {
      if (!isPosition(start) || !isPosition(end)) throw refused(start, end)
      const last = joined.at(-1)
      if (start >= end) continue
      if (last && start <= last[1]) last[1] = Math.max(last[1], end)
      else joined.push([start, end])
    }
    this.#starts = Uint32Array.from(joined, ([start]) => start)
    this.#ends = Uint32Array.from(joined, ([, end]) => end)
    this.#suffix = new Uint32Array(joined.length + 1)
    for (let at = joined.length - 1; at >= 0; at--)
      this.#suffix[at] = this.#suffix[at + 1]! + this.#ends[at]! - this.#starts[at]!
    this.totalHits = this.#suffix[0]!
  }

  /** Hit positions at or after `position`. */
  beyond(position: number): number {
    let low = 0
    let high = this.#ends.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.#ends[middle]! <= position) low = middle + 1
      else high = middle
    }
    if (low === this.#ends.length) return 0
    return this.#suffix[low]! - Math.max(0, position - this.#starts[low]!)
  }

  ranges(): [start: number, end: number][] {
    return Array.from(this.#starts, (start, at) => [start, this.#ends[at]!])
  }
}

function isPosition(value: number): boolean {
  return Number.isInteger(value) && value >= 0 && value <= 0xffff_ffff
}

function refused(start: number, end: number): WarmrouteError {
  return new WarmrouteError('WR_INVALID_ARGUMENT', { reason: `${start}..${end} is no range of blocks` })
}
