/**
 * The facts of every known worker, as columns by rank. Queue, selection and load read the columns; only whoever watches
 * discovery writes. A rank is *served* while some worker's config owns it. What is booked or cached there is not known here.
 */
import type { Rank, RankTable } from './rank-table.js'
import { comparePairs } from './rank-table.js'
import type { WorkerConfig } from './worker-config.js'
import { maxNumBatchedTokensDefault, validateWorkerConfig } from './worker-config.js'

/** Ranks that a change brought or took. The caller empties every array of a removed rank, then releases its number. */
export interface TopologyChange {
  readonly added: readonly Rank[]
  readonly removed: readonly Rank[]
}

export class WorkerTable {
  readonly ranks: RankTable
  /** 1: the rank is inside the owned range of a known worker. */
  isServed = new Uint8Array(0)
  /** `maxNumBatchedTokens`, or its stand-in. */
  maxBatchedTokens = new Float64Array(0)
  /** NaN where the worker does not tell. */
  totalKvBlocks = new Float64Array(0)
  servedCount = 0
  /** Grows with every change, so that a view can tell whether it is stale. */
  version = 0
  readonly #configs = new Map<bigint, WorkerConfig>()
  readonly #taints: (ReadonlySet<string> | undefined)[] = []
  #served: Uint32Array<ArrayBufferLike> | undefined = new Uint32Array(0)

  constructor(ranks: RankTable) {
    this.ranks = ranks
  }

  get workerCount(): number {
    return this.#configs.size
  }

  /** Served ranks in ascending order of (worker id, dp rank). Only read: it is replaced by the next change. */
  get served(): Uint32Array {
    // Sorted by the first who asks, not by every change: a fleet of thousands joins one by one.
    return (this.#served ??= this.#inOrder())
  }

  configOf(workerId: bigint): WorkerConfig | undefined {
    return this.#configs.get(workerId)
  }

  workerIds(): IterableIterator<bigint> {
    return this.#configs.keys()
  }

  taintsOf(rank: Rank): ReadonlySet<string> | undefined {
    return this.#taints[rank]
  }

  /** The rank of a pair that a known worker owns. */
  servedRank(workerId: bigint, dpRank: number): Rank | undefined {
    const rank = this.ranks.find(workerId, dpRank)
    return rank !== undefined && this.isServed[rank] === 1 ? rank : undefined
  }

  /** The start rank of a worker that owns exactly one rank. */
  uniqueDpRank(workerId: bigint): number | undefined {
    const config = this.#configs.get(workerId)
    return config?.dataParallelSize === 1 ? config.dataParallelStartRank : undefined
  }

  /** Adds a worker, or replaces what is known of it. Ranks that stay inside its range keep their number. */
  set(workerId: bigint, config: WorkerConfig): TopologyChange {
    validateWorkerConfig(config)
    const change = { added: [] as Rank[], removed: [] as Rank[] }
    this.#write(workerId, config, change)
    this.#changed(change)
    return change
  }

  remove(workerId: bigint): TopologyChange {
    const change = { added: [] as Rank[], removed: [] as Rank[] }
    this.#drop(workerId, change)
    this.#changed(change)
    return change
  }

  /** Makes `configs` all that is known. Every config is judged before the first is written. */
  reconcile(configs: ReadonlyMap<bigint, WorkerConfig>): TopologyChange {
    for (const config of configs.values()) validateWorkerConfig(config)
    const change = { added: [] as Rank[], removed: [] as Rank[] }
    for (const workerId of this.#configs.keys()) if (!configs.has(workerId)) this.#drop(workerId, change)
    for (const [workerId, config] of configs) this.#write(workerId, config, change)
    this.#changed(change)
    return change
  }

  #write(workerId: bigint, config: WorkerConfig, change: { added: Rank[]; removed: Rank[] }): void {
    const { dataParallelStartRank: start, dataParallelSize: size } = config
    const before = this.#configs.get(workerId)
    if (before) {
      const { dataParallelStartRank: oldStart, dataParallelSize: oldSize } = before
      for (let dpRank = oldStart; dpRank < oldStart + oldSize; dpRank++)
        if (dpRank < start || dpRank >= start + size) this.#unserve(workerId, dpRank, change)
    }
    this.#configs.set(workerId, config)
    for (let dpRank = start; dpRank < start + size; dpRank++) {
      const rank = this.ranks.intern(workerId, dpRank)
      this.#makeRoom(rank)
      if (this.isServed[rank] === 0) change.added.push(rank)
      this.isServed[rank] = 1
      this.maxBatchedTokens[rank] = config.maxNumBatchedTokens ?? maxNumBatchedTokensDefault
      this.totalKvBlocks[rank] = config.totalKvBlocks ?? Number.NaN
      this.#taints[rank] = config.taints && config.taints.size > 0 ? config.taints : undefined
    }
  }

  #drop(workerId: bigint, change: { removed: Rank[] }): void {
    const config = this.#configs.get(workerId)
    if (!config) return
    const { dataParallelStartRank: start, dataParallelSize: size } = config
    for (let dpRank = start; dpRank < start + size; dpRank++) this.#unserve(workerId, dpRank, change)
    this.#configs.delete(workerId)
  }

  #unserve(workerId: bigint, dpRank: number, change: { removed: Rank[] }): void {
    const rank = this.servedRank(workerId, dpRank)
    if (rank === undefined) return
    this.isServed[rank] = 0
    this.#taints[rank] = undefined
    change.removed.push(rank)
  }

  #changed(change: TopologyChange): void {
    this.servedCount += change.added.length - change.removed.length
    this.#served = undefined
    this.version++
  }

  #inOrder(): Uint32Array {
    const ordered: Rank[] = []
    for (let rank = 0; rank < this.isServed.length; rank++) if (this.isServed[rank] === 1) ordered.push(rank)
    const pairs = new Map(ordered.map((rank) => [rank, this.ranks.pairOf(rank)]))
    return Uint32Array.from(ordered.sort((a, b) => comparePairs(pairs.get(a)!, pairs.get(b)!)))
  }

  #makeRoom(rank: Rank): void {
    if (rank < this.isServed.length) return
    const capacity = Math.max(rank + 1, 2 * this.isServed.length, 16)
    const isServed = new Uint8Array(capacity)
    isServed.set(this.isServed)
    this.isServed = isServed
    const maxBatchedTokens = new Float64Array(capacity)
    maxBatchedTokens.set(this.maxBatchedTokens)
    this.maxBatchedTokens = maxBatchedTokens
    const totalKvBlocks = new Float64Array(capacity)
    totalKvBlocks.set(this.totalKvBlocks)
    this.totalKvBlocks = totalKvBlocks
  }
}
