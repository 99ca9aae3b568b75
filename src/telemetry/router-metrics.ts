/**
 * What the router observes, with its labels bound once (follows lib/llm/src/kv_router/metrics.rs at v1.0.2 and v1.2.0).
 * Several routers in one process share the families and differ in their labels.
 */
import type { Counter, Histogram, Labels } from './families.js'
import type { Metrics } from './metrics.js'

/** Cumulative instants of one routing, in milliseconds since it began. */
export interface RoutingTimes {
  readonly hashMs: number
  readonly seqHashMs: number
  /** 1.0: when the lookup ended. From 1.1 on: how long the lookup itself took. */
  readonly findMatchesMs: number
  /** From 1.1 on: when the lookups ended, shared cache included. Scheduling is what comes after. */
  readonly foundMs?: number
  readonly totalMs: number
  readonly sharedCacheMs?: number | undefined
}

export type WorkerType = 'prefill' | 'decode'

/** The one router that a process is, where upstream has a random id from discovery. */
export const instanceId = 1n

/** What the router of one model observes; models, and the two halves of one, are told apart by their component. */
export function routerMetricsOf(metrics: Metrics, model: string, type: WorkerType = 'decode'): RouterMetrics {
  const [component, phase] = type === 'prefill' ? [`${model}/prefill`, 'prefill'] : [model, 'aggregated']
  return new RouterMetrics(metrics, { namespace: 'warmroute', component, routerId: instanceId, model, phase })
}

/** Stands for an unknown rank in the `worker_last_*` gauges. */
export const unsetRankLabel = 'none'

/** What a router observes of each request, by upstream's names without their prefix. */
interface RequestSeries {
  readonly started: Counter
  readonly total: Counter
  readonly firstToken: Histogram
  readonly tokenGap: Histogram
  readonly inputTokens: Histogram
  readonly outputTokens: Histogram
  readonly hitRate: Histogram
  readonly transfer: Histogram
  readonly gaveUp: Counter
  readonly blocksLost: Histogram
  readonly selectedCached: Counter
  readonly workerReused: Counter
}

interface RouterIdentity {
  readonly namespace: string
  readonly component: string
  readonly routerId: bigint
  /** The component, unless told. */
  readonly model?: string
  /** What its workers do with a prompt: `aggregated`, unless told. */
  readonly phase?: string
}

/** As a worker says it of itself. */
interface RanksOf {
  readonly dataParallelStartRank: number
  readonly dataParallelSize: number
}

export class RouterMetrics {
  readonly #metrics: Metrics
  readonly #registered = new Map<bigint, readonly Labels[]>()
  readonly #requests: RequestSeries
  readonly #generation: '1.0' | '1.2'
  readonly #overhead: Readonly<Record<'hash' | 'find' | 'seq' | 'schedule' | 'total' | 'shared', Histogram>>
  readonly requestLabels: Readonly<Record<string, string>>
  readonly routerLabels: { readonly router_id: string }

  constructor(metrics: Metrics, identity: RouterIdentity, generation: '1.0' | '1.2' = metrics.generation) {
    this.#metrics = metrics
    this.#generation = generation
    this.routerLabels = { router_id: String(identity.routerId) }
    this.requestLabels = {
      dynamo_namespace: identity.namespace,
      dynamo_component: identity.component,
      worker_id: identity.routerId.toString(16),
      ...this.routerLabels,
    }
    this.#overhead = {
      hash: metrics.overheadBlockHashing.with(this.routerLabels),
      find: metrics.overheadFindMatches.with(this.routerLabels),
      seq: metrics.overheadSeqHashing.with(this.routerLabels),
      schedule: metrics.overheadScheduling.with(this.routerLabels),
      total: metrics.overheadTotal.with(this.routerLabels),
      shared: metrics.overheadSharedCache.with(this.routerLabels),
    }
    const cached = {
      ...this.requestLabels,
      model: identity.model ?? identity.component,
      phase: identity.phase ?? 'aggregated',
    }
    this.#requests = {
      started: metrics.routerRequestsStarted.with(this.requestLabels),
      total: metrics.routerRequests.with(this.requestLabels),
      firstToken: metrics.routerTimeToFirstToken.with(this.requestLabels),
      tokenGap: metrics.routerInterTokenLatency.with(this.requestLabels),
      inputTokens: metrics.routerInputTokens.with(this.requestLabels),
      outputTokens: metrics.routerOutputTokens.with(this.requestLabels),
      hitRate: metrics.routerKvHitRate.with(this.requestLabels),
      transfer: metrics.routerKvTransferLatency.with(this.requestLabels),
      gaveUp: metrics.routerNonMaxOverlap.with({ ...this.requestLabels, worker_type: 'prefill' }),
      blocksLost: metrics.routerOverlapLost.with({ ...this.requestLabels, worker_type: 'prefill' }),
      selectedCached: metrics.routerKvSelectedCached.with(cached),
      workerReused: metrics.routerKvWorkerReused.with(cached),
    }
    this.#registerAtZero()
  }

  /** A worker was chosen. Without a block there is no rate; the length is observed always. */
  requestRouted(promptTokens: number, overlapBlocks: number, promptBlocks: number): void {
    const { started, inputTokens, hitRate } = this.#requests
    started.inc()
    if (promptBlocks > 0) hitRate.observe(overlapBlocks / promptBlocks)
    inputTokens.observe(promptTokens)
  }

  /** The prompt goes to the worker that was chosen, which holds so much of it. */
  requestSent(cachedTokens: number): void {
    this.#requests.selectedCached.inc(cachedTokens)
  }

  /** What the worker says that it found of it. */
  requestReused(cachedTokens: number): void {
    this.#requests.workerReused.inc(cachedTokens)
  }

  /** Another prefill worker held more of the prompt, by so many blocks, than the one that was chosen. */
  requestGaveUp(blocks: number): void {
    this.#requests.gaveUp.inc()
    this.#requests.blocksLost.observe(blocks)
  }

  requestFirstToken(sinceStartMs: number): void {
    this.#requests.firstToken.observe(sinceStartMs / 1000)
  }

  /** Once per block of output, so it stays empty unless those are tracked. */
  requestOutputBlock(meanGapMs: number): void {
    this.#requests.tokenGap.observe(meanGapMs / 1000)
  }

  /** At most: from the answer of the prefill worker to the first token of the decode worker. */
  requestKvTransfer(ms: number): void {
    this.#requests.transfer.observe(Math.max(0, ms) / 1000)
  }

  /** Only for a request that a worker took. */
  requestFinished(outputTokens: number): void {
    const { total, outputTokens: lengths } = this.#requests
    if (outputTokens > 0) lengths.observe(outputTokens)
    total.inc()
  }

  observeRouting(times: RoutingTimes): void {
    const { hash, find, seq, schedule, total, shared } = this.#overhead
    const { hashMs, seqHashMs, findMatchesMs, totalMs } = times
    hash.observe(hashMs)
    total.observe(totalMs)
    if (this.#generation === '1.0') {
      find.observe(atLeastZero(findMatchesMs - hashMs))
      seq.observe(atLeastZero(seqHashMs - findMatchesMs))
      schedule.observe(atLeastZero(totalMs - seqHashMs))
      return
    }
    find.observe(findMatchesMs)
    seq.observe(atLeastZero(seqHashMs - hashMs))
    schedule.observe(atLeastZero(totalMs - (times.foundMs ?? findMatchesMs)))
    if (times.sharedCacheMs !== undefined) shared.observe(times.sharedCacheMs)
  }

  /** Load of one rank, as the tracker publishes it. */
  observeLoad(workerId: bigint, dpRank: number, type: WorkerType, decodeBlocks: number, prefillTokens: number): void {
    const labels = workerLabels(workerId, String(dpRank), type)
    this.#metrics.workerActiveDecodeBlocks.set(labels, decodeBlocks)
    this.#metrics.workerActivePrefillTokens.set(labels, prefillTokens)
  }

  /** The router knows a worker now, or knows it with other ranks. */
  workerRegistered(workerId: bigint, ranks: RanksOf, type: WorkerType): void {
    this.workerLeft(workerId)
    const { router_id: _, ...component } = this.requestLabels
    const series = Array.from({ length: ranks.dataParallelSize }, (_, at) => {
      const dpRank = ranks.dataParallelStartRank + at
      return { ...component, router_worker_id: String(workerId), dp_rank: String(dpRank), worker_type: type }
    })
    for (const labels of series) this.#metrics.routerWorkerRegistered.set(labels, 1)
    this.#registered.set(workerId, series)
  }

  workerLeft(workerId: bigint): void {
    for (const labels of this.#registered.get(workerId) ?? []) this.#metrics.routerWorkerRegistered.remove(labels)
    this.#registered.delete(workerId)
  }

  /** Families that nobody may ever observe still scrape as zero. */
  #registerAtZero(): void {
    const { sharedCacheErrors, routerSharedCacheHitRate, routerSharedCacheBeyond } = this.#metrics
    sharedCacheErrors.with(this.routerLabels)
    for (const family of [routerSharedCacheHitRate, routerSharedCacheBeyond]) family.with(this.requestLabels)
  }
}

/** Ends every series of a worker that left one of its roles, those of an unknown rank included. */
export function removeWorkerSeries(
  metrics: Metrics,
  workerId: bigint,
  dpRanks: readonly number[],
  type: WorkerType,
): void {
  const { workerActiveDecodeBlocks, workerActivePrefillTokens } = metrics
  const { workerLastInputSequenceTokens, workerLastInterTokenLatency, workerLastTimeToFirstToken } = metrics
  const last = [workerLastInputSequenceTokens, workerLastInterTokenLatency, workerLastTimeToFirstToken]
  for (const dpRank of dpRanks) {
    const labels = workerLabels(workerId, String(dpRank), type)
    for (const family of [workerActiveDecodeBlocks, workerActivePrefillTokens, ...last]) family.remove(labels)
  }
  for (const family of last) family.remove(workerLabels(workerId, unsetRankLabel, type))
}

export function workerLabels(workerId: bigint, dpRank: string, type: WorkerType): Readonly<Record<string, string>> {
  return { worker_id: String(workerId), dp_rank: dpRank, worker_type: type }
}

/** Durations taken out of order never go negative. */
function atLeastZero(value: number): number {
  return value > 0 ? value : 0
}
