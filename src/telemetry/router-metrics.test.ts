import { expect, it } from 'vitest'
import type { Metrics } from './metrics.js'
import { createMetrics } from './metrics.js'
import { removeWorkerSeries, RouterMetrics, routerMetricsOf, workerLabels } from './router-metrics.js'

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
  const doubled = Array.from({ length: 18 }, (_, at) => 0.0001 * 2 ** at) // to 13.1072
  const overhead = (metrics: Metrics): readonly (readonly number[])[] => [
    metrics.overheadBlockHashing.bounds,
    metrics.overheadFindMatches.bounds,
    metrics.overheadSeqHashing.bounds,
    metrics.overheadScheduling.bounds,
    metrics.overheadTotal.bounds,
  ]
  expect(overhead(createMetrics({ metricsCompat: '1.0' }))).toEqual(Array.from({ length: 5 }, () => doubled))
  expect(overhead(createMetrics()).map((bounds) => bounds.slice(0, 2))).toEqual([
    [0.001, 0.002],
    [0.01, 0.03],
    [0.001, 0.002],
    [0.01, 0.03],
    [0.01, 0.03],
  ])
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

it('counts what was held of prompts, what workers found of them, and what was given up, by model and phase', () => {
  const metrics = createMetrics()
  const router = routerMetricsOf(metrics, 'm', 'prefill')
  const lines = (): string[] =>
    metrics.registry.text().match(/^\S*router_(kv_selected|kv_worker|non_max|overlap_blocks_lost_sum).*$/gm) ?? []
  const at = (name: string, rest: string, value: number): string =>
    `dynamo_component_router_${name}{dynamo_component="m/prefill",dynamo_namespace="warmroute",${rest}} ${value}`
  const [phase, type] = [
    'model="m",phase="prefill",router_id="1",worker_id="1"',
    'router_id="1",worker_id="1",worker_type="prefill"',
  ]
  const all = (selected: number, reused: number, gaveUp: number, lost: number): string[] => [
    at('kv_selected_cached_prefix_tokens_total', phase, selected),
    at('kv_worker_reused_tokens_total', phase, reused),
    at('non_max_overlap_selections_total', type, gaveUp),
    at('overlap_blocks_lost_sum', type, lost),
  ]
  expect(lines()).toEqual(all(0, 0, 0, 0))
  for (const tokens of [32, 16]) router.requestSent(tokens)
  router.requestReused(48)
  for (const blocks of [2, 0.5]) router.requestGaveUp(blocks)
  expect(lines()).toEqual(all(48, 48, 2, 2.5))
})

it('shows which workers a router knows, by rank, until they leave', () => {
  const metrics = createMetrics()
  const [router, other] = [routerMetricsOf(metrics, 'm'), routerMetricsOf(metrics, 'n')]
  const known = (): string[] =>
    [...metrics.registry.text().matchAll(/^dynamo_component_router_worker_registered\{(.*)\} 1$/gm)].map(
      ([, it]) => it!,
    )
  const one = (rank: number, id: number, model = 'm'): string =>
    `dp_rank="${rank}",dynamo_component="${model}",dynamo_namespace="warmroute",router_worker_id="${id}",worker_id="1",worker_type="decode"`
  router.workerRegistered(7n, { dataParallelStartRank: 0, dataParallelSize: 2 }, 'decode')
  other.workerRegistered(7n, { dataParallelStartRank: 0, dataParallelSize: 1 }, 'decode')
  expect(known()).toEqual([one(0, 7), one(0, 7, 'n'), one(1, 7)])
  router.workerRegistered(7n, { dataParallelStartRank: 3, dataParallelSize: 1 }, 'decode')
  expect(known()).toEqual([one(0, 7, 'n'), one(3, 7)])
  router.workerLeft(7n)
  router.workerLeft(8n)
  expect(known()).toEqual([one(0, 7, 'n')])
})

it('scrapes as zero before the first request, for each router of a process', () => {
  const metrics = createMetrics()
  new RouterMetrics(metrics, identity)
  new RouterMetrics(metrics, { ...identity, routerId: 1n })
  const lines = metrics.registry.text().split('\n')
  const requests = ['time_to_first_token_seconds', 'inter_token_latency_seconds', 'input_sequence_tokens']
  const families = [
    'dynamo_component_router_requests_total',
    ...[...requests, 'output_sequence_tokens', 'kv_hit_rate'].map((name) => `dynamo_component_router_${name}_count`),
    ...['block_hashing', 'indexer_find_matches', 'seq_hashing', 'scheduling', 'total'].map(
      (phase) => `dynamo_router_overhead_${phase}_ms_count`,
    ),
  ]
  for (const family of families) {
    const series = lines.filter((line) => line.startsWith(`${family}{`))
    expect(series, family).toHaveLength(2)
    for (const id of ['1', '255']) {
      const own = series.filter((line) => line.includes(`router_id="${id}"`))
      expect(own, family).toEqual([expect.stringMatching(/ 0$/)])
    }
  }
})

const types = ['decode', 'prefill'] as const

it.each(types)('ends every series of a %s worker that left, also those of an unknown rank, and of no other', (type) => {
  const metrics = createMetrics()
  const router = new RouterMetrics(metrics, identity)
  const { workerLastTimeToFirstToken, workerLastInputSequenceTokens, workerLastInterTokenLatency } = metrics
  const last = [workerLastTimeToFirstToken, workerLastInputSequenceTokens, workerLastInterTokenLatency]
  for (const worker of [7n, 8n]) {
    for (const of of types) {
      for (const rank of [0, 1]) router.observeLoad(worker, rank, of, 1, 1)
      for (const rank of ['0', '1', 'none']) for (const family of last) family.set(workerLabels(worker, rank, of), 0.1)
    }
  }
  const seriesOf = (worker: bigint, of: string): number =>
    metrics.registry
      .text()
      .split('\n')
      .filter((line) => line.includes(`worker_id="${worker}",worker_type="${of}"`)).length
  const all = 2 * 2 + 3 * 3 // two loads on two ranks, three last values on two ranks and on none
  expect([seriesOf(7n, type), seriesOf(8n, type)]).toEqual([all, all])
  removeWorkerSeries(metrics, 7n, [0, 1], type)
  const other = type === 'decode' ? 'prefill' : 'decode'
  expect([seriesOf(7n, type), seriesOf(7n, other), seriesOf(8n, type), seriesOf(8n, other)]).toEqual([0, all, all, all])
})
