import { expect, it } from 'vitest'
import { createMetrics, RouterMetrics } from '../telemetry/index.js'
import { SharedCacheHits } from '../core/selection/index.js'
import { exportLoads, newMetricsObserver } from './metrics-observer.js'
import { openScene, tokensFrom } from './router.case.js'

it('a routed request shows in the metrics by the names of upstream', async () => {
  const metrics = createMetrics()
  const identity = new RouterMetrics(metrics, { namespace: 'n', component: 'c', routerId: 7n })
  let isDown = false
  const checkBlocks = () =>
    isDown ? Promise.reject(new Error('down')) : Promise.resolve(new SharedCacheHits([[0, 2]]))
  const { router } = await openScene(
    { routerQueueThreshold: 0 },
    {
      workerIds: [0n],
      observer: newMetricsObserver(metrics, identity, 'decode'),
      sharedCache: { checkBlocks },
    },
  )
  const stop = exportLoads(router, identity)
  await router.findBestMatch({ contextId: 'a', tokens: tokensFrom(0, 16), updateStates: true })
  isDown = true
  const waiting = router.findBestMatch({ contextId: 'b', tokens: tokensFrom(0, 20), updateStates: true })
  for (let turn = 0; turn < 20; turn++) await Promise.resolve()
  const text = metrics.registry.text()
  for (const line of [
    'dynamo_frontend_router_queue_pending_requests{worker_type="decode"} 1',
    'dynamo_frontend_router_queue_pending_isl_tokens{worker_type="decode"} 20',
    'dynamo_router_overhead_total_ms_count{router_id="7"} 1',
    'dynamo_router_overhead_shared_cache_query_ms_count{router_id="7"} 1',
    'dynamo_router_shared_cache_errors_total{router_id="7"} 1',
    'dynamo_frontend_worker_active_prefill_tokens{dp_rank="0",worker_id="0",worker_type="decode"} 16',
  ])
    expect(text).toContain(line)
  expect(metrics.routerSharedCacheHitRate.with(identity.requestLabels).sum).toBe(0.5)
  router.free('a')
  await waiting
  stop()
  await router.close()
})
