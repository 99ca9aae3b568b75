/** Which blocks of a prompt an external shared cache holds: sorted ranges of block positions, end excluded. */
import { WarmrouteError } from '../protocol/index.js'

export class SharedCacheHits {
  readonly totalHits: number
  /** `hits from range i on`, so that a query is one search. */
  readonly #starts: number[] = []
  readonly #ends: number[] = []
  readonly #hitsFrom: number[] = []

  /** From one answer per block: neighbours that hit become one range. */
  static fromHits(hits: Iterable<boolean>): SharedCacheHits {
    const ranges: [start: number, end: number][] = []
    let position = 0
    for (const isHit of hits) {
      const last = ranges.at(-1)
      if (isHit && last?.[1] === position) last[1]++
      else if (isHit) ranges.push([position, position + 1])
      position++
    }
    return new SharedCacheHits(ranges)
  }

  /** Ranges must ascend and not overlap; empty ones are dropped. Throws `WR_INVALID_ARGUMENT`. */
  constructor(ranges: Iterable<readonly [start: number, end: number]>) {
    let last = 0
    for (const [start, end] of ranges) {
      if (!(Number.isSafeInteger(start) && Number.isSafeInteger(end) && start >= last && end >= start))
        throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: `shared cache range ${start}..${end}`, start, end })
      last = end
      if (start === end) continue
      this.#starts.push(start)
      this.#ends.push(end)
    }
    let hits = 0
    for (let at = this.#starts.length - 1; at >= 0; at--) {
      hits += this.#ends[at]! - this.#starts[at]!
      this.#hitsFrom[at] = hits
    }
    this.totalHits = hits
  }

  /** Hit positions that are not below `position`. */
  hitsBeyond(position: number): number {
    let low = 0
    let high = this.#ends.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.#ends[middle]! <= position) low = middle + 1
      else high = middle
    }
    if (low === this.#ends.length) return 0
    return this.#hitsFrom[low]! - Math.max(0, position - this.#starts[low]!)
  }

  /** What it was made from, without the empty ones. */
  ranges(): [start: number, end: number][] {
    return this.#starts.map((start, at) => [start, this.#ends[at]!])
  }
}
