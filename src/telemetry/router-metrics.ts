/**
 * What the router observes, with its labels bound once (follows lib/llm/src/kv_router/metrics.rs at v1.0.2 and v1.2.0).
 * Several routers in one process share the families and differ in their labels.
 */
import type { Counter, Histogram } from './families.js'
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
  const component = type === 'prefill' ? `${model}/prefill` : model
  return new RouterMetrics(metrics, { namespace: 'warmroute', component, routerId: instanceId })
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
}

export class RouterMetrics {
  readonly #metrics: Metrics
  readonly #requests: RequestSeries
  readonly #generation: '1.0' | '1.2'
  readonly #overhead: Readonly<Record<'hash' | 'find' | 'seq' | 'schedule' | 'total' | 'shared', Histogram>>
  readonly requestLabels: Readonly<Record<string, string>>
  readonly routerLabels: { readonly router_id: string }

  constructor(
    metrics: Metrics,
    identity: { readonly namespace: string; readonly component: string; readonly routerId: bigint },
    generation: '1.0' | '1.2' = metrics.generation,
  ) {
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
    this.#requests = {
      started: metrics.routerRequestsStarted.with(this.requestLabels),
      total: metrics.routerRequests.with(this.requestLabels),
      firstToken: metrics.routerTimeToFirstToken.with(this.requestLabels),
      tokenGap: metrics.routerInterTokenLatency.with(this.requestLabels),
      inputTokens: metrics.routerInputTokens.with(this.requestLabels),
      outputTokens: metrics.routerOutputTokens.with(this.requestLabels),
      hitRate: metrics.routerKvHitRate.with(this.requestLabels),
      transfer: metrics.routerKvTransferLatency.with(this.requestLabels),
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
