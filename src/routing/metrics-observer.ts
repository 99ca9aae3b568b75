/** What a router does, as metrics by upstream's names. */
import type { EventCounts, EventKind } from '../core/index/index.js'
import type { LimitKind } from '../core/queue/index.js'
import type { LesserOverlap } from '../core/selection/index.js'
import type { Metrics, RouterMetrics, WorkerType } from '../telemetry/index.js'
import type { KvRouter } from './kv-router.js'
import type { RouterObserver } from './router-ports.js'

/** Upstream's words for the limits of a queue; the last one is ours. */
const backpressureReasons: Readonly<Record<LimitKind, string>> = {
  requests: 'request_limit',
  raw_isl_tokens: 'raw_isl_token_limit',
  cached_tokens: 'cached_token_limit',
  parked_requests: 'parked_request_limit',
}

/** Give it to the router as its `observer`. */
export function newMetricsObserver(
  metrics: Metrics,
  router: RouterMetrics,
  workerType: WorkerType,
  model = '',
): RouterObserver {
  const queueLabels = { worker_type: workerType }
  const pendingRequests = metrics.queuePendingRequests.with(queueLabels)
  const pendingIslTokens = metrics.queuePendingIslTokens.with(queueLabels)
  const hitRates = metrics.routerSharedCacheHitRate.with(router.requestLabels)
  const beyondBlocks = metrics.routerSharedCacheBeyond.with(router.requestLabels)
  const sharedErrors = metrics.sharedCacheErrors.with(router.routerLabels)
  return {
    routed: (times) => router.observeRouting(times),
    sharedCacheFailed: () => sharedErrors.inc(),
    sharedCacheHit(hitRate, beyond) {
      if (hitRate !== undefined) hitRates.observe(hitRate)
      beyondBlocks.observe(beyond)
    },
    queued(pendingCount, islTokens) {
      pendingRequests.set(pendingCount)
      pendingIslTokens.set(islTokens)
    },
    // For prefill workers alone, as upstream: comparing everybody costs where everybody is asked.
    ...(workerType === 'prefill' && {
      lesserOverlap: (_: string, { highestOverlapBlocks, selectedOverlapBlocks }: LesserOverlap) =>
        router.requestGaveUp(highestOverlapBlocks - selectedOverlapBlocks),
    }),
    queueRejected({ policyClass, limitKind }) {
      const reason = backpressureReasons[limitKind]
      metrics.queueBackpressure.inc({ ...queueLabels, model, policy_class: policyClass, reason })
    },
  }
}

/** Keeps the gauges of every rank as its load changes. A worker's series end with `removeWorkerSeries`. */
export function exportLoads(router: Pick<KvRouter<unknown>, 'onLoads' | 'workerType'>, to: RouterMetrics): () => void {
  return router.onLoads((changed) => {
    for (const { workerId, dpRank, activeDecodeBlocks, activePrefillTokens } of changed)
      to.observeLoad(workerId, dpRank, router.workerType, activeDecodeBlocks, activePrefillTokens)
  })
}

const eventKinds: readonly EventKind[] = ['stored', 'removed', 'cleared']
const eventEnds = [
  'ok',
  'parent_block_not_found',
  'block_not_found',
  'invalid_block',
  'capacity_exhausted',
  'unsupported_residency_domain',
  'unknown_worker', // ours: its worker has left, or too many are unknown
] as const

/** How far learning prefill times has come. */
export interface PrefillLearning {
  /** Prefills that were learned from. */
  readonly observations: number
  /** Usual relative error of an estimate. */
  readonly errorRatio: number
}

/** Read before each scrape; the series end when it stops. */
export function exportPrefillLearning(
  learning: PrefillLearning,
  metrics: Metrics,
  labels: { readonly model: string; readonly worker_type: WorkerType },
): () => void {
  const { prefillEstimateError, prefillsLearned } = metrics
  const stop = metrics.registry.onCollect(() => {
    if (learning.observations > 0) prefillEstimateError.set(labels, learning.errorRatio)
    const counter = prefillsLearned.with(labels)
    counter.inc(learning.observations - counter.value)
  })
  return () => {
    stop()
    prefillEstimateError.remove(labels)
    prefillsLearned.remove(labels)
  }
}

/** What became of KV events, read from the index before each scrape; at zero from the start. Returns the way to stop. */
export function exportEventCounts(counts: EventCounts, metrics: Metrics, to: RouterMetrics): () => void {
  const { router_id: _, ...component } = to.requestLabels
  const warnings = metrics.kvCacheEventWarnings.with({ ...component, warning_kind: 'duplicate_store' })
  const series = eventKinds.flatMap((kind) =>
    eventEnds.map((status) => ({
      counter: metrics.kvCacheEventsApplied.with({ ...component, event_type: kind, status }),
      read: () => counts.applied(kind, status),
    })),
  )
  return metrics.registry.onCollect(() => {
    for (const { counter, read } of series) counter.inc(read() - counter.value)
    warnings.inc(counts.duplicateStores - warnings.value)
  })
}
