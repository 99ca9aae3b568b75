/**
 * The whole router as one state machine: who exists, what is cached, what runs, who waits. Every input is a method, every
 * method takes its moment, and nothing else changes it: feeding the same inputs to a fresh one gives the same decisions.
 * Owns the one table of ranks and the order in which a vanishing rank is emptied before its number is given away.
 */
import type {
  HashColumn,
  MatchColumns,
  Rank,
  RouterConfig,
  RouterEvent,
  TopologyChange,
  WorkerConfig,
  WorkerRank,
} from '../protocol/index.js'
import {
  defaultWorkerConfig,
  newMatchColumns,
  RankTable,
  resetMatchColumns,
  WarmrouteError,
  WorkerTable,
} from '../protocol/index.js'
import { FleetModel } from '../load/index.js'
import type { DecisionOutcome, EventOutcome, KvIndex, TieredBatch } from '../index/index.js'
import type { PolicyProfile } from '../queue/index.js'
import type { SelectorLabel } from '../selection/index.js'
import type { LoadPort, ReplicaOutcome, ReplicaPort, SequenceEvent } from '../sequences/index.js'
import { ActiveSequences, applyReplicaEvents, sequenceRulesOf } from '../sequences/index.js'
import type { Decision, Dispatch, Picked, Refused } from './decision.js'
import { withLiveRanks } from './live-batch.js'
import type { Moment } from './moment.js'
import type { ParkedRequest } from './parked-request.js'
import type { PlacerOptions } from './placer.js'
import { Scheduler } from './scheduler.js'
import type { SchedulingRequest } from './scheduling-request.js'
import { StrayRanks } from './stray-ranks.js'

/** How a worker is chosen, as the placer takes it. */
type ChoiceOptions = Pick<
  PlacerOptions,
  'selector' | 'selectionPolicy' | 'comparesOverlap' | 'estimatePrefill' | 'learner' | 'onEstimateFailed'
>

export interface RouterCoreOptions extends ChoiceOptions {
  readonly config: RouterConfig
  readonly blockSize: number
  readonly profile: PolicyProfile
  readonly label: SelectorLabel
  /** Built over this core's ranks. Absent: what is cached comes with each request. */
  readonly index?: ((ranks: RankTable, startMs: number) => KvIndex) | undefined
  /** From when on expiry is counted; 0 unless told. */
  readonly startMs?: number | undefined
  /** Of `policy: warm`; a new one that starts from nothing unless told. */
  readonly model?: FleetModel | undefined
  readonly load?: ((ranks: RankTable) => LoadPort) | undefined
  readonly replica?: { readonly routerId: bigint; readonly port: ReplicaPort } | undefined
  readonly onExpired?: ((requestId: string, rank: Rank) => void) | undefined
}

/** Everything that can change a router. */
export interface RouterInputs {
  setWorker(workerId: bigint, config: WorkerConfig, moment: Moment): void
  removeWorker(workerId: bigint, moment: Moment): void
  /** Makes `configs` all that exists. */
  reconcileWorkers(configs: ReadonlyMap<bigint, WorkerConfig>, moment: Moment): void
  /** Lets bookings be placed on workers that are not known yet; adds to what is there. */
  registerWorkers(workerIds: Iterable<bigint>, moment: Moment): void
  setFlags(flags: WorkerFlags, moment: Moment): void
  applyEvents(events: readonly RouterEvent[]): readonly EventOutcome[]
  /** The hot way in: packed events, by the numbers of `ranks`. The batch may be filled again afterwards. */
  applyBatch(batch: TieredBatch): void
  /** While a rank's events are in doubt, what they told counts for nothing. Forgotten with the rank. */
  setWithheld(rank: Rank, isWithheld: boolean): void
  /** Looks the prompt up itself unless told what the caches hold. */
  decide(request: SchedulingRequest, moment: Moment, matches?: MatchColumns): Decision
  place(parked: ParkedRequest, matches: MatchColumns | undefined, moment: Moment): Picked | Refused
  cancel(parked: ParkedRequest): boolean
  book(request: SchedulingRequest, worker: WorkerRank, cachedTokens: number, moment: Moment): void
  markPrefillCompleted(requestId: string, moment: Moment): void
  addOutputBlock(requestId: string, moment: Moment, fraction?: number): void
  free(requestId: string, moment: Moment): void
  freeIfOn(requestId: string, worker: WorkerRank, moment: Moment): boolean
  recordDecision(
    worker: WorkerRank,
    local: HashColumn,
    sequence: HashColumn,
    blockCount: number,
    moment: Moment,
  ): DecisionOutcome
  applyReplica(events: readonly SequenceEvent[], moment: Moment): ReplicaOutcome
  recheck(moment: Moment): void
  /** Frees bookings that nobody ended, and forgets predictions whose time is over: about `blocksMax` blocks of them. */
  expire(moment: Moment, blocksMax?: number): void
  /** Requests that left the queue since the last call, in the order in which they did. */
  takeDispatched(): readonly Dispatch[]
  /** Shutdown: everybody who waits is refused. */
  refuseAll(error: WarmrouteError): void
}

/** By worker id; absent means that nobody says anything. */
export interface WorkerFlags {
  readonly available?: ReadonlySet<bigint> | undefined
  readonly overloaded?: ReadonlySet<bigint> | undefined
}

export class RouterCore implements RouterInputs {
  readonly ranks: RankTable = new RankTable()
  readonly workers: WorkerTable = new WorkerTable(this.ranks)
  readonly sequences: ActiveSequences
  readonly index: KvIndex | undefined
  /** What is learned of the fleet's speed; absent unless costs are in milliseconds. */
  readonly model: FleetModel | undefined
  /** What learns how long prefills take for costs or bookings; absent where neither asks. */
  readonly learner: FleetModel | undefined
  /** What the last lookup found; filled again by the next. */
  readonly matches: MatchColumns = newMatchColumns()
  readonly #options: RouterCoreOptions
  readonly #scheduler: Scheduler
  readonly #strays: StrayRanks
  #flags: WorkerFlags = {}

  constructor(options: RouterCoreOptions) {
    const { config } = options
    this.#options = options
    this.sequences = new ActiveSequences({
      ranks: this.ranks,
      rules: sequenceRulesOf(config.compat),
      expiryMs: 1000 * config.routerActiveRequestExpirySecs,
      load: options.load?.(this.ranks),
      replica: options.replica,
      onExpired: (requestId, rank) => {
        this.#scheduler.learner?.forget(requestId)
        options.onExpired?.(requestId, rank)
      },
    })
    this.index = options.index?.(this.ranks, options.startMs ?? 0)
    this.#strays = new StrayRanks({
      ranks: this.ranks,
      workers: this.workers,
      isIdle: (rank) => this.sequences.activeRequests(rank) === 0,
      release: (removed, moment) => this.#settleTopology({ added: [], removed }, moment),
    })
    if (this.index) this.index.mayIntern = (workerId) => this.#strays.admits(workerId)
    this.model = config.policy === 'warm' ? (options.model ?? new FleetModel()) : undefined
    this.learner = this.model ?? options.learner
    this.#scheduler = new Scheduler({
      workers: this.workers,
      sequences: this.sequences,
      config,
      blockSize: options.blockSize,
      profile: options.profile,
      label: options.label,
      selector: options.selector,
      selectionPolicy: options.selectionPolicy,
      comparesOverlap: options.comparesOverlap,
      estimatePrefill: options.estimatePrefill,
      model: this.model,
      learner: this.learner,
      isLateBinding: config.routerLateBinding,
      onEstimateFailed: options.onEstimateFailed,
      lookUp: this.index ? (local, count, out) => this.index!.findMatches(local, count, out) : 'later',
    })
  }

  get pendingCount(): number {
    return this.#scheduler.pendingCount
  }

  /** When `recheck` should be called for the sake of held requests. */
  nextWakeMs(nowMs: number): number | undefined {
    return this.#scheduler.nextWakeMs(nowMs)
  }

  get pendingIslTokens(): number {
    return this.#scheduler.pendingIslTokens
  }

  parkedOf(requestId: string): ParkedRequest | undefined {
    return this.#scheduler.parkedOf(requestId)
  }

  takeDispatched(): readonly Dispatch[] {
    return this.#scheduler.takeDispatched()
  }

  // ---- who exists

  setWorker(workerId: bigint, config: WorkerConfig, moment: Moment): void {
    const change = this.workers.set(workerId, config)
    this.#strays.joined(workerId)
    this.#settleTopology(change, moment)
  }

  removeWorker(workerId: bigint, moment: Moment): void {
    const change = this.workers.remove(workerId)
    // Ranks that only events, peers or bookings named go with the worker as well.
    const others = this.ranks.ofWorker(workerId).filter((rank) => !change.removed.includes(rank))
    this.#strays.left(workerId)
    this.#settleTopology({ added: [], removed: [...change.removed, ...others] }, moment)
  }

  reconcileWorkers(configs: ReadonlyMap<bigint, WorkerConfig>, moment: Moment): void {
    const vanished = [...this.workers.workerIds()].filter((workerId) => !configs.has(workerId))
    const change = this.workers.reconcile(configs)
    const removed = new Set(change.removed)
    for (const workerId of vanished) {
      for (const rank of this.ranks.ofWorker(workerId)) removed.add(rank)
      this.#strays.left(workerId)
    }
    for (const workerId of configs.keys()) this.#strays.joined(workerId)
    // As of 1.5 discovery has the last word on whom the tracker knows.
    if (this.#options.config.compat === 'dynamo-1.5')
      for (const rank of this.#strays.list()) if (this.sequences.isTracked(rank)) removed.add(rank)
    this.#settleTopology({ added: change.added, removed: [...removed] }, moment)
  }

  registerWorkers(workerIds: Iterable<bigint>, moment: Moment): void {
    for (const workerId of workerIds) {
      const { dataParallelStartRank: start, dataParallelSize: size } =
        this.workers.configOf(workerId) ?? defaultWorkerConfig
      this.#strays.register(workerId)
      for (let dpRank = start; dpRank < start + size; dpRank++)
        this.sequences.track(this.#strays.intern({ workerId, dpRank }, moment), moment.nowMs)
    }
    this.#scheduler.recheck(moment)
  }

  setFlags(flags: WorkerFlags, moment: Moment): void {
    this.#flags = flags
    this.#scheduler.setFlags(this.#rankFlags(), moment)
  }

  // ---- what is cached

  applyEvents(events: readonly RouterEvent[]): readonly EventOutcome[] {
    return this.index?.applyEvents(events) ?? []
  }

  applyBatch(batch: TieredBatch): void {
    const { index } = this
    index?.apply(withLiveRanks(batch, this.ranks, (kind) => index.counts.add(kind, 'unknown_worker')))
  }

  setWithheld(rank: Rank, isWithheld: boolean): void {
    if (this.ranks.isLive(rank)) this.index?.setWithheld(rank, isWithheld)
  }

  /** What the caches hold of a prompt; the columns are `matches`. */
  find(local: HashColumn, blockCount: number): MatchColumns {
    if (this.index) this.index.findMatches(local, blockCount, this.matches)
    else resetMatchColumns(this.matches, this.ranks.size)
    return this.matches
  }

  recordDecision(
    worker: WorkerRank,
    local: HashColumn,
    sequence: HashColumn,
    blockCount: number,
    moment: Moment,
  ): DecisionOutcome {
    const rank = this.workers.servedRank(worker.workerId, worker.dpRank)
    if (rank === undefined) throw new WarmrouteError('WR_WORKER_NOT_FOUND', { ...worker })
    const isCount = Number.isSafeInteger(blockCount) && blockCount >= 0
    if (!isCount || 2 * blockCount > Math.min(local.length, sequence.length) || !Number.isFinite(moment.nowMs))
      throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: 'no such blocks', blockCount, nowMs: moment.nowMs })
    return this.index?.recordRoutingDecision(rank, local, sequence, moment.nowMs, blockCount) ?? 'ignored'
  }

  // ---- requests

  decide(request: SchedulingRequest, moment: Moment, matches?: MatchColumns): Decision {
    return this.#scheduler.decide(request, matches ?? this.#lookUp(request), moment)
  }

  place(parked: ParkedRequest, matches: MatchColumns | undefined, moment: Moment): Picked | Refused {
    return this.#scheduler.place(parked, matches, moment)
  }

  cancel(parked: ParkedRequest): boolean {
    return this.#scheduler.cancel(parked)
  }

  book(request: SchedulingRequest, worker: WorkerRank, cachedTokens: number, moment: Moment): void {
    if (this.sequences.has(request.requestId ?? ''))
      throw new WarmrouteError('WR_DUPLICATE_REQUEST', { requestId: request.requestId })
    const rank = this.#strays.intern(worker, moment)
    this.#scheduler.book(request, rank, cachedTokens, moment)
  }

  markPrefillCompleted(requestId: string, moment: Moment): void {
    this.#scheduler.markPrefillCompleted(requestId, moment)
  }

  addOutputBlock(requestId: string, moment: Moment, fraction?: number): void {
    this.#scheduler.addOutputBlock(requestId, moment, fraction)
  }

  free(requestId: string, moment: Moment): void {
    this.#scheduler.free(requestId, moment)
  }

  freeIfOn(requestId: string, worker: WorkerRank, moment: Moment): boolean {
    const rank = this.ranks.find(worker.workerId, worker.dpRank)
    return rank !== undefined && this.#scheduler.freeIfOn(requestId, rank, moment)
  }

  applyReplica(events: readonly SequenceEvent[], moment: Moment): ReplicaOutcome {
    const routerId = this.#options.replica?.routerId ?? -1n // -1 is nobody's: without an id of our own, nothing is ours
    const outcome = applyReplicaEvents(this.sequences, events, moment.nowMs, {
      routerId,
      intern: (worker) => this.#strays.intern(worker, moment),
    })
    if (outcome.shouldWake) this.#scheduler.recheck(moment)
    return outcome
  }

  recheck(moment: Moment): void {
    this.#scheduler.recheck(moment)
  }

  expire(moment: Moment, blocksMax?: number): void {
    this.sequences.expire(moment.nowMs)
    this.index?.expire(moment.nowMs, blocksMax)
  }

  /** Shutdown: everybody who waits is refused. */
  refuseAll(error: WarmrouteError): void {
    this.#scheduler.refuseAll(error)
  }

  #lookUp(request: SchedulingRequest): MatchColumns {
    if (request.localHashes) return this.find(request.localHashes, request.blockCount)
    resetMatchColumns(this.matches, this.ranks.size)
    return this.matches
  }

  /** A vanishing rank is emptied everywhere before its number can mean somebody else. */
  #settleTopology(change: TopologyChange, moment: Moment): void {
    if (change.removed.length > 0) this.#scheduler.learner?.removeRanks(new Set(change.removed))
    for (const rank of change.removed) {
      const { workerId } = this.ranks.pairOf(rank)
      if (this.workers.configOf(workerId) === undefined) this.#scheduler.learner?.removeWorker(workerId)
      this.sequences.untrack(rank, moment.nowMs)
      this.index?.resetRank(rank)
      this.ranks.release(rank)
    }
    for (const rank of change.added) this.sequences.track(rank, moment.nowMs)
    this.#scheduler.topologyChanged(change.added, this.#rankFlags(), moment)
  }

  #rankFlags(): { available: Uint8Array | undefined; overloaded: Uint8Array | undefined } {
    const { available, overloaded } = this.#flags
    return { available: available && this.#flag(available), overloaded: overloaded && this.#flag(overloaded) }
  }

  #flag(workerIds: ReadonlySet<bigint>): Uint8Array {
    const flags = new Uint8Array(this.ranks.size)
    for (const workerId of workerIds) for (const rank of this.ranks.ofWorker(workerId)) flags[rank] = 1
    return flags
  }
}
