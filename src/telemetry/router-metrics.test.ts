import { expect, it } from 'vitest'
import { createMetrics } from './metrics.js'
import { removeWorkerSeries, RouterMetrics, workerLabels } from './router-metrics.js'

const identity = { namespace: 'ns', component: 'backend', routerId: 255n }

/** The lines of the families whose name starts so. */
function linesOf(text: string, prefix: string): string {
  return `${text
    .split('\n')
    .filter((line) => line.includes(prefix))
    .join('\n')}\n`
}

it('writes worker loads as the original does', () => {
  const metrics = createMetrics()
  new RouterMetrics(metrics, identity).observeLoad(123n, 0, 'decode', 42, 100)
  expect(linesOf(metrics.registry.text(), 'dynamo_frontend_worker_active')).toBe(`\
# HELP dynamo_frontend_worker_active_decode_blocks Active KV cache decode blocks per worker
# TYPE dynamo_frontend_worker_active_decode_blocks gauge
dynamo_frontend_worker_active_decode_blocks{dp_rank="0",worker_id="123",worker_type="decode"} 42
# HELP dynamo_frontend_worker_active_prefill_tokens Active prefill tokens queued per worker
# TYPE dynamo_frontend_worker_active_prefill_tokens gauge
dynamo_frontend_worker_active_prefill_tokens{dp_rank="0",worker_id="123",worker_type="decode"} 100
`)
})

it('names the overhead histograms as the original does', () => {
  const metrics = createMetrics()
  new RouterMetrics(metrics, identity).observeRouting({ hashMs: 0.1, seqHashMs: 0.2, findMatchesMs: 0.3, totalMs: 1.5 })
  const text = metrics.registry.text()
  expect(text).toContain('# HELP dynamo_router_overhead_total_ms Total routing overhead per request in milliseconds')
  expect(text).toContain('# TYPE dynamo_router_overhead_total_ms histogram')
  expect(text).toContain('dynamo_router_overhead_total_ms_count{router_id="255"} 1')
})

it.each([
  ['1.0', { hash: 10, find: 0, seq: 0, schedule: 0 }],
  ['1.2', { hash: 10, find: 5, seq: 0, schedule: 0 }],
] as const)(
  'generation %s never observes a negative phase when durations arrive out of order',
  (generation, expected) => {
    const metrics = createMetrics({ metricsCompat: generation })
    const router = new RouterMetrics(metrics, identity, generation)
    router.observeRouting({ hashMs: 10, findMatchesMs: 5, seqHashMs: 3, totalMs: 1 })
    const sums = {
      hash: metrics.overheadBlockHashing.with(router.routerLabels).sum,
      find: metrics.overheadFindMatches.with(router.routerLabels).sum,
      seq: metrics.overheadSeqHashing.with(router.routerLabels).sum,
      schedule: metrics.overheadScheduling.with(router.routerLabels).sum,
    }
    expect(sums).toEqual(expected)
  },
)

it('takes phases of 1.0 as differences of cumulative instants, and those of 1.2 as durations', () => {
  for (const [generation, phases] of [
    ['1.0', [1, 2, 4, 8]],
    ['1.2', [1, 3, 6, 12]],
  ] as const) {
    const metrics = createMetrics({ metricsCompat: generation })
    const router = new RouterMetrics(metrics, identity, generation)
    router.observeRouting({ hashMs: 1, findMatchesMs: 3, seqHashMs: 7, totalMs: 15 })
    const { overheadBlockHashing, overheadFindMatches, overheadSeqHashing, overheadScheduling } = metrics
    const sums = [overheadBlockHashing, overheadFindMatches, overheadSeqHashing, overheadScheduling].map(
      (it) => it.with(router.routerLabels).sum,
    )
    expect(sums, generation).toEqual(phases)
  }
})

it('1.0 uses the first generation of overhead buckets', () => {
  expect(createMetrics({ metricsCompat: '1.0' }).overheadTotal.bounds.slice(0, 2)).toEqual([0.0001, 0.0002])
  expect(createMetrics().overheadTotal.bounds.slice(0, 2)).toEqual([0.01, 0.03])
})

it('observes each request as the guard tells it, and no rate for a prompt without a block', () => {
  const metrics = createMetrics()
  const router = new RouterMetrics(metrics, identity)
  router.requestRouted(100, 3, 6)
  router.requestRouted(1, 0, 0)
  router.requestFirstToken(250)
  router.requestOutputBlock(20)
  router.requestKvTransfer(30)
  router.requestFinished(5)
  router.requestFinished(0)
  const labels = router.requestLabels
  expect(metrics.routerRequestsStarted.with(labels).value).toBe(2)
  expect(metrics.routerRequests.with(labels).value).toBe(2)
  const { routerKvHitRate, routerInputTokens, routerTimeToFirstToken, routerInterTokenLatency, routerOutputTokens } =
    metrics
  const seen = [
    routerKvHitRate,
    routerInputTokens,
    routerTimeToFirstToken,
    routerInterTokenLatency,
    routerOutputTokens,
    metrics.routerKvTransferLatency,
  ]
  expect(seen.map((it) => [it.with(labels).count, it.with(labels).sum])).toEqual([
    [1, 0.5],
    [2, 101],
    [1, 0.25],
    [1, 0.02],
    [1, 5],
    [1, 0.03],
  ])
})

it('scrapes as zero before the first request, for each router of a process', () => {
  const metrics = createMetrics()
  new RouterMetrics(metrics, identity)
  new RouterMetrics(metrics, { ...identity, routerId: 1n })
  const text = metrics.registry.text()
  for (const id of ['255', '1']) {
    expect(text).toMatch(new RegExp(`dynamo_component_router_kv_hit_rate_count\\{.*router_id="${id}".*\\} 0`))
    expect(text).toMatch(new RegExp(`dynamo_component_router_requests_total\\{.*router_id="${id}".*\\} 0`))
  }
})

it('ends every series of a worker that left, also those of an unknown rank, and of no other', () => {
  const metrics = createMetrics()
  const router = new RouterMetrics(metrics, identity)
  for (const worker of [7n, 8n]) {
    for (const rank of [0, 1]) router.observeLoad(worker, rank, 'decode', 1, 1)
    for (const rank of ['0', 'none']) metrics.workerLastTimeToFirstToken.set(workerLabels(worker, rank, 'decode'), 0.1)
  }
  removeWorkerSeries(metrics, 7n, [0, 1], 'prefill')
  expect(metrics.registry.text()).toContain('worker_id="7"')
  removeWorkerSeries(metrics, 7n, [0, 1], 'decode')
  const text = metrics.registry.text()
  expect(text).not.toContain('worker_id="7"')
  expect(text.match(/worker_id="8"/g)).toHaveLength(6)
})
