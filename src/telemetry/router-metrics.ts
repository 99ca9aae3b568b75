/**
 * What the router observes, with its labels bound once (follows lib/llm/src/kv_router/metrics.rs at v1.0.2 and v1.2.0).
 * Several routers in one process share the families and differ in their labels.
 */
import type { Histogram } from './families.js'
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

/** Stands for an unknown rank in the `worker_last_*` gauges. */
export const unsetRankLabel = 'none'

export class RouterMetrics {
  readonly #metrics: Metrics
  readonly #generation: '1.0' | '1.2'
  readonly #overhead: Readonly<Record<'hash' | 'find' | 'seq' | 'schedule' | 'total' | 'shared', Histogram>>
  readonly requestLabels: Readonly<Record<string, string>>
  readonly routerLabels: { readonly router_id: string }

  constructor(
    metrics: Metrics,
    identity: { readonly namespace: string; readonly component: string; readonly routerId: bigint },
    generation: '1.0' | '1.2' = '1.2',
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
    this.#registerAtZero()
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

  /** Ends every series of a worker that left, those of an unknown rank included. */
  removeWorker(workerId: bigint, dpRanks: readonly number[], type: WorkerType): void {
    const { workerActiveDecodeBlocks, workerActivePrefillTokens } = this.#metrics
    const { workerLastInputSequenceTokens, workerLastInterTokenLatency, workerLastTimeToFirstToken } = this.#metrics
    const last = [workerLastInputSequenceTokens, workerLastInterTokenLatency, workerLastTimeToFirstToken]
    for (const dpRank of dpRanks) {
      const labels = workerLabels(workerId, String(dpRank), type)
      for (const family of [workerActiveDecodeBlocks, workerActivePrefillTokens, ...last]) family.remove(labels)
    }
    for (const family of last) family.remove(workerLabels(workerId, unsetRankLabel, type))
  }

  #registerAtZero(): void {
    const metrics = this.#metrics
    metrics.sharedCacheErrors.with(this.routerLabels)
    metrics.routerRequests.with(this.requestLabels)
    metrics.routerRequestsStarted.with(this.requestLabels)
    for (const family of [
      metrics.routerTimeToFirstToken,
      metrics.routerInterTokenLatency,
      metrics.routerInputTokens,
      metrics.routerOutputTokens,
      metrics.routerKvHitRate,
      metrics.routerKvTransferLatency,
      metrics.routerSharedCacheHitRate,
      metrics.routerSharedCacheBeyond,
    ]) {
      family.with(this.requestLabels)
    }
  }
}

export function workerLabels(workerId: bigint, dpRank: string, type: WorkerType): Readonly<Record<string, string>> {
  return { worker_id: String(workerId), dp_rank: dpRank, worker_type: type }
}

/** Durations taken out of order never go negative. */
function atLeastZero(value: number): number {
  return value > 0 ? value : 0
}
