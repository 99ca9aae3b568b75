/** One served model: its workers, its router, its tokenizer, who of its workers is busy, and its handles on the metrics. */
import type { BlockHasher, HashScheme } from '../core/hashing/index.js'
import { createHashScheme } from '../core/hashing/index.js'
import type { WorkerCapacity } from '../core/load/index.js'
import { WarmrouteError } from '../core/protocol/index.js'
import type { EngineKind } from '../engines/index.js'
import { reapIntervalMs, StickySessions } from '../core/sessions/index.js'
import type { AffinityPhase, GuardHooks, PromptHashes, Watched } from '../routing/index.js'
import { AgentController, WorkerMonitor } from '../routing/index.js'
import type { Metrics, RouterMetrics } from '../telemetry/index.js'
import { instanceId, removeWorkerSeries, routerMetricsOf } from '../telemetry/index.js'
import type { Deadlines, HealthOptions, Log, ModelSpec, SessionPeers, WorkerSpec } from './options.js'
import { PrefillSide, requireJoinable } from './pairs/index.js'
import { isPolicyRouter } from './policies/policy-router.js'
import type { PromptTokens } from './request/prompt.js'
import type { ModelMeters } from './telemetry/request-meters.js'
import { EngineSessions } from './sessions/engine-sessions.js'
import { SessionAffinity } from './sessions/session-affinity.js'
import { StoredResponses } from './sessions/stored-responses.js'
import type { Connect } from './wire/engine-link.js'
import { Fleet } from './workers/fleet.js'
import type { Worker } from './workers/worker.js'

export interface ModelContext {
  readonly deadlines: Deadlines
  readonly health: HealthOptions
  readonly log: Log
  readonly now: () => number
  readonly connect?: Connect | undefined
  readonly hasher: BlockHasher
  readonly metersOf: (model: string) => ModelMeters
  readonly metrics: Metrics
  readonly sessionPeers: SessionPeers | undefined
  readonly storedResponsesMax: number
  readonly onGone: (model: Model, worker: Worker) => void
}

/** Schemes of tenants and adapters that are kept; the plain one always is. */
const schemesMax = 256

export class Model {
  readonly spec: ModelSpec
  /** Who decodes, and who does both halves of a request. */
  readonly fleet: Fleet
  /** Who only prefills, where the model takes such workers. */
  readonly prefill: PrefillSide | undefined
  readonly monitor: WorkerMonitor
  readonly meters: ModelMeters
  readonly routerMetrics: RouterMetrics
  /** False: the router looks at load alone, so that making tokens would be wasted. */
  readonly looksAtPrompts: boolean
  readonly #context: ModelContext
  readonly #plain: HashScheme
  readonly #schemes = new Map<string, HashScheme>()
  readonly #stopLoads: () => void
  readonly #reaper: NodeJS.Timeout
  /** Sessions that live inside workers. */
  readonly agents: AgentController
  /** Sessions that clients name in headers; absent unless they are to be kept together. */
  readonly affinity: SessionAffinity | undefined
  /** Of the prefill halves of requests: their workers are others. */
  readonly prefillAffinity: SessionAffinity | undefined
  /** Responses that workers keep for requests that go on with them. */
  readonly responses: StoredResponses
  /** What the guard of each request tells the router's metrics. */
  readonly guardHooks: Omit<GuardHooks, 'closeSession'>

  /** By the wall: what clients are told of a model must not change from one question to the next. */
  readonly createdAtMs = Date.now()
  #hasStarted = false

  constructor(spec: ModelSpec, context: ModelContext) {
    const { deadlines, health, log, now } = context
    this.spec = spec
    this.looksAtPrompts = !isPolicyRouter(spec.router)
    this.#context = context
    this.#plain = createHashScheme({ blockSize: spec.blockSize, isEagle: spec.isEagle ?? false })
    this.meters = context.metersOf(spec.name)
    this.routerMetrics = spec.routerMetrics ?? routerMetricsOf(context.metrics, spec.name)
    const fleetOptions = {
      deadlines,
      health,
      log,
      now,
      connect: context.connect,
      onChange: () => this.meters.setReady(this.isReady),
      onGone: (worker: Worker) => this.#gone(worker),
    }
    this.fleet = new Fleet({ ...fleetOptions, model: spec.name, router: spec.router })
    this.prefill = this.#createPrefillSide(fleetOptions)
    this.monitor = this.#createMonitor()
    const sessions = new StickySessions({
      onExpired: (sessionId, workerId) => this.agents.closeLater(sessionId, workerId),
    })
    this.agents = new AgentController({
      sessions,
      port: new EngineSessions(this.fleet),
      now,
      warn: (fields, sentence) => log.warn({ model: spec.name, ...fields }, sentence),
    })
    this.affinity = this.#createAffinity('decode', this.fleet)
    this.prefillAffinity = this.prefill && this.#createAffinity('prefill', this.prefill.fleet)
    this.responses = new StoredResponses(context.storedResponsesMax, () => this.meters.responseForgotten())
    this.guardHooks = {
      onFirstToken: (sinceStartMs) => this.routerMetrics.requestFirstToken(sinceStartMs),
      onOutputBlock: (meanGapMs) => this.routerMetrics.requestOutputBlock(meanGapMs),
      onFinish: ({ outputTokens }) => this.routerMetrics.requestFinished(outputTokens),
    }
    this.#reaper = setInterval(() => sessions.reap(now()), reapIntervalMs).unref()
    this.#stopLoads = spec.router.onLoads((changed) => {
      if (!this.monitor.isConfigured) return
      for (const { workerId, dpRank, activeDecodeBlocks, activePrefillTokens } of changed)
        this.monitor.report({ workerId, dpRank, activeDecodeBlocks, activePrefillTokens })
    })
    this.meters.setReady(false)
    for (const worker of spec.workers ?? []) this.setWorker(worker)
    void this.monitor.start()
    if (this.prefill) this.monitor.setPrefillInstances(instancesOf(this.prefill.fleet))
  }

  get name(): string {
    return this.spec.name
  }

  /** As many workers as it waits for at start were there. */
  get hasStarted(): boolean {
    return (this.#hasStarted ||= this.fleet.servingCount >= (this.spec.minInitialWorkers ?? 0))
  }

  get isReady(): boolean {
    return this.hasStarted && this.fleet.servingCount > 0 && (this.prefill?.canServe ?? true)
  }

  /** Everybody who may serve is over a threshold. Nobody being there is another matter. */
  get isEveryoneBusy(): boolean {
    if (!this.monitor.isConfigured || !this.isReady) return false
    const { busyWorkers } = this.monitor
    if (busyWorkers.size === 0) return false
    for (const worker of this.fleet.all()) if (worker.mayServe && !busyWorkers.has(worker.id)) return false
    return true
  }

  /** Joins the side that its role names, or says something new of itself. Throws `WR_INVALID_CONFIG`. */
  setWorker(spec: WorkerSpec): void {
    const isPrefill = spec.role === 'prefill'
    requireJoinable(spec)
    if (isPrefill && !this.prefill)
      throw new WarmrouteError('WR_INVALID_CONFIG', { reason: `the model ${this.name} takes no prefill workers` })
    const other = isPrefill ? this.fleet : this.prefill?.fleet
    other?.remove(spec.id)
    if (isPrefill) this.prefill!.setWorker(spec)
    else this.routerMetrics.workerRegistered(spec.id, this.fleet.set(spec).config, 'decode')
    this.meters.know(String(spec.id))
  }

  /** Sessions inside a worker end with its process; the others only lose what was cached for them. */
  restarted(workerId: bigint): void {
    if (this.fleet.get(workerId)) this.agents.removeWorker(workerId)
  }

  /** The side that a worker belongs to. */
  fleetOf(workerId: bigint): Fleet | undefined {
    if (this.fleet.get(workerId)) return this.fleet
    return this.prefill?.fleet.get(workerId) ? this.prefill.fleet : undefined
  }

  /** One of its workers, of either side, is of this kind. */
  hasEngine(kind: EngineKind): boolean {
    return this.fleet.hasEngine(kind) || (this.prefill?.fleet.hasEngine(kind) ?? false)
  }

  *workers(): IterableIterator<Worker> {
    yield* this.fleet.all()
    if (this.prefill) yield* this.prefill.fleet.all()
  }

  /** For a long prompt, before `hashesOf`. */
  hashAhead(
    ahead: NonNullable<PromptTokens['hashAhead']>,
    cacheNamespace: string | undefined,
    loraName: string | undefined,
  ): Promise<void> {
    return ahead(this.#schemeOf(cacheNamespace, loraName), this.#context.hasher)
  }

  /** Block hashes of a prompt whose source can make them cheaper than the router would. */
  hashesOf(
    hash: NonNullable<PromptTokens['hash']>,
    cacheNamespace: string | undefined,
    loraName: string | undefined,
  ): PromptHashes {
    const hashes = hash(this.#schemeOf(cacheNamespace, loraName), this.#context.hasher)
    return { local: hashes.localColumn(), sequence: hashes.sequenceColumn() }
  }

  /** Frees what runs and closes every connection; the router is the caller's. */
  async close(): Promise<void> {
    this.#stopLoads()
    clearInterval(this.#reaper)
    this.affinity?.close()
    this.prefillAffinity?.close()
    await this.agents.close()
    await this.prefill?.close()
    this.fleet.close()
    await this.monitor.close()
  }

  #schemeOf(cacheNamespace: string | undefined, loraName: string | undefined): HashScheme {
    if (!cacheNamespace && !loraName) return this.#plain
    const key = `${cacheNamespace ?? ''}\0${loraName ?? ''}`
    let scheme = this.#schemes.get(key)
    if (!scheme) {
      const { blockSize, isEagle = false } = this.spec
      scheme = createHashScheme({ blockSize, isEagle, cacheNamespace, loraName })
      if (this.#schemes.size >= schemesMax) this.#schemes.delete(this.#schemes.keys().next().value!)
      this.#schemes.set(key, scheme)
    }
    return scheme
  }

  #createAffinity(phase: AffinityPhase, fleet: Fleet): SessionAffinity | undefined {
    const { name, sessionAffinityTtlSecs: ttlSecs } = this.spec
    if (ttlSecs === undefined) return undefined
    const { sessionPeers, now, metrics } = this.#context
    return new SessionAffinity({
      ttlMs: ttlSecs * 1000,
      routerId: sessionPeers?.routerId ?? instanceId,
      now,
      join: sessionPeers && ((onEvent) => sessionPeers.carrier.join({ model: name, phase }, onEvent)),
      isKnownWorker: (workerId) => fleet.get(workerId) !== undefined,
      onNews: (outcome) => metrics.sessionNews.inc({ model: name, worker_type: phase, outcome }),
    })
  }

  #createPrefillSide(fleet: ConstructorParameters<typeof PrefillSide>[0]['fleet']): PrefillSide | undefined {
    const { disagg, name, blockSize } = this.spec
    if (!disagg) return undefined
    const { log, metrics } = this.#context
    const openMetrics = (): RouterMetrics => routerMetricsOf(metrics, name, 'prefill')
    const failures = metrics.prefillActivationFailures.with({ model: name })
    const onActivationFailed = (): void => failures.inc()
    const own = { model: name, blockSize, disagg, decodeFleet: this.fleet, fleet, log }
    return new PrefillSide({ ...own, openMetrics, onActivationFailed })
  }

  /** Nothing of it is shown or remembered, whichever half of requests it did. */
  #gone(worker: Worker): void {
    this.meters.forget(worker.label)
    this.#context.onGone(this, worker)
    for (const router of [this.routerMetrics, this.prefill?.metrics]) router?.workerLeft(worker.id)
    this.agents.removeWorker(worker.id)
    this.affinity?.removeWorker(worker.id)
    this.prefillAffinity?.removeWorker(worker.id)
    const { dataParallelStartRank: start, dataParallelSize: size } = worker.config
    const dpRanks = Array.from({ length: size }, (_, at) => start + at)
    for (const type of ['decode', 'prefill'] as const)
      removeWorkerSeries(this.#context.metrics, worker.id, dpRanks, type)
  }

  #createMonitor(): WorkerMonitor {
    const { log, metrics } = this.#context
    const { thresholds = {}, monitor: version, busyGate } = this.spec
    const instances = instancesOf(this.fleet)
    return new WorkerMonitor(
      {
        openFleet: () => Promise.resolve({ current: () => this.#capacities(), watch: (it) => this.fleet.watch(it) }),
        openLoads: untilAborted,
        instances,
        removeGauges: (workerId, dpRanks, type) => removeWorkerSeries(metrics, workerId, dpRanks, type),
        warn: (fields, sentence) => log.warn({ model: this.name, ...fields }, sentence),
        pause: () => Promise.resolve(),
      },
      { thresholds, isAllOrNothing: busyGate === 'all', ...(version ? { version } : {}) },
    )
  }

  #capacities(): ReadonlyMap<bigint, WorkerCapacity> {
    const capacities = new Map<bigint, WorkerCapacity>()
    for (const worker of this.fleet.all()) {
      const { dataParallelStartRank, dataParallelSize, totalKvBlocks, maxNumBatchedTokens } = worker.config
      capacities.set(worker.id, {
        dataParallelStartRank,
        dataParallelSize,
        ...(totalKvBlocks === undefined ? {} : { totalKvBlocks }),
        ...(maxNumBatchedTokens === undefined ? {} : { maxNumBatchedTokens }),
      })
    }
    return capacities
  }
}

function instancesOf(fleet: Fleet): Watched<ReadonlySet<bigint>> {
  return {
    current: () => new Set([...fleet.all()].map((worker) => worker.id)),
    watch: (onChange) => fleet.watch(onChange),
  }
}

/** Loads are reported directly, by the router and by polls; this stream only keeps the monitor alive. */
function untilAborted(signal: AbortSignal): AsyncIterable<never> {
  const ended = new Promise<IteratorResult<never>>((resolve) => {
    const end = (): void => resolve({ done: true, value: undefined })
    if (signal.aborted) end()
    else signal.addEventListener('abort', end, { once: true })
  })
  return { [Symbol.asyncIterator]: () => ({ next: () => ended }) }
}
