/**
 * Custom policies: filters keep or drop candidates, scorers add up to a cost, a picker chooses a row. Everything happens
 * before booking, so a policy that fails leaves nothing behind. Candidates are objects and read what they are asked for
 * only when they are asked: a slower way than the built-in one, for fleets whose rules it does not know.
 */
import type { Rank, WorkerRank, WorkerTable } from '../protocol/index.js'
import { WarmrouteError } from '../protocol/index.js'
import { lowestPrefillTokens } from './block-cost.js'
import { effectiveBlocksOf } from './cache-hits.js'
import type { Candidates } from './candidates.js'
import type { CostPolicy } from './cost-policy.js'
import { pickLowest, pickSampled } from './pick.js'
import { applyPreferences } from './taints.js'
import type { SelectionRequest } from './worker-selector.js'

/** Blocks by tier, as the index reports them; a source without tiers gives 0 for each. */
export interface CandidateCache {
  readonly deviceBlocks: number
  readonly hostBlocks: number
  readonly diskBlocks: number
  readonly sharedBlocks: number
  readonly effectiveBlocks: number
}

export interface CandidateLoad {
  readonly activePrefillTokens: number
  readonly potentialDecodeBlocks: number
  readonly activeRequests: number
}

export interface CandidateRouting {
  readonly taints: ReadonlySet<string>
  readonly maxBatchedTokens: number
  /** NaN where the worker does not tell. */
  readonly totalKvBlocks: number
}

export interface Candidate extends WorkerRank {
  readonly cache: CandidateCache
  readonly load: CandidateLoad
  readonly routing: CandidateRouting
}

export interface PolicyContext {
  readonly request: SelectionRequest
  /** Booked prefill tokens of the calmest candidate that is left; computed when it is read. */
  readonly lowestPrefillTokens: number
}

export type CandidateFilter = (candidate: Candidate, context: PolicyContext) => boolean
/** A finite number; lower is better. `'default'` stands for the built-in cost with taint preferences. */
export type CandidateScorer = 'default' | ((candidate: Candidate, context: PolicyContext) => number)
/** A row: the index of the chosen candidate. */
export type CandidatePicker = (candidates: readonly Candidate[], costs: Float64Array, context: PolicyContext) => number

export interface SelectionPolicy {
  readonly name: string
  readonly filters?: readonly CandidateFilter[]
  /** The built-in cost alone, unless told. */
  readonly scorers?: readonly CandidateScorer[]
  /** The cheapest, or sampled by temperature, unless told. */
  readonly picker?: CandidatePicker
}

/** The built-in selection, written as a policy. */
export const defaultPolicy: SelectionPolicy = { name: 'default' }

/** The chosen rank. `rows` has at least one row, and holds the rows and costs that the choice was made from afterwards. */
export function runPolicy(
  policy: SelectionPolicy,
  costs: CostPolicy,
  rows: Candidates,
  workers: WorkerTable,
  request: SelectionRequest,
  scratch: Float64Array,
): Rank {
  const context = newContext(rows, request)
  const seen = new Map<Rank, Candidate>()
  const candidateOf = (rank: Rank): Candidate => {
    let candidate = seen.get(rank)
    if (!candidate) seen.set(rank, (candidate = newCandidate(workers, request, rank)))
    return candidate
  }
  for (const filter of policy.filters ?? []) {
    const keep = (rank: Rank): boolean => guarded(policy, () => filter(candidateOf(rank), context))
    rows.retain(keep)
    if (rows.count === 0) throw new WarmrouteError('WR_ALL_WORKERS_FILTERED', { policy: policy.name })
  }
  score(policy, costs, rows, workers, request, (row, scorer) =>
    guarded(policy, () => scorer(candidateOf(rows.ranks[row]!), context)),
  )
  if (!policy.picker) {
    const { temperature } = request.settings
    const row =
      temperature === 0
        ? pickLowest(rows.costs, rows.count, request.draw)
        : pickSampled(rows.costs, rows.count, temperature, request.draw, scratch)
    return rows.ranks[row]!
  }
  const candidates = Array.from(rows.ranks.subarray(0, rows.count), candidateOf)
  const row = guarded(policy, () => policy.picker!(candidates, rows.costs.slice(0, rows.count), context))
  if (!(Number.isInteger(row) && row >= 0 && row < rows.count))
    throw new WarmrouteError('WR_INVALID_PICKER_ROW', { policy: policy.name, row, rowCount: rows.count })
  return rows.ranks[row]!
}

function score(
  policy: SelectionPolicy,
  costs: CostPolicy,
  rows: Candidates,
  workers: WorkerTable,
  request: SelectionRequest,
  ask: (row: number, scorer: Exclude<CandidateScorer, 'default'>) => number,
): void {
  const scorers = policy.scorers ?? ['default']
  if (scorers.includes('default')) {
    costs.fill(rows, request)
    applyPreferences(rows, workers, costs, request)
  } else rows.costs.fill(0, 0, rows.count)
  for (const scorer of scorers) {
    if (scorer === 'default') continue
    for (let row = 0; row < rows.count; row++) rows.costs[row]! += ask(row, scorer)
  }
  for (let row = 0; row < rows.count; row++)
    if (!Number.isFinite(rows.costs[row]!))
      throw new WarmrouteError('WR_NON_FINITE_COST', {
        policy: policy.name,
        cost: rows.costs[row],
        ...workers.ranks.pairOf(rows.ranks[row]!),
      })
}

function guarded<T>(policy: SelectionPolicy, call: () => T): T {
  try {
    return call()
  } catch (cause) {
    throw new WarmrouteError('WR_SELECTION_POLICY_FAILED', { policy: policy.name }, { cause })
  }
}

function newContext(rows: Candidates, request: SelectionRequest): PolicyContext {
  return {
    request,
    get lowestPrefillTokens() {
      return lowestPrefillTokens(rows, request)
    },
  }
}

function newCandidate(workers: WorkerTable, request: SelectionRequest, rank: Rank): Candidate {
  const { workerId, dpRank } = workers.ranks.pairOf(rank)
  return {
    workerId,
    dpRank,
    get cache() {
      return cacheOf(request, rank)
    },
    get load() {
      const { load } = request
      const isTracked = load.isTracked[rank] === 1
      return {
        activePrefillTokens: isTracked ? load.prefillTokens[rank]! : 0,
        potentialDecodeBlocks: isTracked ? load.decodeBlocks[rank]! : 0,
        activeRequests: isTracked ? load.activeRequests[rank]! : 0,
      }
    },
    get routing() {
      return {
        taints: workers.taintsOf(rank) ?? noTaints,
        maxBatchedTokens: workers.maxBatchedTokens[rank]!,
        totalKvBlocks: workers.totalKvBlocks[rank]!,
      }
    },
  }
}

const noTaints: ReadonlySet<string> = new Set()

function cacheOf(request: SelectionRequest, rank: Rank): CandidateCache {
  const { cache, settings, sharedHits } = request
  const { match } = cache
  // A weighted figure is no count of device blocks: a policy that asks for tiers gets tiers or nothing.
  const hasTiers = !cache.effectiveBlocks && rank < match.rankCount
  const hasLower = hasTiers && match.hasLowerTiers
  const deviceBlocks = hasTiers ? match.device[rank]! : 0
  return {
    deviceBlocks,
    hostBlocks: hasLower ? match.hostPinned[rank]! : 0,
    diskBlocks: hasLower ? match.disk[rank]! + match.external[rank]! : 0,
    sharedBlocks: sharedHits?.hitsBeyond(deviceBlocks) ?? 0,
    effectiveBlocks: effectiveBlocksOf(cache, rank, settings),
  }
}
