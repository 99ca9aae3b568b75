import { expect, it } from 'vitest'
import { createMetrics, RouterMetrics } from '../telemetry/index.js'
import type { PolicyConfig } from '../core/queue/index.js'
import { EventCounts } from '../core/index/index.js'
import { SharedCacheHits } from '../core/selection/index.js'
import { exportEventCounts, exportLoads, newMetricsObserver } from './metrics-observer.js'
import { openScene, storedEvent, tokensFrom } from './router.case.js'

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

/** One class, busy as soon as anything runs, in which one request may wait per worker. */
const onlyOneMayWait: PolicyConfig = {
  models: new Map(),
  root: {
    classes: [
      {
        name: 'default',
        policyFamily: 'default',
        cacheBucket: 'any',
        queuePolicy: 'fcfs',
        quantum: 1,
        prefillBusyThresholdFrac: 0,
        requestQueueLimitPerWorker: 1,
      },
    ],
    defaultFamily: 'default',
    buckets: [{ minTokens: 0, bucket: 'any' }],
  },
}

it('counts who a limit of the queue turned away, by model, class and limit', async () => {
  const metrics = createMetrics()
  const identity = new RouterMetrics(metrics, { namespace: 'n', component: 'c', routerId: 7n })
  const observer = newMetricsObserver(metrics, identity, 'decode', 'm')
  const { router } = await openScene(
    { routerQueueThreshold: 0 },
    { workerIds: [0n], observer, policies: onlyOneMayWait },
  )
  await router.findBestMatch({ contextId: 'a', tokens: tokensFrom(0, 16), updateStates: true })
  const waiting = router.findBestMatch({ contextId: 'b', tokens: tokensFrom(0, 16), updateStates: true })
  await expect(
    router.findBestMatch({ contextId: 'c', tokens: tokensFrom(0, 16), updateStates: true }),
  ).rejects.toMatchObject({ code: 'WR_QUEUE_REJECTED' })
  const labels = { model: 'm', policy_class: 'default', reason: 'request_limit', worker_type: 'decode' }
  expect(metrics.queueBackpressure.with(labels).value).toBe(1)
  router.free('a')
  await waiting
  await router.close()
})

it('shows what became of events, at zero from the start and counted once however often it is scraped', () => {
  const metrics = createMetrics()
  const identity = new RouterMetrics(metrics, { namespace: 'n', component: 'c', routerId: 7n })
  const counts = new EventCounts()
  const stop = exportEventCounts(counts, metrics, identity)
  const applied = (kind: string, status: string): string =>
    `dynamo_component_kv_cache_events_applied{dynamo_component="c",dynamo_namespace="n",event_type="${kind}",status="${status}",worker_id="7"}`
  expect(metrics.registry.text()).toContain(`${applied('cleared', 'invalid_block')} 0\n`)
  counts.add('stored', 'ok')
  counts.add('stored', 'duplicate_store')
  counts.add('removed', 'block_not_found')
  for (let scrape = 0; scrape < 2; scrape++) {
    const text = metrics.registry.text()
    expect(text).toContain(`${applied('stored', 'ok')} 2\n`)
    expect(text).toContain(`${applied('removed', 'block_not_found')} 1\n`)
    expect(text).toMatch(/dynamo_component_kv_cache_event_warnings\{.*warning_kind="duplicate_store".*\} 1\n/)
  }
  stop()
})

it.each([
  ['prefill', 1, 3],
  ['decode', 0, 0], // as upstream: nobody compares there
] as const)('counts %s workers that were chosen though another held more of the prompt', async (type, times, lost) => {
  const metrics = createMetrics()
  const identity = new RouterMetrics(metrics, { namespace: 'n', component: 'c', routerId: 7n })
  const worker = { workerId: 0n, dpRank: 0 }
  const selector = {
    selectWorker: () => ({ worker, requiredBlocks: 4, effectiveOverlapBlocks: 0, cachedTokens: 0 }),
  }
  const { router } = await openScene({}, { selector, observer: newMetricsObserver(metrics, identity, type) })
  const tokens = tokensFrom(0, 16)
  router.applyEvents([storedEvent(1n, tokens, 3)])
  await router.findBestMatch({ contextId: 'a', tokens, updateStates: true })
  await Promise.resolve() // told after the answer
  const labels = { ...identity.requestLabels, worker_type: 'prefill' }
  const { routerNonMaxOverlap, routerOverlapLost } = metrics
  expect([routerNonMaxOverlap.with(labels).value, routerOverlapLost.with(labels).sum]).toEqual([times, lost])
  await router.close()
})
