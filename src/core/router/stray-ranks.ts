/**
 * Ranks that no config owns: named by bookings, peers or events before discovery knows their worker, or after it forgot
 * it. They are lent a number, never more than `strayRanksMax` at once beside registered ones, and idle ones make room.
 */
import type { Rank, RankTable, WorkerRank, WorkerTable } from '../protocol/index.js'
import { WarmrouteError } from '../protocol/index.js'
import type { Moment } from './moment.js'

export const strayRanksMax = 4096
const registeredMax = 65_536
/** Workers that left and are remembered, so that their last events do not bring them back. */
const departedMax = 4096

export interface StrayRanksOptions {
  readonly ranks: RankTable
  readonly workers: WorkerTable
  readonly isIdle: (rank: Rank) => boolean
  /** Empties these ranks everywhere and releases their numbers. */
  readonly release: (ranks: readonly Rank[], moment: Moment) => void
}

export class StrayRanks {
  readonly #options: StrayRanksOptions
  readonly #departed = new Set<bigint>()
  /** Workers that were registered before they are known: theirs are kept, idle or not. */
  readonly #registered = new Set<bigint>()

  constructor(options: StrayRanksOptions) {
    this.#options = options
  }

  /** For a booking. Throws `WR_INVALID_ARGUMENT` for a pair that cannot be, `WR_TRACKER_FULL` for one too many. */
  intern(worker: WorkerRank, moment: Moment): Rank {
    const { ranks } = this.#options
    const { workerId, dpRank } = worker
    const known = ranks.find(workerId, dpRank)
    if (known !== undefined) return known
    requirePair(worker)
    if (this.#isFull) this.#reclaim(moment)
    if (this.#isFull)
      throw new WarmrouteError('WR_TRACKER_FULL', { reason: 'too many workers that nobody knows', ...worker })
    return ranks.intern(workerId, dpRank)
  }

  /** Whether events may begin to tell of this worker. */
  admits(workerId: bigint): boolean {
    if (this.#options.workers.configOf(workerId) !== undefined) return true
    return !this.#departed.has(workerId) && !this.#isFull
  }

  /** Throws `WR_TRACKER_FULL`. */
  register(workerId: bigint): void {
    if (this.#registered.size >= registeredMax && !this.#registered.has(workerId))
      throw new WarmrouteError('WR_TRACKER_FULL', { reason: 'too many workers are registered', workerId })
    this.#departed.delete(workerId)
    this.#registered.add(workerId)
  }

  joined(workerId: bigint): void {
    this.#departed.delete(workerId)
  }

  left(workerId: bigint): void {
    this.#registered.delete(workerId)
    this.#departed.delete(workerId) // so that it is the youngest again
    this.#departed.add(workerId)
    for (const oldest of this.#departed) {
      if (this.#departed.size <= departedMax) break
      this.#departed.delete(oldest)
    }
  }

  /** Live and owned by nobody's config. */
  list(): Rank[] {
    const { ranks, workers } = this.#options
    return ranks.live().filter((rank) => workers.isServed[rank] !== 1)
  }

  get #isFull(): boolean {
    const { ranks, workers } = this.#options
    return ranks.liveCount - workers.servedCount >= strayRanksMax + this.#registered.size
  }

  #reclaim(moment: Moment): void {
    const { ranks, isIdle, release } = this.#options
    const isNeeded = (rank: Rank): boolean => !isIdle(rank) || this.#registered.has(ranks.pairOf(rank).workerId)
    release(
      this.list().filter((rank) => !isNeeded(rank)),
      moment,
    )
  }
}

function requirePair({ workerId, dpRank }: WorkerRank): void {
  const isPair = workerId === BigInt.asUintN(64, workerId) && dpRank === dpRank >>> 0
  if (!isPair) throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: 'it names no rank', workerId, dpRank })
}
