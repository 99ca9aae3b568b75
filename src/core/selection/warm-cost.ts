/**
 * The cost of a rank in milliseconds: how long until this request has its first token there, and what it costs the others.
 *
 *   cost = wait + step + own - copy + (stall + decode) / weight + full
 *
 *   own     estimated prefill of the tokens that are neither cached nor about to be (running requests share their prefix)
 *   copy    the part of `own` that is an investment: a prefix that another rank has, and that several running requests crowd
 *           around there. Of a stretch that each holder serves to c requests, a second copy is worth 1 - 1.5/c of its price:
 *           between the c that ask for it and the c/2 that would find it there, all of whom share in the price.
 *   wait    estimated prefill that is booked on the rank and not computed yet
 *   step    where others decode: half of the step that is under way, and the one that our prefill shares its pass with
 *   stall   requests that decode there stand still while we prefill; and our answer will, as often as the rank prefills lately
 *   decode  what our context slows their steps by and theirs ours, over a mean answer
 *   full    waiting for blocks to be freed where the pool is nearly taken
 *
 * Where a crowded prefix is not everywhere yet, whoever starts there comes back: the load that a rank usually has counts in
 * stall and decode as well as what it has now.
 *
 * How fast prefills and steps are is learned, and so is the weight of a first token against the same time spread over answers
 * (`core/load`). Measured in docs/routing.md.
 */
import type { FleetModel } from '../load/index.js'
import type { Rank, WorkerTable } from '../protocol/index.js'
import type { Crowds, LoadDetail } from '../sequences/index.js'
import { effectiveBlocksOf } from './cache-hits.js'
import type { CandidateRows } from './candidates.js'
import type { CostBreakdown, CostInputs, CostPolicy } from './cost-policy.js'

export interface WarmCostOptions {
  readonly workers: WorkerTable
  readonly model: FleetModel
}

/** Of the pool; above this a request may have to wait for blocks. */
const fullAt = 0.8
/** Steps of the others that a first token waits for: half of the one under way, and the one in its own pass. */
const stepsBefore = 1.5
/** Of the time that a rank computes prompts; in the rest answers go on, a token with every pass. */
const heldUpShare = 0.5
/** Stands in where a worker does not say how many blocks it has. */
const unknownBlocks = 16_384

export class WarmCostPolicy implements CostPolicy {
  readonly name = 'warm'
  readonly unit = 'ms'
  readonly #workers: WorkerTable
  readonly #model: FleetModel
  /** By rank: times slower than the fleet. As old as `#speedsOf`: a lookup by id for every row would be half of the price. */
  #speeds = new Float64Array(0)
  readonly #speedsOf = { model: -1, workers: -1 }

  constructor(options: WarmCostOptions) {
    this.#workers = options.workers
    this.#model = options.model
  }

  fill(rows: CandidateRows, inputs: CostInputs): void {
    const { detail } = inputs.load
    this.#refreshSpeeds()
    if (detail) this.#fillColumns(rows, inputs, detail)
    else for (let row = 0; row < rows.count; row++) rows.costs[row] = this.#price(rows.ranks[row]!, inputs, noCrowd)
  }

  /** The whole prompt on an idle rank: otherwise nobody's wish would count where nothing is waited for. */
  everywhere({ promptTokens }: CostInputs): number {
    return this.#model.fleetPrefillMs(promptTokens, 0)
  }

  explain(rows: CandidateRows, row: number, inputs: CostInputs): CostBreakdown {
    const rank = rows.ranks[row]!
    const { load, cache } = inputs
    const { match } = cache
    const isTracked = load.isTracked[rank] === 1
    const hasTiers = rank < match.rankCount
    const crowd = load.detail ? this.#crowdOf(rows, inputs, load.detail.crowds) : noCrowd
    const cost = this.#price(rank, inputs, crowd)
    return {
      deviceBlocks: hasTiers ? match.device[rank]! : 0,
      hostBlocks: hasTiers && match.hasLowerTiers ? match.hostPinned[rank]! : 0,
      diskBlocks: hasTiers && match.hasLowerTiers ? match.disk[rank]! + match.external[rank]! : 0,
      sharedBlocks: 0,
      activePrefillTokens: isTracked ? load.prefillTokens[rank]! : 0,
      decodeBlocks: isTracked ? load.decodeBlocks[rank]! : 0,
      activeRequests: isTracked ? load.activeRequests[rank]! : 0,
      creditBlocks: this.cachedTokens(rank, inputs) / inputs.blockTokens,
      prefillCost: this.#terms.own + this.#terms.wait,
      cost,
      milliseconds: { ...this.#terms },
    }
  }

  /** Tokens of the prompt that the rank need not compute: cached, or being computed for somebody else. */
  cachedTokens(rank: Rank, inputs: CostInputs): number {
    const { blockTokens, promptTokens, load, settings, cache } = inputs
    const resident = effectiveBlocksOf(cache, rank, settings)
    const shared = load.detail?.sharedBlocks[rank] ?? 0
    return Math.min(promptTokens, Math.max(resident, shared) * blockTokens)
  }

  /** What was last priced for this rank: its own prefill and the wait before it. */
  outlook(rank: Rank, inputs: CostInputs): { readonly ownMs: number; readonly waitMs: number } {
    this.#price(rank, inputs, noCrowd)
    return { ownMs: this.#terms.own, waitMs: this.#terms.wait }
  }

  /** Of the row priced last, for receipts. */
  readonly #terms = { own: 0, copy: 0, wait: 0, step: 0, stall: 0, decode: 0, full: 0 }

  #price(rank: Rank, inputs: CostInputs, { knownTokensMax, isSpreading }: Crowd): number {
    const { load, promptTokens, blockTokens } = inputs
    const detail = load.detail
    const terms = this.#terms
    const cached = this.cachedTokens(rank, inputs)
    this.#refreshSpeeds()
    const model = this.#model
    const speed = this.#speeds[rank]!
    const prefillMs = inputs.isPrefilledElsewhere ? 0 : model.fleetPrefillMs(promptTokens - cached, cached)
    terms.own = prefillMs * speed
    terms.copy = terms.wait = terms.step = terms.stall = terms.decode = terms.full = 0
    if (!detail || load.isTracked[rank] !== 1) return terms.own
    const copied = inputs.isPrefilledElsewhere ? 0 : copiedTokens(detail.crowds, cached, knownTokensMax, blockTokens)
    if (copied > 0) terms.copy = (prefillMs - model.fleetPrefillMs(promptTokens - cached - copied, cached)) * speed
    terms.wait = detail.prefillMs[rank]!
    terms.full = this.#fullMs(load.decodeBlocks[rank]!, this.#totalBlocksOf(rank))
    if (inputs.label !== 'prefill') this.#priceDecoding(rank, inputs, detail, speed, isSpreading)
    const beside = (terms.stall + terms.decode) / model.firstTokenWeight
    return terms.wait + terms.step + terms.own - terms.copy + beside + terms.full
  }

  #priceDecoding(
    rank: Rank,
    { load, promptTokens, blockTokens }: CostInputs,
    detail: LoadDetail,
    speed: number,
    isSpreading: boolean,
  ): void {
    const terms = this.#terms
    const { outputBlocks, decode, contextTokenStepMs } = this.#model
    const behind = Math.max(0, load.activeRequests[rank]! - detail.prefillRequests[rank]!)
    const contextTokens = detail.contextBlocks[rank]! * blockTokens
    const usual = isSpreading ? 1 : 0
    const decoding = behind + usual * detail.usualDecoding[rank]!
    const contexts = contextTokens + usual * detail.usualContextBlocks[rank]! * blockTokens
    const answerTokens = outputBlocks * blockTokens
    if (behind > 0) terms.step = stepsBefore * (decode.base + decode.slope * contextTokens) * speed
    terms.stall =
      terms.own * decoding + heldUpShare * answerTokens * decode.base * speed * this.#model.prefillShare(rank)
    terms.decode = answerTokens * contextTokenStepMs * speed * (contexts + decoding * promptTokens)
  }

  /** `#price` for every row, over columns and without its terms; the tests hold the two equal. */
  #fillColumns(rows: CandidateRows, inputs: CostInputs, detail: LoadDetail): void {
    const { ranks, costs, count } = rows
    const { load, promptTokens, blockTokens, settings, cache } = inputs
    const { match } = cache
    const { isTracked, activeRequests, decodeBlocks } = load
    const { prefillMs, prefillRequests, contextBlocks, sharedBlocks, crowds, usualDecoding, usualContextBlocks } =
      detail
    const isPlain = !cache.effectiveBlocks && !match.hasLowerTiers
    const speeds = this.#speeds
    const totals = this.#workers.totalKvBlocks
    const model = this.#model
    const isDecoding = inputs.label !== 'prefill'
    const isElsewhere = inputs.isPrefilledElsewhere === true
    const { base: stepMs, slope: stepMsPerToken } = model.decode
    const weight = 1 / model.firstTokenWeight
    // Per answer and token of context, weighed: their contexts slow our steps, ours slows each of theirs.
    const answerTokens = model.outputBlocks * blockTokens * weight
    const perContextToken = answerTokens * model.contextTokenStepMs
    const perPrefillShare = heldUpShare * answerTokens * stepMs
    const { knownTokensMax: knownMax, isSpreading } = this.#crowdOf(rows, inputs, crowds)
    let lastCached = -1
    let lastMs = 0
    let lastPaidMs = 0
    for (let row = 0; row < count; row++) {
      const rank = ranks[row]!
      const resident = !isPlain
        ? effectiveBlocksOf(cache, rank, settings)
        : rank < match.rankCount
          ? match.device[rank]!
          : 0
      const shared = sharedBlocks[rank]!
      const known = (resident > shared ? resident : shared) * blockTokens
      const cached = known > promptTokens ? promptTokens : known
      // Most ranks hold the same of a prompt: nothing, or what everybody shares.
      if (cached !== lastCached) {
        lastCached = cached
        lastMs = isElsewhere ? 0 : model.fleetPrefillMs(promptTokens - cached, cached)
        const copied = cached < knownMax && !isElsewhere ? copiedTokens(crowds, cached, knownMax, blockTokens) : 0
        lastPaidMs = copied > 0 ? model.fleetPrefillMs(promptTokens - cached - copied, cached) : lastMs
      }
      const speed = speeds[rank]!
      if (isTracked[rank] !== 1) {
        costs[row] = lastMs * speed
        continue
      }
      let ownMs = lastPaidMs
      if (isDecoding) {
        const behind = activeRequests[rank]! - prefillRequests[rank]!
        let decoding = behind > 0 ? behind : 0
        let contexts = contextBlocks[rank]! * blockTokens
        if (decoding > 0) ownMs += stepsBefore * (stepMs + stepMsPerToken * contexts)
        if (isSpreading) {
          decoding += usualDecoding[rank]!
          contexts += usualContextBlocks[rank]! * blockTokens
        }
        ownMs += lastMs * decoding * weight + perPrefillShare * model.prefillShare(rank)
        ownMs += perContextToken * (contexts + decoding * promptTokens)
      }
      const cost = prefillMs[rank]! + ownMs * speed
      const total = totals[rank]! > 0 ? totals[rank]! : unknownBlocks
      const used = decodeBlocks[rank]!
      costs[row] = used > fullAt * total ? cost + this.#fullMs(used, total) : cost
    }
  }

  /** `noCrowd`, without a look at the rows, where nothing is crowded. */
  #crowdOf(rows: CandidateRows, inputs: CostInputs, crowds: Crowds): Crowd {
    if (!isCrowded(crowds)) return noCrowd
    let most = 0
    let least = Number.POSITIVE_INFINITY
    for (let row = 0; row < rows.count; row++) {
      const cached = this.cachedTokens(rows.ranks[row]!, inputs)
      if (cached > most) most = cached
      if (cached < least) least = cached
    }
    return { knownTokensMax: most, isSpreading: copiedTokens(crowds, least, most, inputs.blockTokens) > 0 }
  }

  #refreshSpeeds(): void {
    const of = this.#speedsOf
    if (of.model === this.#model.speedsVersion && of.workers === this.#workers.version) return
    const { ranks, served, servedCount, version } = this.#workers
    if (this.#speeds.length < ranks.size) this.#speeds = new Float64Array(2 * ranks.size)
    this.#speeds.fill(1)
    for (let row = 0; row < servedCount; row++) {
      const rank = served[row]!
      this.#speeds[rank] = this.#model.speedOf(ranks.pairOf(rank).workerId)
    }
    of.model = this.#model.speedsVersion
    of.workers = version
  }

  #totalBlocksOf(rank: Rank): number {
    const known = this.#workers.totalKvBlocks[rank]!
    return known > 0 ? known : unknownBlocks
  }

  #fullMs(usedBlocks: number, totalBlocks: number): number {
    const overflow = usedBlocks - fullAt * totalBlocks
    return overflow <= 0 ? 0 : (overflow * this.#model.residenceMs) / usedBlocks
  }
}

interface Crowd {
  /** Tokens of the prompt that some row need not compute. */
  readonly knownTokensMax: number
  /** Some row lacks some of what is crowded: copies are worth something there. */
  readonly isSpreading: boolean
}

const noCrowd: Crowd = { knownTokensMax: 0, isSpreading: false }

/** Requests for each holder of a prefix, up to which they are no crowd; see `copy` above, and docs/decisions/0145. */
const crowdMin = 1.5

function isCrowded({ count, perHolder }: Crowds): boolean {
  for (let at = 0; at < count; at++) if (perHolder[at]! > crowdMin) return true
  return false
}

/** Tokens from `cached` to `knownMax`, each by the share that is worth computing for others; see `copy` above. */
function copiedTokens(crowds: Crowds, cached: number, knownMax: number, blockTokens: number): number {
  let copied = 0
  let from = cached
  for (let at = 0; at < crowds.count && from < knownMax; at++) {
    const end = Math.min(crowds.ends[at]! * blockTokens, knownMax)
    if (end <= from) continue
    const perHolder = crowds.perHolder[at]!
    if (perHolder > crowdMin) copied += (end - from) * (1 - crowdMin / perHolder)
    from = end
  }
  return copied
}
