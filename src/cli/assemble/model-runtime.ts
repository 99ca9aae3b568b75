/**
 * One model alive: its router, the event streams of its workers, and the port that the gateway sees. The port is the
 * router's own but for one thing: a worker's streams end before the router forgets its ranks, whoever removes it, since
 * a rank's number is given away again.
 */
import { createBlockHasher } from '../../core/hashing/index.js'
import type { KvIndex } from '../../core/index/index.js'
import type { PrefillCoefficients } from '../../core/load/index.js'
import type { Rank, RouterConfig, WorkerRank } from '../../core/protocol/index.js'
import type { PolicyConfig } from '../../core/queue/index.js'
import type { PrefillEstimator } from '../../core/router/index.js'
import type { EngineFacts, EventSourceFact } from '../../engines/index.js'
import { KvEventDecoder } from '../../engines/index.js'
import type {
  Feed,
  FeedStatus,
  ImageReading,
  PurgeReason,
  RankIdentity,
  RankImage,
  SnapshotContext,
} from '../../events/index.js'
import { Intake, restoreFeed, takeSnapshot, ZmqSource } from '../../events/index.js'
import type { EventIntake, RouterPort } from '../../routing/index.js'
import {
  exportEventCounts,
  exportLoads,
  exportPrefillLearning,
  InProcessRouter,
  newMetricsObserver,
} from '../../routing/index.js'
import type { IndexFigures, Log, PolicyName } from '../../server/index.js'
import { createPolicyRouter } from '../../server/index.js'
import type { Metrics, RouterMetrics } from '../../telemetry/index.js'
import { routerMetricsOf } from '../../telemetry/index.js'
import type { CacheMemory } from './cache-memory.js'
import type { PolledOptions } from './polled-feeds.js'
import { PolledFeeds } from './polled-feeds.js'
import type { FeedView } from './worker-mode.js'

export interface ModelRuntimeOptions {
  readonly name: string
  readonly blockSize: number
  /** Blocks are named by pairs of tokens. */
  readonly isEagle: boolean
  readonly policy: 'kv' | PolicyName
  readonly config: RouterConfig
  readonly policies?: PolicyConfig | undefined
  readonly prefillLoadEstimator?: PrefillEstimator | 'online' | undefined
  /** Where policy warm starts to learn from. */
  readonly prefillProfile?: PrefillCoefficients | undefined
  /** Whose choice it makes. */
  readonly workerType?: 'decode' | 'prefill'
  readonly metrics: Metrics
  readonly log: Log
  /** A worker was taken from the router, by whomever. */
  readonly onRemoved: (workerId: bigint) => void
  readonly now: () => number
  /** What was known before our own restart. */
  readonly memory?: CacheMemory | undefined
}

/** After these no replay can continue what was saved: the engine is another, or its ring has left us behind. */
const endsHistory: ReadonlySet<PurgeReason> = new Set<PurgeReason>(['restart', 'history_gone', 'replay_hole'])

export class ModelRuntime {
  readonly name: string
  readonly blockSize: number
  /** Blocks are named by pairs of tokens. */
  readonly isEagle: boolean
  readonly looksAtCaches: boolean
  readonly port: RouterPort
  /** Of a router that looks at caches; the others have nothing to observe. */
  metrics: RouterMetrics | undefined
  readonly #feeds = new Map<bigint, Feed[]>()
  readonly #identities = new Map<Rank, RankIdentity>()
  readonly #memory: CacheMemory | undefined
  readonly #now: () => number
  readonly #exactWorkers: Set<bigint>
  readonly #closers: (() => Promise<void>)[] = []
  #source: ZmqSource | undefined
  #polled: PolledFeeds | undefined
  #intake: EventIntake | undefined
  #index: KvIndex | undefined

  static async create(options: ModelRuntimeOptions): Promise<ModelRuntime> {
    if (options.policy !== 'kv')
      return new ModelRuntime(options, createPolicyRouter({ policy: options.policy }), new Set())
    const { metrics, log, workerType = 'decode' } = options
    // Workers join after the router stands; until enough are there the model is simply not ready.
    const config = { ...options.config, routerMinInitialWorkers: 0 }
    const routerMetrics = routerMetricsOf(metrics, options.name, workerType)
    const exactWorkers = new Set<bigint>()
    let made: { readonly source: ZmqSource; readonly intake: EventIntake } | undefined
    const router = await InProcessRouter.create({
      blockSize: options.blockSize,
      isEagle: options.isEagle,
      modelName: options.name,
      workerType,
      policies: options.policies,
      prefillLoadEstimator: options.prefillLoadEstimator,
      prefillProfile: options.prefillProfile,
      // Workers without events live by predictions beside the exact index; those with events are kept out of it.
      config: config.useKvEvents
        ? { ...config, routerPredictedTtlSecs: config.routerPredictedTtlSecs ?? config.routerTtlSecs }
        : config,
      ...(config.useKvEvents && config.routerPredictedTtlSecs === undefined
        ? { recordsDecisions: ({ workerId }: WorkerRank) => !exactWorkers.has(workerId) }
        : {}),
      log: { isDebug: false, debug() {}, info: log.debug.bind(log), warn: log.warn.bind(log) },
      observer: newMetricsObserver(metrics, routerMetrics, workerType, options.name),
      subscribe(intake) {
        made = { source: newSource(intake, options.blockSize), intake }
        return Promise.resolve(made.source)
      },
    })
    const runtime = new ModelRuntime(options, router, exactWorkers)
    runtime.#source = made?.source
    runtime.#polled = made && new PolledFeeds(made.source.intake)
    runtime.#intake = made?.intake
    runtime.#index = router.router.indexer
    runtime.metrics = routerMetrics
    const stops = [exportLoads(router.router, routerMetrics)]
    if (runtime.#index) stops.push(exportEventCounts(runtime.#index.counts, metrics, routerMetrics))
    const learning = router.router.prefillLearning
    if (learning) stops.push(exportPrefillLearning(learning, metrics, { model: options.name, worker_type: workerType }))
    runtime.#closers.push(() => {
      for (const stop of stops) stop()
      return Promise.resolve()
    })
    return runtime
  }

  private constructor(options: ModelRuntimeOptions, router: RouterPort, exactWorkers: Set<bigint>) {
    this.#exactWorkers = exactWorkers
    this.name = options.name
    this.blockSize = options.blockSize
    this.isEagle = options.isEagle
    this.looksAtCaches = options.policy === 'kv' && options.config.overlapScoreCredit > 0
    this.#now = options.now
    this.#memory = options.memory
    this.#closers.push(() => router.close())
    this.port = router
    beforeRemoval(router, (workerId) => {
      exactWorkers.delete(workerId)
      void this.unfollow(workerId)
      options.onRemoved(workerId)
    })
  }

  /** Follows a worker's streams instead of those before. The router must know the worker. */
  follow(workerId: bigint, sources: readonly EventSourceFact[], facts: EngineFacts): void {
    void this.unfollow(workerId)
    if (!this.#source || !this.#intake) return
    const feeds: Feed[] = []
    for (const { dpRank, endpoint, replayEndpoint, topic } of sources) {
      const rank = this.#intake.ranks.find(workerId, dpRank)
      if (rank === undefined) continue // a rank that the engine does not count among its own
      const source = `${this.name} ${dpRank} ${endpoint}`
      this.#identities.set(rank, { workerId, dpRank, source, incarnation: facts.incarnation?.value })
      const image = this.#memory?.claim(source)
      const usableBlocks = facts.usableBlocks?.value
      const onRestored = image && ((isProved: boolean) => this.#memory?.settled(image, isProved))
      const onPurged = (reason: PurgeReason): void => {
        if (endsHistory.has(reason)) this.#memory?.drop(source)
      }
      const prepare = image && ((feed: Feed) => this.#restoring(feed, image))
      const hooks = { onRestored, onPurged, prepare }
      feeds.push(this.#source.follow({ rank, dpRank, endpoint, replayEndpoint, topic, usableBlocks, ...hooks }))
    }
    this.#feeds.set(workerId, feeds)
  }

  /** Asks a worker for its events, instead of following its streams. The router must know the worker. */
  poll(workerId: bigint, address: Pick<PolledOptions, 'url' | 'apiKey' | 'intervalMs'>, facts: EngineFacts): void {
    void this.unfollow(workerId)
    const rank = this.#intake?.ranks.find(workerId, 0)
    if (!this.#polled || rank === undefined) return
    const usableBlocks = facts.usableBlocks?.value
    const feed = this.#polled.start({ ...address, rank, blockSize: this.blockSize, usableBlocks })
    this.#feeds.set(workerId, [feed])
  }

  async unfollow(workerId: bigint): Promise<void> {
    const feeds = this.#feeds.get(workerId) ?? []
    this.#feeds.delete(workerId)
    for (const { rank } of feeds) this.#identities.delete(rank)
    await Promise.all(feeds.flatMap((feed) => [this.#source!.unfollow(feed), this.#polled!.stop(feed)]))
  }

  /** The engine's process is another one: what its streams told before is void. */
  incarnationChanged(workerId: bigint, incarnation: string): void {
    for (const feed of this.#feeds.get(workerId) ?? []) {
      this.#identities.set(feed.rank, { ...this.#identities.get(feed.rank)!, incarnation })
      feed.machine.incarnationChanged(this.#now())
    }
  }

  /** It was restarted with more or less memory. */
  setUsableBlocks(workerId: bigint, blocks: number | undefined): void {
    for (const feed of this.#feeds.get(workerId) ?? []) feed.usableBlocks = blocks
  }

  /** What is known of each rank, read as it is asked for. */
  images(): Iterable<ImageReading> {
    const context = this.#snapshotContext()
    return context ? takeSnapshot(context) : []
  }

  /** Of an exact worker nothing is predicted: its events say what it holds. */
  setExact(workerId: bigint, isExact: boolean): void {
    if (isExact) this.#exactWorkers.add(workerId)
    else this.#exactWorkers.delete(workerId)
  }

  feedsOf(workerId: bigint): FeedView[] {
    return (this.#feeds.get(workerId) ?? []).map(({ machine }) => ({
      isLive: isLive(machine),
      hasStarted: hasStarted(machine),
    }))
  }

  /** Whether `feedsOf` would say the same: asked of every worker many times a second, so nothing is built for it. */
  hasFeeds(workerId: bigint, views: readonly FeedView[]): boolean {
    const feeds = this.#feeds.get(workerId) ?? noFeeds
    if (feeds.length !== views.length) return false
    for (const [at, { machine }] of feeds.entries())
      if (isLive(machine) !== views[at]!.isLive || hasStarted(machine) !== views[at]!.hasStarted) return false
    return true
  }

  statusOf(workerId: bigint): FeedStatus[] {
    const nowSeconds = Date.now() / 1000
    return (this.#feeds.get(workerId) ?? []).map((feed) => feed.status(nowSeconds))
  }

  /** A rank whose stream is not live gets no credit for what its events told before. */
  withholdDoubtful(workerId: bigint): void {
    for (const { rank, machine } of this.#feeds.get(workerId) ?? [])
      this.#intake?.setWithheld(rank, machine.state !== 'live')
  }

  /** Batches applied so far: when it grows, the worker lives. */
  batchesOf(workerId: bigint): number {
    return (this.#feeds.get(workerId) ?? []).reduce((sum, feed) => sum + feed.machine.counters.applied, 0)
  }

  /** Undefined where there is no index. */
  get indexFigures(): IndexFigures | undefined {
    if (!this.#index) return undefined
    const { device, tiers, bytesUsed } = this.#index.stats()
    const below = Object.values(tiers).reduce((sum, tier) => sum + tier.evictedBlocks, 0)
    return { blocks: device.heldBlocks, bytes: bytesUsed, evictedBlocks: device.evictedBlocks + below }
  }

  /** Nothing of it counts until the engine has proved it. */
  *#restoring(feed: Feed, image: RankImage): Generator<undefined, void, void> {
    this.#intake?.setWithheld(feed.rank, true)
    const refusal = yield* restoreFeed(this.#snapshotContext()!, feed, image)
    if (refusal) this.#memory?.refused(image, refusal)
  }

  #snapshotContext(): SnapshotContext | undefined {
    const [source, index] = [this.#source, this.#index]
    if (!source || !index) return undefined
    return {
      intake: source.intake,
      blocks: index,
      blockSize: this.blockSize,
      identityOf: (rank) => this.#identities.get(rank),
    }
  }

  async close(): Promise<void> {
    this.#feeds.clear()
    await this.#polled?.close()
    for (const close of this.#closers.reverse()) await close()
  }
}

const noFeeds: readonly Feed[] = []

function isLive({ state }: Feed['machine']): boolean {
  return state === 'live'
}

function hasStarted({ isComplete, lastSequence }: Feed['machine']): boolean {
  return isComplete || lastSequence >= 0
}

function newSource(intake: EventIntake, blockSize: number): ZmqSource {
  const seed = crypto.getRandomValues(new Uint32Array(1))[0]!
  const options = {
    decoder: new KvEventDecoder(),
    hasher: createBlockHasher(),
    sink: { apply: intake.applyBatch.bind(intake) },
    wallSeconds: () => Date.now() / 1000,
  }
  return new ZmqSource((wiring) => new Intake({ ...options, ...wiring, blockSize, seed }))
}

/** `before` runs ahead of every removal; everything else stays the router's own. */
function beforeRemoval(router: RouterPort, before: (workerId: bigint) => void): void {
  const remove = router.removeWorker.bind(router)
  router.removeWorker = (workerId) => {
    before(workerId)
    remove(workerId)
  }
}
