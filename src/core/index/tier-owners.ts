/**
 * Small integers for those who own blocks of the lower tiers: a rank, or a cache that outlives its rank. A rank is its
 * own owner (even numbers); a cache owner (odd numbers) counts for a rank only while the projection says so.
 */
import {
  type CacheOwnerId,
  cacheOwnerKey,
  type Rank,
  type RankTable,
  WarmrouteError,
  type WorkerRank,
} from '../protocol/index.js'

export type Owner = number

/** Cache owners known at once. One more is refused unless an idle one can go. */
export const cacheOwnersMax = 65_536

/** Which rank a cache owner's blocks count for at present. */
export type OwnerProjection = readonly (readonly [owner: CacheOwnerId, rank: WorkerRank])[]

export class TierOwners {
  readonly #ranks: RankTable
  readonly #numbers = new Map<string, number>()
  readonly #ids: (CacheOwnerId | undefined)[] = []
  readonly #pairs: (WorkerRank | undefined)[] = [] // the projection by number: a walk asks for every hold it passes
  readonly #free: number[] = []
  #projected = new Map<string, WorkerRank>()

  constructor(ranks: RankTable) {
    this.#ranks = ranks
  }

  ofRank(rank: Rank): Owner {
    return 2 * rank
  }

  find(id: CacheOwnerId): Owner | undefined {
    const number = this.#numbers.get(cacheOwnerKey(id))
    return number === undefined ? undefined : 2 * number + 1
  }

  /** Undefined where there are too many. `isIdle` says of an owner that it holds nothing. */
  intern(id: CacheOwnerId, isIdle: (owner: Owner) => boolean): Owner | undefined {
    const known = this.find(id)
    if (known !== undefined) return known
    if (this.#numbers.size >= cacheOwnersMax) this.#sweep(isIdle)
    if (this.#numbers.size >= cacheOwnersMax) return undefined
    const key = cacheOwnerKey(id)
    const number = this.#free.pop() ?? this.#ids.length
    this.#ids[number] = id
    this.#pairs[number] = this.#projected.get(key)
    this.#numbers.set(key, number)
    return 2 * number + 1
  }

  /** The rank that an owner's blocks count for, or -1. */
  rankOf(owner: Owner): Rank {
    if ((owner & 1) === 0) return owner >>> 1
    const pair = this.#pairs[owner >>> 1]
    return (pair && this.#ranks.find(pair.workerId, pair.dpRank)) ?? -1
  }

  /** Known cache owners with their numbers. */
  *cacheOwners(): Iterable<readonly [Owner, CacheOwnerId]> {
    for (const [number, id] of this.#ids.entries()) if (id) yield [2 * number + 1, id]
  }

  /** Replaces the projection. One owner with two ranks is refused, and the old projection stays. */
  project(projection: OwnerProjection): void {
    const projected = new Map<string, WorkerRank>()
    for (const [owner, rank] of projection) {
      const key = cacheOwnerKey(owner)
      const other = projected.get(key)
      if (other && (other.workerId !== rank.workerId || other.dpRank !== rank.dpRank))
        throw new WarmrouteError('WR_INVALID_ARGUMENT', {
          reason: 'one cache owner is projected to two ranks',
          owner: key,
        })
      projected.set(key, rank)
    }
    this.#projected = projected
    for (const [key, number] of this.#numbers) this.#pairs[number] = projected.get(key)
  }

  #sweep(isIdle: (owner: Owner) => boolean): void {
    for (const [key, number] of this.#numbers) {
      if (this.#projected.has(key) || !isIdle(2 * number + 1)) continue
      this.#numbers.delete(key)
      this.#ids[number] = this.#pairs[number] = undefined
      this.#free.push(number)
    }
  }
}
