/**
 * The ranks that may serve one request, as rows: `ranks[row]`, later `costs[row]`. Columns are filled again and again;
 * without constraints the rows are the served ranks themselves, and nothing is copied.
 */
import type { WorkerTable } from '../protocol/index.js'
import type { Eligibility } from './eligibility.js'
import { carries, pinnedRank, refusalOf } from './eligibility.js'

export interface CandidateRows {
  count: number
  /** In order of worker id, then dp rank. May belong to the worker table: only read. */
  ranks: Uint32Array
  costs: Float64Array
}

export class Candidates implements CandidateRows {
  count = 0
  ranks: Uint32Array = new Uint32Array(0)
  costs = new Float64Array(0)
  #own = new Uint32Array(16)
  #flags = new Uint8Array(16)

  /** Throws where nobody may serve; otherwise there is at least one row. */
  gather(workers: WorkerTable, eligibility: Eligibility): void {
    if (eligibility.pin) {
      this.#own[0] = pinnedRank(workers, eligibility, eligibility.pin)
      this.ranks = this.#own
      this.count = 1
    } else if (isOpen(eligibility)) {
      this.ranks = workers.served
      this.count = workers.servedCount
    } else this.#filter(workers, eligibility)
    if (this.count === 0) throw refusalOf(workers, eligibility)
    if (this.costs.length < this.count) this.costs = new Float64Array(2 * this.count)
  }

  /** Keeps the rows for which `keep` answers true, in their order. */
  retain(keep: (rank: number) => boolean): void {
    const { ranks, count } = this
    if (this.#own.length < count) this.#own = new Uint32Array(2 * count)
    const own = this.#own
    let kept = 0
    for (let row = 0; row < count; row++) {
      const rank = ranks[row]!
      if (keep(rank)) own[kept++] = rank
    }
    this.ranks = own
    this.count = kept
  }

  #filter(workers: WorkerTable, eligibility: Eligibility): void {
    const { allowedWorkerIds, excludedWorkerIds, available, constraints, overloaded } = eligibility
    const { served, servedCount } = workers
    const taints = constraints?.requiredTaints
    const allowed = allowedWorkerIds ? this.#flagRanks(workers, allowedWorkerIds, excludedWorkerIds) : undefined
    const excluded = allowed || !excludedWorkerIds?.size ? undefined : this.#flagRanks(workers, excludedWorkerIds)
    if (this.#own.length < servedCount) this.#own = new Uint32Array(2 * servedCount)
    const own = this.#own
    let kept = 0
    for (let row = 0; row < servedCount; row++) {
      const rank = served[row]!
      if (allowed && allowed[rank] !== 1) continue
      if (excluded && excluded[rank] === 1) continue
      if (available && available[rank] !== 1) continue
      if (taints && !carries(workers, rank, taints)) continue
      if (overloaded && overloaded[rank] === 1) continue
      own[kept++] = rank
    }
    this.ranks = own
    this.count = kept
  }

  /** Flags the ranks of the named workers: a list of ids is short, and a lookup by id for every rank would not be. */
  #flagRanks(workers: WorkerTable, ids: ReadonlySet<bigint>, except?: ReadonlySet<bigint>): Uint8Array {
    if (this.#flags.length < workers.ranks.size) this.#flags = new Uint8Array(2 * workers.ranks.size)
    const flags = this.#flags.fill(0)
    for (const workerId of ids)
      if (!except?.has(workerId)) for (const rank of workers.ranks.ofWorker(workerId)) flags[rank] = 1
    return flags
  }
}

function isOpen(eligibility: Eligibility): boolean {
  const { allowedWorkerIds, excludedWorkerIds, available, constraints, overloaded } = eligibility
  return (
    !allowedWorkerIds &&
    !excludedWorkerIds?.size &&
    !available &&
    !overloaded &&
    !(constraints?.requiredTaints && constraints.requiredTaints.length > 0)
  )
}
