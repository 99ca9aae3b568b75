/**
 * Who is busy. Fed with load reports and runtime configs, answers with the set of busy workers. One report costs the
 * ranks of one worker, however large the fleet: only the worker that spoke is judged again.
 *
 * Owns the load states and the thresholds. Holds no socket, timer or metric: `routing/` feeds it and acts on the answer.
 */
import type { ActiveLoad, RankLoad } from './rank-load.js'
import { applyReport, hasReported, isRankBusy, newRankLoad } from './rank-load.js'
import type { LoadThresholds, MonitorVersion, ThresholdChange } from './thresholds.js'
import { initialThresholds, isConfigured, updateThresholds } from './thresholds.js'

/** The part of a worker's runtime config that load is judged by. */
export interface WorkerCapacity {
  readonly dataParallelStartRank: number
  readonly dataParallelSize: number
  readonly totalKvBlocks?: number
  readonly maxNumBatchedTokens?: number
}

/** A worker that left, with the ranks whose gauges must end. */
export interface DepartedWorker {
  readonly workerId: bigint
  readonly dpRanks: readonly number[]
}

export interface LoadMonitorOptions {
  readonly version?: MonitorVersion
  readonly thresholds?: LoadThresholds
  /** Reports for workers beyond this many are dropped and counted: a stray publisher cannot grow us without bound. */
  readonly workersMax?: number
  /** The same for the ranks that one worker reports; 4,096 unless told. */
  readonly ranksMax?: number
}

/**
 * Who is busy: told of loads and capacities, it keeps the set of workers over a threshold.
 *
 * @example
 * import { LoadMonitor } from 'warmroute/core'
 *
 * const monitor = new LoadMonitor({ thresholds: { activeDecodeBlocksThreshold: 0.8 } })
 * monitor.reconcile(new Map([[1n, { dataParallelStartRank: 0, dataParallelSize: 1, totalKvBlocks: 100 }]]))
 * monitor.report({ workerId: 1n, dpRank: 0, kvUsedBlocks: 81 })
 * console.log(monitor.busyWorkers) // => Set(1) { 1n }
 */
export class LoadMonitor {
  readonly version: MonitorVersion
  readonly #workersMax: number
  readonly #ranksMax: number
  readonly #workers = new Map<bigint, Map<number, RankLoad>>()
  readonly #busy = new Set<bigint>()
  #thresholds: LoadThresholds
  #droppedReports = 0

  constructor(options: LoadMonitorOptions = {}) {
    this.version = options.version ?? '1.1'
    this.#thresholds = initialThresholds(this.version, options.thresholds ?? {})
    this.#workersMax = options.workersMax ?? 100_000
    this.#ranksMax = options.ranksMax ?? 4096
  }

  get thresholds(): LoadThresholds {
    return this.#thresholds
  }

  /** False: nothing is ever busy, and a caller need not gate at all. */
  get isConfigured(): boolean {
    return isConfigured(this.#thresholds)
  }

  /** Live view; changes with every report. */
  get busyWorkers(): ReadonlySet<bigint> {
    return this.#busy
  }

  get droppedReports(): number {
    return this.#droppedReports
  }

  isBusy(workerId: bigint): boolean {
    return this.#busy.has(workerId)
  }

  /** The ranks that a worker is known by, from its config or its reports. */
  ranksOf(workerId: bigint): readonly number[] {
    return [...(this.#workers.get(workerId)?.keys() ?? [])]
  }

  /** True when the set of busy workers changed. */
  report(load: ActiveLoad): boolean {
    let ranks = this.#workers.get(load.workerId)
    if (!ranks) {
      if (this.#workers.size >= this.#workersMax) {
        this.#droppedReports++
        return false
      }
      this.#workers.set(load.workerId, (ranks = new Map()))
    }
    let rank = ranks.get(load.dpRank)
    if (!rank) {
      if (ranks.size >= this.#ranksMax) {
        this.#droppedReports++
        return false
      }
      ranks.set(load.dpRank, (rank = newRankLoad()))
    }
    applyReport(rank, load, this.version, this.#thresholds)
    return this.#judge(load.workerId, ranks)
  }

  /** The fleet as discovery sees it now: absent workers are forgotten, at once and with their busy mark. */
  reconcile(capacities: ReadonlyMap<bigint, WorkerCapacity>): readonly DepartedWorker[] {
    const departed: DepartedWorker[] = []
    for (const [workerId, ranks] of this.#workers) {
      if (capacities.has(workerId)) continue
      departed.push({ workerId, dpRanks: [...ranks.keys()] })
      this.#workers.delete(workerId)
      this.#busy.delete(workerId)
    }
    for (const [workerId, capacity] of capacities) this.#learnCapacity(workerId, capacity)
    return departed
  }

  /** Numbers set a limit, null takes it back. Takes effect at once: every worker is judged again. True when the busy set changed. */
  setThresholds(change: ThresholdChange): boolean {
    this.#thresholds = updateThresholds(this.version, this.#thresholds, change)
    let changed = false
    for (const [workerId, ranks] of this.#workers) changed = this.#judge(workerId, ranks) || changed
    return changed
  }

  #learnCapacity(workerId: bigint, capacity: WorkerCapacity): void {
    let ranks = this.#workers.get(workerId)
    if (!ranks) this.#workers.set(workerId, (ranks = new Map()))
    const end = capacity.dataParallelStartRank + capacity.dataParallelSize
    for (let dpRank = capacity.dataParallelStartRank; dpRank < end; dpRank++) {
      let rank = ranks.get(dpRank)
      if (!rank) ranks.set(dpRank, (rank = newRankLoad()))
      if (capacity.totalKvBlocks !== undefined) rank.totalBlocks = capacity.totalKvBlocks
      if (capacity.maxNumBatchedTokens !== undefined) rank.maxNumBatchedTokens = capacity.maxNumBatchedTokens
    }
    this.#judge(workerId, ranks)
  }

  #judge(workerId: bigint, ranks: ReadonlyMap<number, RankLoad>): boolean {
    const isBusy = this.isConfigured && everyReportedRankIsBusy(ranks, this.#thresholds)
    if (isBusy === this.#busy.has(workerId)) return false
    if (isBusy) this.#busy.add(workerId)
    else this.#busy.delete(workerId)
    return true
  }
}

/** One free rank keeps the worker free; so does having heard from none. */
function everyReportedRankIsBusy(ranks: ReadonlyMap<number, RankLoad>, thresholds: LoadThresholds): boolean {
  let reported = 0
  for (const rank of ranks.values()) {
    if (!hasReported(rank)) continue
    if (!isRankBusy(rank, thresholds)) return false
    reported++
  }
  return reported > 0
}
