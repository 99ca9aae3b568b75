/**
 * Interns `(worker id, dp rank)` pairs into small integers. Everything hot is an array indexed by that integer, called a
 * rank. A released rank's number is reused, lowest first, so that the arrays stay as short as the fleet.
 */
import { invariant } from './errors.js'

/**
 * The routing unit: one data-parallel rank of one serving instance.
 *
 * @example
 * import type { WorkerRank } from 'warmroute/core'
 *
 * const worker: WorkerRank = { workerId: 7n, dpRank: 0 }
 */
export interface WorkerRank {
  /** Unsigned 64-bit. */
  readonly workerId: bigint
  /** Unsigned 32-bit, global: a worker owns a contiguous range of them. */
  readonly dpRank: number
}

/**
 * A small integer that stands for a `WorkerRank` inside one `RankTable`.
 *
 * @example
 * import { type Rank, RankTable } from 'warmroute/core'
 *
 * const ranks = new RankTable()
 * const all: Rank[] = [0, 1].map((dpRank) => ranks.intern(7n, dpRank))
 * console.log(all) // => [ 0, 1 ]
 */
export type Rank = number

/**
 * Gives every rank of every worker a small number, and takes it back.
 *
 * @example
 * import { RankTable } from 'warmroute/core'
 *
 * const ranks = new RankTable()
 * const rank = ranks.intern(2n ** 63n, 1)
 * console.log(rank, ranks.pairOf(rank)) // => 0 { workerId: 9223372036854775808n, dpRank: 1 }
 */
export class RankTable {
  readonly #ranks = new Map<bigint, Map<number, Rank>>()
  readonly #pairs: (WorkerRank | undefined)[] = []
  readonly #free: Rank[] = [] // sorted, highest first, so that pop() gives the lowest

  /** How long an array indexed by rank must be. */
  get size(): number {
    return this.#pairs.length
  }

  /** How many pairs have a number. */
  get liveCount(): number {
    return this.#pairs.length - this.#free.length
  }

  intern(workerId: bigint, dpRank: number): Rank {
    let ofWorker = this.#ranks.get(workerId)
    if (!ofWorker) this.#ranks.set(workerId, (ofWorker = new Map()))
    let rank = ofWorker.get(dpRank)
    if (rank === undefined) {
      rank = this.#free.pop() ?? this.#pairs.length
      this.#pairs[rank] = { workerId, dpRank }
      ofWorker.set(dpRank, rank)
    }
    return rank
  }

  find(workerId: bigint, dpRank: number): Rank | undefined {
    return this.#ranks.get(workerId)?.get(dpRank)
  }

  /** The ranks of one worker, by dp rank. */
  ofWorker(workerId: bigint): readonly Rank[] {
    const ofWorker = this.#ranks.get(workerId)
    if (!ofWorker) return []
    return [...ofWorker.entries()].sort((a, b) => a[0] - b[0]).map(([, rank]) => rank)
  }

  pairOf(rank: Rank): WorkerRank {
    const pair = this.#pairs[rank]
    invariant(pair !== undefined, `rank ${rank} is not interned`)
    return pair
  }

  isLive(rank: Rank): boolean {
    return this.#pairs[rank] !== undefined
  }

  /** The caller has already emptied every array of this rank. */
  release(rank: Rank): void {
    const { workerId, dpRank } = this.pairOf(rank)
    const ofWorker = this.#ranks.get(workerId)!
    ofWorker.delete(dpRank)
    if (ofWorker.size === 0) this.#ranks.delete(workerId)
    this.#pairs[rank] = undefined
    this.#free.splice(this.#placeOf(rank), 0, rank)
  }

  /** Where a number belongs among the free ones; a fleet of thousands may leave at once. */
  #placeOf(rank: Rank): number {
    let low = 0
    let high = this.#free.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.#free[middle]! > rank) low = middle + 1
      else high = middle
    }
    return low
  }

  /** Live ranks in ascending order of (worker id, dp rank): the stable order that seeded tests rely on. */
  live(): Rank[] {
    const ranks = this.#pairs.flatMap((pair, rank) => (pair ? [rank] : []))
    return ranks.sort((a, b) => comparePairs(this.pairOf(a), this.pairOf(b)))
  }
}

export function comparePairs(a: WorkerRank, b: WorkerRank): number {
  if (a.workerId !== b.workerId) return a.workerId < b.workerId ? -1 : 1
  return a.dpRank - b.dpRank
}
