/** What a router does, as metrics by upstream's names. */
import type { Metrics, RouterMetrics, WorkerType } from '../telemetry/index.js'
import type { KvRouter } from './kv-router.js'
import type { RouterObserver } from './router-ports.js'

/** Give it to the router as its `observer`. */
export function newMetricsObserver(metrics: Metrics, router: RouterMetrics, workerType: WorkerType): RouterObserver {
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
  }
}

/** Keeps the gauges of every rank as its load changes. A worker's series end with `RouterMetrics.removeWorker`. */
export function exportLoads(router: Pick<KvRouter<unknown>, 'onLoads' | 'workerType'>, to: RouterMetrics): () => void {
  return router.onLoads((changed) => {
    for (const { workerId, dpRank, activeDecodeBlocks, activePrefillTokens } of changed)
      to.observeLoad(workerId, dpRank, router.workerType, activeDecodeBlocks, activePrefillTokens)
  })
}
