/**
 * The core with everything alive around it: the clock, timers, the watch on workers, and those who wait for an answer.
 * Every input goes through here, so that whoever it lets go is told at once.
 */
import { setMaxListeners } from 'node:events'
import type { Tracer } from '@opentelemetry/api'
import type { TieredBatch } from '../core/index/index.js'
import { FleetModel } from '../core/load/index.js'
import type { MatchColumns, Rank, RouterConfig, RouterEvent } from '../core/protocol/index.js'
import {
  eventSourceRequirement,
  needsEventSource,
  queueRecheckIntervalMs,
  WarmrouteError,
} from '../core/protocol/index.js'
import type { QueueRejection } from '../core/queue/index.js'
import { isQueueing, profileFor } from '../core/queue/index.js'
import type {
  Dispatch,
  LogSink,
  Moment,
  ParkedRequest,
  Picked,
  RouterCoreOptions,
  RouterInputs,
  SchedulingRequest,
} from '../core/router/index.js'
import { RecordingRouter, RouterCore } from '../core/router/index.js'
import { waitForWorkers } from './boot-wait.js'
import { newKvIndex, stepBlocks } from './build-index.js'
import { chooseSelectionPolicy } from './choose-policy.js'
import { untilAborted } from './deadline.js'
import type { Closeable, KvRouterOptions } from './kv-router-options.js'
import { LoadFeed } from './load-feed.js'
import { Lookups } from './lookups.js'
import type { Prompt } from './prompt.js'
import type { Randomness, RouterClock, RouterLog, RouterObserver } from './router-ports.js'
import { guardObserver, realClock, realRandomness, silentLog } from './router-ports.js'
import { routerTracer } from './spans.js'
import type { WaitSignal } from './wait-signal.js'
import { signalOf } from './wait-signal.js'
import { Waiters } from './waiters.js'

/** Bookings that nobody ended are looked for this often. */
const expirySweepMs = 60_000
/**
 * Held requests are looked at again by the clock at most this often: where a prefill takes longer than was estimated, the
 * core can only say "soon" until the first token comes. Arrivals, marks and frees are looked at at once all the same.
 */
const wakePauseMs = 5

/** Looks a prompt up again after a long wait. The columns are read in the turn in which they are asked for; nothing where that fails. */
export type LookUpAgain = () => Promise<(() => MatchColumns) | undefined>

export class LiveCore {
  readonly core: RouterCore
  readonly lookups: Lookups
  readonly loads: LoadFeed
  readonly log: RouterLog
  readonly clock: RouterClock
  readonly random: Randomness
  readonly observer: RouterObserver
  readonly tracer: Tracer
  readonly #options: KvRouterOptions<unknown>
  readonly #config: RouterConfig
  readonly #inputs: RouterInputs & { flush?: () => void }
  readonly #waiters: Waiters
  /** Of requests that wait and that the core cannot look up again. */
  readonly #again = new WeakMap<ParkedRequest, LookUpAgain>()
  readonly #stop = new AbortController()
  readonly #ends: (() => void)[] = []
  #wakeAtMs = Number.POSITIVE_INFINITY
  #stopWake: () => void = () => {}
  readonly #closeables: Closeable[] = []
  #closing: Promise<void> | undefined
  #expiring: Promise<void> | undefined
  #isDraining = false

  constructor(options: KvRouterOptions<unknown>, config: RouterConfig) {
    this.#options = options
    this.#config = config
    this.log = options.log ?? silentLog
    this.clock = options.clock ?? realClock
    this.random = options.random ?? realRandomness
    this.observer = guardObserver(options.observer, this.log)
    this.tracer = options.tracer ?? routerTracer()
    let feed: LoadFeed | undefined
    const coreOptions = this.#coreOptions((it) => (feed = it))
    const recording = options.recordTo && new RecordingRouter(coreOptions, loggedSink(options.recordTo, this.log))
    this.core = recording?.core ?? new RouterCore(coreOptions)
    this.#inputs = recording ?? this.core
    this.loads = feed!
    this.loads.readFrom(this.core.sequences)
    this.#waiters = new Waiters((parked) => this.#cancel(parked))
    this.lookups = new Lookups(this.core, options, this.clock, this.tracer, this.log, this.observer)
    setMaxListeners(0, this.#stop.signal) // every request that is looked up elsewhere listens to it
    options.signal?.addEventListener('abort', () => void this.close(), { signal: this.#stop.signal })
  }

  get stop(): AbortSignal {
    return this.#stop.signal
  }

  /** Waits for the minimum of workers, starts with those that are known, then listens and serves where that is wanted. */
  async start(): Promise<void> {
    const { workers, subscribe, serveIndexer, modelName } = this.#options
    const config = this.#config
    if (this.#options.signal?.aborted) throw new WarmrouteError('WR_ROUTER_CLOSED')
    if (config.routerMinInitialWorkers > 0 && !config.skipInitialWorkerWait)
      await waitForWorkers(workers, config.routerMinInitialWorkers, this.stop)
    this.refuseIfOver(undefined)
    this.#reconcile()
    // As of 1.2, whoever skips the wait also says that discovery will not keep the ranks up to date.
    if (!(config.skipInitialWorkerWait && config.compat === 'dynamo-1.2'))
      this.#ends.push(workers.watch(() => this.#reconcile()))
    this.#startTimers()
    const { index } = this.core
    if (config.useRemoteIndexer) this.log.info({}, 'skipping KV event subscription (using remote indexer)')
    else if (!needsEventSource(this.#options.workerRole, config)) {
      const { useKvEvents, overlapScoreCredit } = config
      const requirement = eventSourceRequirement(this.#options.workerRole, config)
      this.log.info({ useKvEvents, overlapScoreCredit, requirement }, 'skipping KV event subscription')
    } else if (subscribe && index) {
      const applyEvents = (events: readonly RouterEvent[]): void => {
        this.#inputs.applyEvents(events)
        this.#drainLater()
      }
      const applyBatch = (batch: TieredBatch): void => {
        this.#inputs.applyBatch(batch)
        this.#drainLater()
      }
      const setWithheld = (rank: Rank, isWithheld: boolean): void => this.#inputs.setWithheld(rank, isWithheld)
      const { ranks } = this.core
      await this.#keep(subscribe({ index, ranks, applyEvents, applyBatch, setWithheld }, this.stop))
    }
    if (config.serveIndexer && serveIndexer && index && modelName !== undefined) {
      const mode = config.useKvEvents ? 'event-driven' : 'approximate'
      await this.#keep(serveIndexer({ index, modelName, mode }, this.stop))
    }
    this.log.info({}, 'KV routing initialized')
  }

  /** Refuses everybody who waits; settles when nothing runs any more. Safe to repeat. */
  close(): Promise<void> {
    return (this.#closing ??= this.#closeAll())
  }

  async #closeAll(): Promise<void> {
    this.log.info({}, 'closing the router')
    this.#stop.abort()
    for (const end of this.#ends.splice(0)) end()
    this.#stopWake()
    this.tell((inputs) => inputs.refuseAll(new WarmrouteError('WR_ROUTER_CLOSED')))
    await Promise.allSettled(this.#closeables.splice(0).map((it) => it.close()))
    this.#inputs.flush?.()
  }

  /** Waits for something to come up, at most until the router closes. What comes up later is closed at once. */
  async #keep(starting: Promise<Closeable>): Promise<void> {
    const kept = starting.then(async (it) => {
      if (!this.stop.aborted) return void this.#closeables.push(it)
      await it.close()
      throw new WarmrouteError('WR_ROUTER_CLOSED')
    })
    await untilAborted(kept, this.stop)
  }

  /** Throws where nobody should ask any more. */
  refuseIfOver(signal: WaitSignal | undefined): void {
    if (this.stop.aborted) throw new WarmrouteError('WR_ROUTER_CLOSED')
    if (typeof signal === 'object' && signal.aborted) throw new WarmrouteError('WR_REQUEST_CANCELLED')
  }

  /** Gives the core an input, and then their answer to those whose wait it ended. */
  tell<T>(input: (inputs: RouterInputs, moment: Moment) => T): T {
    try {
      return input(this.#inputs, this.#moment())
    } finally {
      for (const dispatch of this.#inputs.takeDispatched()) this.#settle(dispatch)
      this.#wakeLater()
      this.#drainLater()
      this.observer.queued?.(this.core.pendingCount, this.core.pendingIslTokens)
    }
  }

  /**
   * Where the request is placed: at once, or when its wait is over; throws or rejects when it is refused or given up. `onPlaced`
   * runs right after a placement that needed no wait, while lent columns are still the request's.
   */
  place(
    request: SchedulingRequest,
    matches: MatchColumns,
    signal: WaitSignal | undefined,
    onPlaced: (picked: Picked, parked: ParkedRequest | undefined) => void,
    lookUpAgain?: LookUpAgain,
  ): Picked | Promise<Picked> {
    const decision = this.tell((inputs, moment) => {
      const made = inputs.decide(request, moment, matches)
      if (made.kind === 'picked') onPlaced(made, undefined)
      return made
    })
    if (decision.kind === 'refused') {
      const { rejection } = decision.error.details
      if (rejection) this.observer.queueRejected?.(rejection as QueueRejection)
      throw decision.error
    }
    if (decision.kind === 'picked') return this.#observed(request, decision)
    if (lookUpAgain) this.#again.set(decision.parked, lookUpAgain)
    return this.#placeLater(request, decision.parked, signalOf(signal), onPlaced)
  }

  async #placeLater(
    request: SchedulingRequest,
    parked: ParkedRequest,
    signal: AbortSignal | undefined,
    onPlaced: (picked: Picked, parked: ParkedRequest) => void,
  ): Promise<Picked> {
    const picked = await this.#waiters.wait(parked, signal)
    if (signal?.aborted) {
      // Between being placed and being told, the caller has gone.
      const { requestId, isQueryOnly } = request
      if (!isQueryOnly) this.tell((inputs, moment) => inputs.freeIfOn(requestId!, picked.worker, moment))
      throw new WarmrouteError('WR_REQUEST_CANCELLED')
    }
    onPlaced(picked, parked)
    return this.#observed(request, picked)
  }

  #observed({ requestId }: SchedulingRequest, picked: Picked): Picked {
    const { lesserOverlap } = picked
    if (lesserOverlap) this.clock.soon(() => this.observer.lesserOverlap?.(requestId!, lesserOverlap))
    return picked
  }

  /** Ends the wait of this id. False: it does not wait. */
  giveUp(requestId: string): boolean {
    const parked = this.core.parkedOf(requestId)
    if (parked) this.#waiters.giveUp(parked)
    return parked !== undefined
  }

  /**
   * Forgets predictions whose time has ended. Before a prompt is hashed into lent columns: it may take them back. Where many have
   * ended it answers with what must be awaited before a lookup: the rest goes in later turns of the loop, one step in each for
   * everybody who waits.
   */
  expireDue(): Promise<void> | undefined {
    if (this.#expiring === undefined && this.#isDue()) this.#expireStep()
    return this.#isDue() ? this.#expireRest() : undefined
  }

  async #expireRest(): Promise<void> {
    while (this.#isDue()) await (this.#expiring ??= this.#expireInTurns())
  }

  async #expireInTurns(): Promise<void> {
    try {
      do {
        await new Promise<void>((resolve) => this.clock.soon(resolve))
        this.#expireStep()
      } while (this.#isDue())
    } finally {
      this.#expiring = undefined
    }
  }

  #isDue(): boolean {
    const { index } = this.core
    return index?.nextExpiryMs !== undefined && index.nextExpiryMs <= this.clock.nowMs() && !this.stop.aborted
  }

  #expireStep(): void {
    this.tell((inputs, moment) => inputs.expire(moment, stepBlocks))
  }

  /** What ranks left that are gone, or were cleared, is taken away a step in each turn of the loop. */
  #drainLater(): void {
    const { index } = this.core
    if (this.#isDraining || !index || index.drain(0) === 0 || this.stop.aborted) return
    this.#isDraining = true
    this.clock.soon(() => {
      this.#isDraining = false
      index.drain(stepBlocks)
      this.#drainLater()
    })
  }

  find(prompt: Prompt): MatchColumns {
    return prompt.local ? this.core.find(prompt.local, prompt.blockCount) : this.core.find(noHashes, 0)
  }

  #settle({ parked, decision }: Dispatch): void {
    if (decision.kind === 'picked') this.#waiters.placed(parked, decision)
    else if (decision.kind === 'refused') this.#waiters.refused(parked, decision.error)
    else void this.#refresh(parked)
  }

  /** It waited long, and is not looked up by the core: asks again, and goes on with the old figures where that fails. */
  async #refresh(parked: ParkedRequest): Promise<void> {
    const { localHashes, blockCount, promptTokens } = parked.request
    const prompt = { tokenCount: promptTokens, blockCount, local: localHashes, sequence: undefined }
    const found = await (this.#again.get(parked)?.() ?? this.lookups.refresh(prompt, this.stop))
    const decision = this.tell((inputs, moment) => inputs.place(parked, found?.(), moment))
    if (decision.kind === 'picked') this.#waiters.placed(parked, decision)
    else this.#waiters.refused(parked, decision.error)
  }

  #cancel(parked: ParkedRequest): boolean {
    const isCancelled = this.tell((inputs) => inputs.cancel(parked))
    // With one lane for all, as of 1.2, who is gone may have been the one that held up everybody else.
    if (isCancelled && this.#config.compat === 'dynamo-1.2') this.tell((inputs, moment) => inputs.recheck(moment))
    return isCancelled
  }

  #reconcile(): void {
    this.tell((inputs, moment) => inputs.reconcileWorkers(this.#options.workers.current(), moment))
  }

  #startTimers(): void {
    const { policies, modelName } = this.#options
    const isQueue = isQueueing(profileFor(policies, modelName, this.#config))
    this.#ends.push(
      this.clock.every(queueRecheckIntervalMs(this.#config, isQueue), () =>
        this.tell((inputs, moment) => inputs.recheck(moment)),
      ),
      this.clock.every(expirySweepMs, () => this.#sweep()),
    )
  }

  /** Bookings as well as predictions, so that one step is taken in any case. */
  #sweep(): void {
    this.#expireStep()
    this.expireDue()?.catch((error: unknown) => this.log.warn({ error }, 'failed to forget predictions'))
  }

  #coreOptions(onFeed: (feed: LoadFeed) => LoadFeed): RouterCoreOptions {
    const { blockSize, policies, modelName, selector, prefillLoadEstimator, prefillProfile, replica } = this.#options
    const config = this.#config
    const { clock, random } = this
    return {
      config,
      blockSize,
      profile: profileFor(policies, modelName, config),
      label: this.#options.workerType ?? 'decode',
      startMs: clock.nowMs(),
      index: config.useRemoteIndexer
        ? undefined
        : (ranks, startMs) => newKvIndex(ranks, config, this.#options, startMs, random),
      selector,
      selectionPolicy: chooseSelectionPolicy(config, this.#options),
      comparesOverlap: this.#options.observer?.lesserOverlap !== undefined,
      estimatePrefill: prefillLoadEstimator === 'online' ? undefined : prefillLoadEstimator,
      model: prefillProfile && new FleetModel({ profile: prefillProfile }),
      learner:
        prefillLoadEstimator === 'online' && config.policy !== 'warm'
          ? new FleetModel({ profile: prefillProfile })
          : undefined,
      onEstimateFailed: (error) => this.log.warn({ error }, 'failed to predict a prefill duration'),
      load: (ranks) => onFeed(new LoadFeed(ranks, clock, this.log)),
      replica: config.routerReplicaSync ? replica : undefined,
      onExpired: (requestId) => this.log.warn({ requestId }, 'dropped a booking that nobody ended'),
    }
  }

  /** Held requests may go by the mere passing of time; the core says when to look again. One timer at most. */
  #wakeLater(): void {
    const nowMs = this.clock.nowMs()
    const soonest = this.stop.aborted ? undefined : this.core.nextWakeMs(nowMs)
    if (soonest === undefined) return
    const at = soonest <= nowMs ? nowMs : Math.max(soonest, nowMs + wakePauseMs)
    if (at >= this.#wakeAtMs) return
    this.#stopWake()
    this.#wakeAtMs = at
    this.#stopWake = this.clock.once(at - nowMs, () => {
      this.#wakeAtMs = Number.POSITIVE_INFINITY
      this.tell((inputs, moment) => inputs.recheck(moment))
    })
  }

  #moment(): Moment {
    return { nowMs: this.clock.nowMs(), draw: this.#draw }
  }

  readonly #draw = (): number => this.random.draw()
}

function loggedSink(sink: LogSink, log: RouterLog): LogSink {
  return (bytes) => {
    try {
      sink(bytes)
    } catch (error) {
      log.warn({ error }, 'the log of inputs ends here: its sink failed')
      throw error
    }
  }
}

const noHashes = new Uint32Array(0)
