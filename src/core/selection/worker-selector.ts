/**
 * Chooses a worker for one request. `WorkerSelector` is what the router needs; `DefaultWorkerSelector` prices all
 * eligible ranks and picks. A custom one may do as it likes: its answer is judged before anything is booked.
 */
import type { JsonInput, Rank, WorkerRank, WorkerTable } from '../protocol/index.js'
import { WarmrouteError } from '../protocol/index.js'
import { blockCostPolicy } from './block-cost.js'
import { cacheHitOf } from './cache-hits.js'
import type { CandidateRows } from './candidates.js'
import { Candidates } from './candidates.js'
import type { CostBreakdown, CostInputs, CostPolicy } from './cost-policy.js'
import { validateCostSettings } from './cost-settings.js'
import type { Eligibility } from './eligibility.js'
import { pickLowest, pickSampled } from './pick.js'
import type { SelectionPolicy } from './selection-policy.js'
import { runPolicy } from './selection-policy.js'
import { applyPreferences } from './taints.js'

export interface SelectionRequest extends CostInputs, Eligibility {
  readonly requestId?: string | undefined
  /** Blocks of the prompt that the tracker would hold. */
  readonly trackedBlocks: number
  /** Uniform in 0..1, 1 excluded: breaks a tie or samples. */
  readonly draw: number
  readonly loraName?: string | undefined
  readonly expectedOutputTokens?: number | undefined
  readonly priorityJump?: number | undefined
  /** Whatever the caller wants a custom policy to see. */
  readonly session?: JsonInput | undefined
}

export interface WorkerSelection {
  readonly worker: WorkerRank
  /** Blocks of the whole prompt, a partial one included. */
  readonly requiredBlocks: number
  readonly effectiveOverlapBlocks: number
  readonly cachedTokens: number
  /** Blocks that the rank holds after admission, those that the tracker does not see included. */
  readonly potentialDecodeBlocks?: number | undefined
}

export interface WorkerSelector {
  selectWorker(workers: WorkerTable, request: SelectionRequest, blockTokens: number): WorkerSelection
}

export class DefaultWorkerSelector implements WorkerSelector {
  readonly #costs: CostPolicy
  readonly #policy: SelectionPolicy | undefined
  readonly #rows = new Candidates()
  #weights = new Float64Array(0)

  constructor(options: { readonly costs?: CostPolicy; readonly policy?: SelectionPolicy | undefined } = {}) {
    this.#costs = options.costs ?? blockCostPolicy
    this.#policy = options.policy
  }

  /** The rows of the last selection, valid until the next; a receipt is made of them. */
  get rows(): CandidateRows {
    return this.#rows
  }

  selectWorker(workers: WorkerTable, request: SelectionRequest): WorkerSelection {
    return this.describe(workers, request, this.select(workers, request))
  }

  /** Only the rank: the path of a request. Throws where nobody may serve, or an argument is no number. */
  select(workers: WorkerTable, request: SelectionRequest): Rank {
    validateRequest(request)
    if (request.load.rankCount < workers.ranks.size) throw refused('load.rankCount', request.load.rankCount)
    const rows = this.#rows
    rows.gather(workers, request)
    if (request.pin) {
      this.#costs.fill(rows, request)
      return rows.ranks[0]!
    }
    if (this.#policy) return runPolicy(this.#policy, this.#costs, rows, workers, request, this.#scratch(rows.count))
    this.#costs.fill(rows, request)
    applyPreferences(rows, workers, this.#costs, request)
    const { temperature } = request.settings
    const row =
      temperature === 0
        ? pickLowest(rows.costs, rows.count, request.draw)
        : pickSampled(rows.costs, rows.count, temperature, request.draw, this.#scratch(rows.count))
    return rows.ranks[row]!
  }

  /** What the caller of a selection wants to know of the chosen rank. */
  describe(workers: WorkerTable, request: SelectionRequest, rank: Rank): WorkerSelection {
    const { load, promptTokens, blockTokens } = request
    const requiredBlocks = Math.ceil(promptTokens / blockTokens)
    const tracked = load.isTracked[rank] === 1 ? load.decodeBlocks[rank]! : 0
    // Written out: on Node 20 a spread followed by more properties costs about 1 µs for each of them.
    const { effectiveOverlapBlocks, cachedTokens } = cacheHitOf(request.cache, rank, request.settings, blockTokens)
    return {
      worker: workers.ranks.pairOf(rank),
      requiredBlocks,
      effectiveOverlapBlocks,
      cachedTokens,
      potentialDecodeBlocks: tracked + Math.max(0, requiredBlocks - request.trackedBlocks),
    }
  }

  /** The terms behind a row of the last selection; `cost` is the row's own, preferences and custom scorers included. */
  explain(row: number, request: SelectionRequest): CostBreakdown {
    return { ...this.#costs.explain(this.#rows, row, request), cost: this.#rows.costs[row]! }
  }

  #scratch(count: number): Float64Array {
    if (this.#weights.length < count) this.#weights = new Float64Array(2 * count)
    return this.#weights
  }
}

/** Judges what a selector that is not ours answered. Throws `WR_SELECTION_POLICY_FAILED`. */
export function validateSelection(selection: WorkerSelection): void {
  const { workerId, dpRank } = selection.worker
  const isPair =
    typeof workerId === 'bigint' &&
    workerId === BigInt.asUintN(64, workerId) &&
    Number.isInteger(dpRank) &&
    dpRank >= 0 &&
    dpRank <= 0xffff_ffff
  const { requiredBlocks, effectiveOverlapBlocks, cachedTokens, potentialDecodeBlocks = 0 } = selection
  const figures = { requiredBlocks, effectiveOverlapBlocks, cachedTokens, potentialDecodeBlocks }
  const bad = Object.entries(figures).find(([, value]) => !(Number.isFinite(value) && value >= 0))
  if (isPair && !bad) return
  const reason = bad ? `${bad[0]} is ${bad[1]}` : `worker ${workerId}, rank ${dpRank}`
  throw new WarmrouteError('WR_SELECTION_POLICY_FAILED', { reason, workerId, dpRank })
}

function validateRequest(request: SelectionRequest): void {
  const { promptTokens, blockTokens, trackedBlocks, draw } = request
  if (!(Number.isSafeInteger(promptTokens) && promptTokens > 0)) throw refused('promptTokens', promptTokens)
  if (!(Number.isSafeInteger(blockTokens) && blockTokens > 0)) throw refused('blockTokens', blockTokens)
  if (!(Number.isSafeInteger(trackedBlocks) && trackedBlocks >= 0)) throw refused('trackedBlocks', trackedBlocks)
  if (!(draw >= 0 && draw < 1)) throw refused('draw', draw)
  validateCostSettings(request.settings)
}

function refused(field: string, value: number): WarmrouteError {
  return new WarmrouteError('WR_INVALID_ARGUMENT', { reason: `${field} is ${value}`, field, value })
}
