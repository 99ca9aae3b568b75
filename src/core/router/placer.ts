/**
 * Selects a rank for one request and books it there: one step, so nothing can come between. Everything that can fail does
 * so before the booking, and a booking that fails leaves nothing behind.
 */
import { FleetModel } from '../load/index.js'
import type { MatchColumns, Rank, RouterConfig, RouterConfigOverride, WorkerTable } from '../protocol/index.js'
import { WarmrouteError } from '../protocol/index.js'
import type {
  CacheHit,
  CostSettings,
  RankFlags,
  SelectionPolicy,
  SelectionRequest,
  SelectorLabel,
  WorkerSelector,
} from '../selection/index.js'
import {
  Candidates,
  cacheHitOf,
  costSettingsOf,
  DefaultWorkerSelector,
  lesserOverlap,
  validateSelection,
  WarmCostPolicy,
} from '../selection/index.js'
import type { ActiveSequences, LoadColumns } from '../sequences/index.js'
import { newLoadColumns, newLoadDetail } from '../sequences/index.js'
import type { Picked, Refused } from './decision.js'
import type { Moment } from './moment.js'
import type { PrefillEstimator } from './prefill-hint.js'
import { prefillHint } from './prefill-hint.js'
import { makeReceipt } from './receipt.js'
import type { SchedulingRequest } from './scheduling-request.js'
import { UnseenPrefills } from './unseen-prefills.js'

export interface PlacerOptions {
  readonly workers: WorkerTable
  readonly sequences: ActiveSequences
  readonly config: RouterConfig
  readonly blockSize: number
  readonly label: SelectorLabel
  /** The default one unless told. */
  readonly selector?: WorkerSelector | undefined
  /** Of the default selector: filters, scorers and a picker of one's own. */
  readonly selectionPolicy?: SelectionPolicy | undefined
  /** True: whoever is placed is told if somebody eligible held more of its prompt. */
  readonly comparesOverlap?: boolean | undefined
  readonly estimatePrefill?: PrefillEstimator | undefined
  /** Present: costs are in milliseconds, learned by this model, and `estimatePrefill` is not asked. */
  readonly model?: FleetModel | undefined
  /** Learns how long prefills take where costs are not in milliseconds, and is asked instead of `estimatePrefill`. */
  readonly learner?: FleetModel | undefined
  readonly onEstimateFailed?: ((cause: unknown) => void) | undefined
}

export interface Outlook {
  readonly rank: Rank
  readonly ownMs: number
  /** Of what is booked there. */
  readonly waitMs: number
}

/** Never throws while it places: whoever waits for an answer gets one, whatever broke. */
export class Placer {
  /** Ranks that can be reached. Absent: nobody knows, so everybody counts. */
  available: RankFlags | undefined
  /** Ranks over their limits. */
  overloaded: RankFlags | undefined
  /** Of requests that were booked here. */
  readonly unseen = new UnseenPrefills()
  /** Of a request without wishes of its own. */
  readonly settings: CostSettings
  readonly #options: PlacerOptions
  readonly #selector: WorkerSelector
  readonly #warm: WarmCostPolicy | undefined
  readonly #loads: LoadColumns = newLoadColumns()
  readonly #eligible = new Candidates()
  /** Learns where nobody else does: made for the first whole answer, since only they ask it. */
  #watcher: FleetModel | undefined
  /** By rank, and only where durations are no part of bookings: when its prompts should be computed. */
  readonly #busyUntilMs: number[] = []
  /** By rank: prefill of held requests that are waiting for it. */
  #heldMs = new Float64Array(0)
  #isHeldFor = false

  constructor(options: PlacerOptions) {
    this.#options = options
    const { model, workers } = options
    const costs = model ? new WarmCostPolicy({ workers, model }) : undefined
    this.#selector =
      options.selector ?? new DefaultWorkerSelector({ ...(costs && { costs }), policy: options.selectionPolicy })
    this.#warm = costs
    if (model) this.#loads.detail = newLoadDetail()
    this.settings = costSettingsOf(options.config)
  }

  /** Whoever is told of first tokens and ends. */
  get learner(): FleetModel | undefined {
    return this.#options.model ?? this.#options.learner ?? this.#watcher
  }

  place(request: SchedulingRequest, matches: MatchColumns, moment: Moment, waitedMs: number): Picked | Refused {
    const { workers } = this.#options
    try {
      this.#fillLoads(request, moment.nowMs)
      const selection = this.#selectionOf(request, matches, moment.draw())
      const chosen = this.#select(selection)
      const { rank, effectiveOverlapBlocks, cachedTokens } = chosen
      const worker = workers.ranks.pairOf(rank)
      const receipt =
        request.wantReceipt === true && this.#selector instanceof DefaultWorkerSelector
          ? makeReceipt(workers, this.#selector, selection, worker, waitedMs)
          : undefined
      const compared = this.#options.comparesOverlap === true && !request.isQueryOnly
      const lesser = compared ? lesserOverlap(workers, selection, rank, this.#eligible) : undefined
      if (!request.isQueryOnly)
        this.#book(request, rank, cachedTokens, selection.settings.trackPrefillTokens, moment.nowMs)
      return {
        kind: 'picked',
        rank,
        worker,
        effectiveOverlapBlocks,
        cachedTokens,
        waitedMs,
        receipt,
        lesserOverlap: lesser,
      }
    } catch (cause) {
      return { kind: 'refused', error: asRefusal(cause) }
    }
  }

  /** Where the request would go now, and how long it would wait and prefill there. Books nothing; needs a model. */
  outlook(request: SchedulingRequest, matches: MatchColumns, nowMs: number): Outlook | undefined {
    if (!this.#warm || !(this.#selector instanceof DefaultWorkerSelector)) return undefined
    try {
      this.#fillLoads(request, nowMs)
      const selection = this.#selectionOf(request, matches, 0)
      const rank = this.#selector.select(this.#options.workers, selection)
      const { ownMs, waitMs } = this.#warm.outlook(rank, selection)
      return { rank, ownMs, waitMs: this.#isHeldFor ? waitMs - this.#heldMs[rank]! : waitMs }
    } catch {
      return undefined // nobody may serve it, or worse: placing it says what
    }
  }

  /** A held request waits for this rank: whoever is looked at after it comes behind it there, as if it were booked. */
  holdFor(rank: Rank, ms: number): void {
    const rankCount = this.#options.workers.ranks.size
    if (this.#heldMs.length < rankCount) this.#heldMs = new Float64Array(2 * rankCount)
    this.#heldMs[rank]! += ms
    this.#isHeldFor = true
  }

  /** A look at the held requests begins or is over. */
  forgetHeld(): void {
    if (this.#isHeldFor) this.#heldMs.fill(0)
    this.#isHeldFor = false
  }

  /** Books a request that somebody else placed. Throws what the tracker throws. */
  bookPlaced(
    request: SchedulingRequest,
    rank: Rank,
    cachedTokens: number,
    tracksPrefill: boolean,
    nowMs: number,
  ): void {
    // The columns are the last request's; what this one shares with those that run is only known after a look of its own.
    if (this.#options.model) this.#fillLoads(request, nowMs)
    this.#book(request, rank, cachedTokens, tracksPrefill, nowMs)
  }

  #book(request: SchedulingRequest, rank: Rank, cachedTokens: number, tracksPrefill: boolean, nowMs: number): void {
    const { sequences, estimatePrefill, onEstimateFailed, model, workers } = this.#options
    const predicting = this.#options.learner
    const { requestId, sequenceHashes, blockCount, promptTokens, expectedOutputTokens, loraName } = request
    const { workerId } = workers.ranks.pairOf(rank)
    // What running requests of the rank share is not computed again either; only a model of durations counts it.
    const sharedTokens = model ? this.#blockTokens(this.#loads.detail?.sharedBlocks[rank] ?? 0) : 0
    const known = Math.min(promptTokens, Math.max(cachedTokens, sharedTokens))
    const prefillLoadHint = prefillHint({
      promptTokens,
      cachedTokens: known,
      tracksPrefillTokens: tracksPrefill,
      estimate: model
        ? (tokens, cached) => model.prefillMs(workerId, tokens, cached)
        : predicting
          ? (tokens, cached) => predicting.predictMs(workerId, tokens, cached)
          : estimatePrefill,
      onFailure: onEstimateFailed,
    })
    sequences.book(
      {
        requestId: requestId!,
        rank,
        sequenceHashes,
        blockCount,
        trackPrefillTokens: tracksPrefill,
        prefillLoadHint,
        expectedOutputTokens,
        loraName,
      },
      nowMs,
    )
    if (request.isWhole && !this.learner) this.#watcher = new FleetModel()
    const { learner } = this
    if (prefillLoadHint?.durationMs !== undefined) {
      if (request.isWhole) this.unseen.add(requestId!, nowMs + sequences.prefillWaitMs(rank, nowMs))
    } else if (prefillLoadHint && learner) {
      const { tokens } = prefillLoadHint
      const doneAtMs = this.#computedAtMs(rank, tokens, learner.prefillMs(workerId, tokens, known), nowMs)
      if (request.isWhole) this.unseen.add(requestId!, doneAtMs)
    }
    // A prompt that is computed elsewhere says nothing of this worker's speed.
    const newTokens = !isPrefilledElsewhere(request) && (model || tracksPrefill) ? promptTokens - known : 0
    learner?.booked(requestId!, rank, workerId, newTokens, known, nowMs, request.isWhole)
  }

  /** When a prompt that was just booked should be computed, behind those that its rank has: for bookings without durations. */
  #computedAtMs(rank: Rank, tokens: number, ownMs: number, nowMs: number): number {
    const isAlone = this.#options.sequences.activeTokens(rank, nowMs) <= tokens // whatever was predicted, nothing is left
    const startMs = isAlone ? nowMs : Math.max(nowMs, this.#busyUntilMs[rank] ?? 0)
    return (this.#busyUntilMs[rank] = startMs + ownMs)
  }

  /** Blocks that are not tracked have no names, and nothing can share them. */
  #fillLoads({ sequenceHashes, blockCount }: SchedulingRequest, nowMs: number): void {
    this.#options.sequences.fillLoads(this.#loads, nowMs, sequenceHashes, sequenceHashes ? blockCount : 0)
    const waitMs = this.#loads.detail?.prefillMs
    if (!this.#isHeldFor || !waitMs) return
    for (let rank = 0; rank < this.#loads.rankCount; rank++) waitMs[rank]! += this.#heldMs[rank]!
  }

  #blockTokens(blocks: number): number {
    return blocks * this.#options.blockSize
  }

  #select(selection: SelectionRequest): CacheHit & { readonly rank: Rank } {
    const { workers, blockSize } = this.#options
    if (this.#selector instanceof DefaultWorkerSelector) {
      const rank = this.#selector.select(workers, selection)
      const { effectiveOverlapBlocks, cachedTokens } = cacheHitOf(selection.cache, rank, selection.settings, blockSize)
      return { rank, effectiveOverlapBlocks, cachedTokens }
    }
    const chosen = this.#askSelector(selection)
    const { worker, effectiveOverlapBlocks, cachedTokens } = chosen
    const rank = workers.servedRank(worker.workerId, worker.dpRank)
    if (rank === undefined)
      throw new WarmrouteError('WR_NO_ENDPOINTS', { reason: 'the selector chose an unknown rank', ...worker })
    return { rank, effectiveOverlapBlocks, cachedTokens }
  }

  /** A selector that is not ours may throw anything; its request then fails, and nothing else. */
  #askSelector(selection: SelectionRequest): ReturnType<WorkerSelector['selectWorker']> {
    try {
      const chosen = this.#selector.selectWorker(this.#options.workers, selection, this.#options.blockSize)
      validateSelection(chosen)
      return chosen
    } catch (cause) {
      if (cause instanceof WarmrouteError) throw cause
      throw new WarmrouteError('WR_SELECTION_POLICY_FAILED', { reason: (cause as Error).message }, { cause })
    }
  }

  #selectionOf(request: SchedulingRequest, matches: MatchColumns, draw: number): SelectionRequest {
    return {
      requestId: request.requestId,
      promptTokens: request.promptTokens,
      blockTokens: this.#options.blockSize,
      label: this.#options.label,
      isPrefilledElsewhere: isPrefilledElsewhere(request),
      settings: this.#settingsFor(request.override),
      load: this.#loads,
      cache: { match: matches },
      sharedHits: request.sharedHits,
      pin: request.pin,
      allowedWorkerIds: request.allowedWorkerIds,
      excludedWorkerIds: request.excludedWorkerIds,
      available: this.available,
      constraints: request.constraints,
      overloaded: this.overloaded,
      trackedBlocks: request.sequenceHashes ? request.blockCount : 0,
      draw,
      loraName: request.loraName,
      expectedOutputTokens: request.expectedOutputTokens,
      priorityJump: request.priorityJump,
      session: request.session,
    }
  }

  #settingsFor(override: RouterConfigOverride | undefined): CostSettings {
    return override ? costSettingsOf(this.#options.config, override) : this.settings
  }
}

function asRefusal(cause: unknown): WarmrouteError {
  if (cause instanceof WarmrouteError) return cause
  const reason = cause instanceof Error ? cause.message : String(cause)
  return new WarmrouteError('WR_BOOKING_FAILED', { reason }, { cause })
}

/** After a remote prefill, as `decodeOverride` of `routing/` says it; a router that tracks no prefills at all is another thing. */
function isPrefilledElsewhere(request: SchedulingRequest): boolean {
  return request.override?.trackPrefillTokens === false
}
