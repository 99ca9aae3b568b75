/**
 * The synchronous decision: read loads, select, book, in one call without a gap in which the world could change. Parks
 * what finds every rank busy, and lets it go when a rank frees up. Owns the queue; bookings are the tracker's, facts
 * about workers the table's, caches the index's. Time and lots are arguments, so any run can be repeated.
 *
 *   decide ──► judge ──► busy? ──► park ─┐            mark, free, topology, recheck ──► unblock lanes ──► drain ─┐
 *                         └─► place      └─ drain                                                    place ◄─────┘
 *
 * Every call that may let parked requests go leaves them in `takeDispatched`.
 * Follows lib/kv-router/src/scheduling/{queue,local}.rs: v1.2.0 under `compat: dynamo-1.2`, else 1.5.0-dev.
 */
import type { FleetModel } from '../load/index.js'
import type { HashColumn, MatchColumns, Rank } from '../protocol/index.js'
import { newMatchColumns, tracksPrefillTokens, WarmrouteError } from '../protocol/index.js'
import type { PolicyClass, PolicyProfile, QueueRejection } from '../queue/index.js'
import { ClassResolver, mayPark, orderingScore, PolicyQueue } from '../queue/index.js'
import type { RankFlags } from '../selection/index.js'
import { validatePin } from '../selection/index.js'
import { bestCachedTokens, isEveryRankBusy } from './admission.js'
import type { Decision, Dispatch, Picked, Refused } from './decision.js'
import { spreadMatches } from './kept-matches.js'
import { isPinnedLane, laneOf, pinnedLane, sharedLane } from './lane-key.js'
import type { LookPort } from './late-binding.js'
import { LateBinding } from './late-binding.js'
import type { Moment } from './moment.js'
import type { ParkedRequest } from './parked-request.js'
import { newParkedRequest } from './parked-request.js'
import type { PlacerOptions } from './placer.js'
import { Placer } from './placer.js'
import type { SchedulingRequest } from './scheduling-request.js'
import { judgeRequest } from './scheduling-request.js'

export interface SchedulerOptions extends PlacerOptions {
  readonly profile: PolicyProfile
  /** True: a request is held until its best worker is about to be free. Needs a model; for a single router, or synced ones. */
  readonly isLateBinding?: boolean | undefined
  /**
   * Looks a prompt up again after a long wait, or `later` where the index is not in this process: then the request comes
   * back as a dispatch of kind `refresh`. Absent: figures are never refreshed.
   */
  readonly lookUp?: ((local: HashColumn, blockCount: number, out: MatchColumns) => void) | 'later' | undefined
}

/** Indexed by rank; absent means that nobody says anything. */
export interface PlacementFlags {
  readonly available?: RankFlags | undefined
  readonly overloaded?: RankFlags | undefined
}

export class Scheduler {
  readonly #options: SchedulerOptions
  readonly #placer: Placer
  readonly #classes: readonly PolicyClass[]
  readonly #resolver: ClassResolver
  readonly #queue: PolicyQueue<ParkedRequest>
  /** One lane for all, allow lists go past it, and so does who finds a free rank. */
  readonly #isSeed: boolean
  readonly #refreshAfterMs: number
  readonly #parkedById = new Map<string, ParkedRequest>()
  readonly #matches: MatchColumns = newMatchColumns()
  /** By rank: the version of the worker table since which the number stands for its worker. */
  #bornAt = new Float64Array(16)
  #dispatched: Dispatch[] = []
  readonly #late: LateBinding | undefined
  readonly #lookPort: LookPort = {
    matchesOf: (parked: ParkedRequest): MatchColumns => {
      if (!this.#refresh(parked.request)) this.#spread(parked)
      return this.#matches
    },
    mayPlace: (parked: ParkedRequest, { nowMs }: Moment): boolean =>
      this.#options.profile.isSynthetic === true ||
      !this.#isBusy(parked.request, this.#classes[parked.classIndex]!, nowMs),
    go: (parked: ParkedRequest, moment: Moment): void => {
      this.#forget(parked)
      this.#dispatched.push({ parked, decision: this.#placeParked(parked, this.#matches, moment) })
    },
  }
  /** They left the queue, and their lookup is under way. */
  readonly #refreshing = new Set<ParkedRequest>()

  /** Told of first tokens and ends, and of whoever is gone without. */
  get learner(): FleetModel | undefined {
    return this.#placer.learner
  }

  constructor(options: SchedulerOptions) {
    const { config, profile } = options
    this.#options = options
    this.#placer = new Placer(options)
    this.#classes = profile.classes
    this.#resolver = new ClassResolver(profile)
    this.#queue = new PolicyQueue(profile.classes, config.routerQueueParkedMax)
    if (options.isLateBinding && options.model) {
      const { workers, sequences } = options
      const heldMax = config.routerQueueParkedMax
      const { classes } = profile
      this.#late = new LateBinding({ workers, sequences, model: options.model, placer: this.#placer, classes, heldMax })
    }
    this.#isSeed = config.compat === 'dynamo-1.2'
    const refreshAfterSecs = config.routerOverlapRefreshAfterSecs
    this.#refreshAfterMs = refreshAfterSecs > 0 && options.lookUp ? 1000 * refreshAfterSecs : Infinity
  }

  get pendingCount(): number {
    return this.#queue.pendingCount + (this.#late?.size ?? 0)
  }

  get pendingIslTokens(): number {
    return this.#queue.pendingIslTokens + (this.#late?.islTokens ?? 0)
  }

  /** The request of this id, while it waits. */
  parkedOf(requestId: string): ParkedRequest | undefined {
    return this.#parkedById.get(requestId)
  }

  /** Places, parks or refuses. `matches` is what the caches hold of the prompt; it is read, not kept. */
  decide(request: SchedulingRequest, matches: MatchColumns, moment: Moment): Decision {
    this.#endUnseen(moment.nowMs)
    const refusal = this.#judge(request, moment)
    if (refusal) return { kind: 'refused', error: refusal }
    const classIndex = this.#classes.length === 1 ? 0 : this.#classOf(request, matches)
    const policy = this.#classes[classIndex]!
    if (this.#late && this.#mayHold(request, policy))
      return this.#hold(this.#late, request, matches, moment, classIndex)
    if (!mayPark(policy) || (this.#isSeed && request.allowedWorkerIds && !request.pin))
      return this.#placer.place(request, matches, moment, 0)
    const lane = this.#isSeed ? sharedLane : laneOf(request)
    const isBusy =
      (!this.#isSeed && this.#queue.isLaneBlocked(classIndex, lane)) || this.#isBusy(request, policy, moment.nowMs)
    const joinsBacklog = !this.#isSeed && this.#queue.usageOf(classIndex).requests > 0
    if (!isBusy && !joinsBacklog) return this.#placer.place(request, matches, moment, 0)
    return this.#park(request, matches, moment, classIndex, lane, isBusy)
  }

  /** After a dispatch of kind `refresh`: with the new figures, or without where the lookup failed. */
  place(parked: ParkedRequest, matches: MatchColumns | undefined, moment: Moment): Picked | Refused {
    if (parked.state !== 'refreshing') return { kind: 'refused', error: new WarmrouteError('WR_REQUEST_CANCELLED') }
    this.#forget(parked)
    if (!matches) this.#spread(parked)
    return this.#placeParked(parked, matches ?? this.#matches, moment)
  }

  /** The caller is gone. False: it is placed or refused already. */
  cancel(parked: ParkedRequest): boolean {
    if (parked.state === 'gone') return false
    if (parked.state === 'waiting' && !this.#late?.remove(parked)) this.#queue.retract(parked.entry!)
    this.#forget(parked)
    return true
  }

  /** Requests that left the queue since the last call, in the order in which they did. */
  takeDispatched(): readonly Dispatch[] {
    if (this.#dispatched.length === 0) return noDispatches
    const taken = this.#dispatched
    this.#dispatched = []
    return taken
  }

  /** The prompt is computed. Throws `WR_REQUEST_NOT_FOUND`. */
  markPrefillCompleted(requestId: string, moment: Moment): void {
    const rank = this.#options.sequences.rankOf(requestId)
    this.#placer.unseen.remove(requestId)
    this.#endPrefill(requestId, moment.nowMs)
    this.#rankChanged(rank!, moment)
  }

  /** Ends the booking. An unknown id is fine, except under `compat: dynamo-1.5`. */
  free(requestId: string, moment: Moment): void {
    const { sequences, config } = this.#options
    const rank = sequences.rankOf(requestId)
    this.#placer.unseen.remove(requestId)
    if (rank !== undefined) {
      sequences.free(requestId, moment.nowMs)
      this.learner?.ended(requestId, moment.nowMs)
      this.#rankChanged(rank, moment)
      return
    }
    this.learner?.forget(requestId) // a peer may have ended the booking
    if (config.compat === 'dynamo-1.5') throw new WarmrouteError('WR_REQUEST_NOT_FOUND', { requestId })
  }

  /** Ends the booking only while it is on this rank: somebody else may have booked the id anew. */
  freeIfOn(requestId: string, rank: Rank, moment: Moment): boolean {
    if (!this.#options.sequences.freeIfOn(requestId, rank, moment.nowMs)) return false
    this.#placer.unseen.remove(requestId)
    this.learner?.ended(requestId, moment.nowMs)
    this.#rankChanged(rank, moment)
    return true
  }

  addOutputBlock(requestId: string, moment: Moment, fraction?: number): void {
    const { sequences, blockSize } = this.#options
    sequences.addOutputBlock(requestId, moment.nowMs, fraction)
    const contextTokens = sequences.contextBlocks(sequences.rankOf(requestId)!) * blockSize
    this.learner?.outputBlock(requestId, blockSize, contextTokens, moment.nowMs)
  }

  /** Books a request that somebody else placed. Throws what the tracker throws. */
  book(request: SchedulingRequest, rank: Rank, cachedTokens: number, moment: Moment): void {
    const tracks = tracksPrefillTokens(this.#options.config, request.override)
    this.#placer.bookPlaced(request, rank, cachedTokens, tracks, moment.nowMs)
  }

  /** Loads fell by themselves, or somebody else's bookings changed: every lane is looked at again. */
  recheck(moment: Moment): void {
    this.#endUnseen(moment.nowMs)
    this.#late?.look(moment, this.#lookPort)
    if (this.#queue.pendingCount === 0) return
    this.#queue.unblock()
    this.#drain(moment)
  }

  /** Workers changed. Call it when the table, the tracker and the index know. */
  topologyChanged(added: readonly Rank[], flags: PlacementFlags, moment: Moment): void {
    const { workers } = this.#options
    if (this.#bornAt.length < workers.ranks.size) {
      const grown = new Float64Array(2 * workers.ranks.size)
      grown.set(this.#bornAt)
      this.#bornAt = grown
    }
    for (const rank of added) this.#bornAt[rank] = workers.version
    this.setFlags(flags, moment)
  }

  /** Who can be reached, and who is over its limits. Absent means that nobody says anything. */
  setFlags(flags: PlacementFlags, moment: Moment): void {
    this.#placer.available = flags.available
    this.#placer.overloaded = flags.overloaded
    this.recheck(moment)
  }

  /** Shutdown: everybody who waits is refused. */
  refuseAll(error: WarmrouteError): void {
    // Cancelling changes what is iterated, so it is copied first.
    const queued = Array.from(this.#queue, (entry) => entry.payload)
    const everybody = [...queued, ...(this.#late ?? []), ...this.#refreshing]
    for (const payload of everybody) {
      this.cancel(payload)
      this.#dispatched.push({ parked: payload, decision: { kind: 'refused', error } })
    }
  }

  #judge(request: SchedulingRequest, { nowMs }: Moment): WarmrouteError | undefined {
    // Parked by a clock that is no number, it would have no place in any order.
    if (!Number.isFinite(nowMs)) return new WarmrouteError('WR_INVALID_ARGUMENT', { reason: `now is ${nowMs}` })
    const invalid = judgeRequest(request, this.#options.config.compat)
    if (invalid) return invalid
    try {
      validatePin(request)
    } catch (error) {
      return error as WarmrouteError
    }
    const { requestId } = request
    if (request.isQueryOnly || requestId === undefined) return undefined
    const { sequences, workers } = this.#options
    const rank = sequences.rankOf(requestId)
    if (rank !== undefined)
      return new WarmrouteError('WR_DUPLICATE_REQUEST', { requestId, worker: workers.ranks.pairOf(rank) })
    if (!this.#parkedById.has(requestId)) return undefined
    return new WarmrouteError('WR_DUPLICATE_REQUEST', { requestId, reason: 'it is parked' })
  }

  #classOf(request: SchedulingRequest, matches: MatchColumns): number {
    const cached = Math.min(request.promptTokens, this.#bestCachedTokens(request, matches))
    return this.#resolver.resolve(request.policyClass, request.promptTokens - cached)
  }

  #bestCachedTokens(request: SchedulingRequest, matches: MatchColumns): number {
    const { workers, blockSize } = this.#options
    return bestCachedTokens(workers, request, matches, this.#placer.settings, blockSize)
  }

  #isBusy(request: SchedulingRequest, policy: PolicyClass, nowMs: number): boolean {
    const { workers, sequences } = this.#options
    return isEveryRankBusy(workers, sequences, request, policy, this.#placer, nowMs)
  }

  #park(
    request: SchedulingRequest,
    matches: MatchColumns,
    moment: Moment,
    classIndex: number,
    laneKey: string,
    isBusy: boolean,
  ): Decision {
    const { workers } = this.#options
    const best = this.#bestCachedTokens(request, matches)
    const parked = newParkedRequest(request, matches, moment.nowMs, workers.version)
    const { promptTokens: islTokens, priorityJump = 0, strictPriority = 0 } = request
    const facts = { priorityJump, arrivedSecs: moment.nowMs / 1000, islTokens, bestCachedTokens: best }
    const score = orderingScore(this.#classes[classIndex]!.queuePolicy, facts)
    const cachedTokens = Math.min(best, islTokens)
    const outcome = this.#queue.park(
      { classIndex, laneKey, strictPriority, score, islTokens, cachedTokens, payload: parked },
      workers.workerCount,
      isBusy,
    )
    if (outcome.kind === 'rejected') return refusedBy(outcome.rejection)
    parked.entry = outcome.entry
    parked.state = 'waiting'
    if (request.requestId !== undefined && !request.isQueryOnly) this.#parkedById.set(request.requestId, parked)
    if (isBusy) return { kind: 'parked', parked }
    this.#drain(moment)
    // It may have gone at once: others of its class wait for ranks that it does not need.
    const at = this.#dispatched.findIndex((it) => it.parked === parked && it.decision.kind !== 'refresh')
    return at < 0 ? { kind: 'parked', parked } : (this.#dispatched.splice(at, 1)[0]!.decision as Picked | Refused)
  }

  /** Prompts of whole answers whose time has come. Who waits for them is woken by `nextWakeMs`. */
  #endUnseen(nowMs: number): void {
    for (const requestId of this.#placer.unseen.takeDue(nowMs))
      if (this.#options.sequences.has(requestId)) this.#endPrefill(requestId, nowMs)
  }

  #endPrefill(requestId: string, nowMs: number): void {
    this.#options.sequences.markPrefillCompleted(requestId, nowMs)
    this.learner?.firstToken(requestId, nowMs)
  }

  #rankChanged(rank: Rank, moment: Moment): void {
    this.#endUnseen(moment.nowMs)
    this.#late?.look(moment, this.#lookPort)
    if (this.#queue.pendingCount === 0) return
    const { ranks } = this.#options.workers
    if (ranks.isLive(rank)) this.#queue.unblockLane(pinnedLane(ranks.pairOf(rank)))
    this.#queue.unblock((lane) => !isPinnedLane(lane))
    this.#drain(moment)
  }

  // ---- late binding

  /** When to call `recheck` for the sake of those who wait; undefined where time alone changes nothing. */
  nextWakeMs(nowMs: number): number | undefined {
    const unseenMs = this.pendingCount === 0 ? Infinity : this.#placer.unseen.nextMs
    const soonest = Math.min(this.#late?.nextWakeMs(nowMs) ?? Infinity, unseenMs)
    return soonest === Infinity ? undefined : soonest
  }

  /** Pins and queries are never held, and a class that an operator wrote without a threshold never waits. */
  #mayHold(request: SchedulingRequest, policy: PolicyClass): boolean {
    if (request.pin || request.isQueryOnly) return false
    // Its prompt is computed elsewhere: there is no prefill to wait for, and its KV is on the way or held for it.
    if (!tracksPrefillTokens(this.#options.config, request.override)) return false
    return this.#options.profile.isSynthetic === true || mayPark(policy)
  }

  #hold(
    late: LateBinding,
    request: SchedulingRequest,
    matches: MatchColumns,
    moment: Moment,
    classIndex: number,
  ): Decision {
    const outlook = this.#placer.outlook(request, matches, moment.nowMs)
    const mayPlace = (): boolean =>
      this.#options.profile.isSynthetic === true || !this.#isBusy(request, this.#classes[classIndex]!, moment.nowMs)
    if (!outlook || (late.isLittle(outlook) && mayPlace())) return this.#placer.place(request, matches, moment, 0)
    const rejection = late.judge(classIndex)
    if (rejection) return refusedBy(rejection)
    const parked = newParkedRequest(request, matches, moment.nowMs, this.#options.workers.version)
    parked.state = 'waiting'
    parked.classIndex = classIndex
    if (request.requestId !== undefined) this.#parkedById.set(request.requestId, parked)
    const cachedTokens = Math.min(request.promptTokens, this.#bestCachedTokens(request, matches))
    late.hold(parked, classIndex, outlook.ownMs, cachedTokens)
    return { kind: 'parked', parked }
  }

  /** Lets requests go while somebody can take them. */
  #drain(moment: Moment): void {
    const isBusy = (parked: ParkedRequest, policy: PolicyClass): boolean =>
      this.#isBusy(parked.request, policy, moment.nowMs)
    for (let entry = this.#queue.popNext(isBusy); entry; entry = this.#queue.popNext(isBusy))
      this.#dispatched.push({ parked: entry.payload, decision: this.#dispatch(entry.payload, moment) })
  }

  #dispatch(parked: ParkedRequest, moment: Moment): Dispatch['decision'] {
    const { request } = parked
    const isStale = moment.nowMs - parked.parkedAtMs >= this.#refreshAfterMs
    const isOutside = this.#options.lookUp === 'later' && request.localHashes !== undefined
    if (isStale && (isOutside || request.isLookedUpOutside === true)) {
      parked.state = 'refreshing'
      this.#refreshing.add(parked)
      return { kind: 'refresh' }
    }
    this.#forget(parked)
    if (!isStale || !this.#refresh(request)) this.#spread(parked)
    return this.#placeParked(parked, this.#matches, moment)
  }

  /** False: the lookup failed, and the old figures hold. */
  #refresh(request: SchedulingRequest): boolean {
    const { lookUp } = this.#options
    if (!request.localHashes) return false
    if (typeof lookUp !== 'function') return false
    try {
      lookUp(request.localHashes, request.blockCount, this.#matches)
      return true
    } catch {
      return false
    }
  }

  /** Fills the columns with what the request arrived with; a rank that is another worker's by now holds nothing of it. */
  #spread(parked: ParkedRequest): void {
    const { ranks } = this.#options.workers
    spreadMatches(parked.kept, ranks.size, this.#matches, (rank) => {
      return ranks.isLive(rank) && (this.#bornAt[rank] ?? 0) <= parked.topologyVersion
    })
  }

  #placeParked(parked: ParkedRequest, matches: MatchColumns, moment: Moment): Picked | Refused {
    return this.#placer.place(parked.request, matches, moment, moment.nowMs - parked.parkedAtMs)
  }

  #forget(parked: ParkedRequest): void {
    parked.state = 'gone'
    parked.entry = undefined
    this.#refreshing.delete(parked)
    const { requestId } = parked.request
    if (requestId !== undefined && this.#parkedById.get(requestId) === parked) this.#parkedById.delete(requestId)
  }
}

const noDispatches: readonly Dispatch[] = []

function refusedBy(rejection: QueueRejection): Refused {
  const { current, limit, limitKind, policyClass } = rejection
  const reason = `${current} of ${limit} ${limitKind} in class ${policyClass}`
  return { kind: 'refused', error: new WarmrouteError('WR_QUEUE_REJECTED', { reason, rejection }) }
}
