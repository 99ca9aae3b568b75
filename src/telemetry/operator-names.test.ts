import { expect, it } from 'vitest'
import { catalogue } from './catalogue.js'
import { createMetrics } from './metrics.js'
import { bucketsFromEnv, withPrefix } from './operator-names.js'

/** Names of the families that a scrape shows. */
function familiesOf(prefix: string): string[] {
  return [
    ...createMetrics({ prefix })
      .registry.text()
      .matchAll(/^# TYPE (\S+)/gm),
  ].map(([, name]) => name!)
}

it('the front door has another prefix, and workers and the queue keep theirs', () => {
  const names = Object.values(catalogue).map(({ name }) => [name, withPrefix(name, 'gate')] as const)
  const changed = names.filter(([before, after]) => before !== after)
  for (const [before, after] of changed) expect(after).toBe(before.replace(/^dynamo_frontend_/, 'gate_'))
  const kept = names.filter(([before, after]) => before === after && before.startsWith('dynamo_frontend_'))
  expect(kept.map(([name]) => name.slice('dynamo_frontend_'.length)).sort()).toEqual([
    'router_queue_backpressure_total',
    'router_queue_pending_isl_tokens',
    'router_queue_pending_requests',
    'worker_active_decode_blocks',
    'worker_active_prefill_tokens',
    'worker_last_input_sequence_tokens',
    'worker_last_inter_token_latency_seconds',
    'worker_last_time_to_first_token_seconds',
  ])
  expect(changed.length).toBeGreaterThan(20)
})

it.each([
  ['nv_llm:http', 'nv_llm:http'],
  ['my-gate.1', 'my_gate_1'],
  ['9gate', '_9gate'],
  ['', 'dynamo_frontend'],
  ['--', 'dynamo_frontend'],
])('the prefix %j becomes %s', (given, prefix) => {
  expect(familiesOf(given)).toContain(`${prefix}_disconnected_clients`)
})

it.each<[string, Record<string, string>, object]>([
  ['nothing', {}, {}],
  ['one of three, the others as they are', { DYN_METRICS_ITL_COUNT: '3' }, { interTokenLatency: [0, 0.045, 2] }],
  [
    'all three',
    { DYN_METRICS_TTFT_MIN: '1', DYN_METRICS_TTFT_MAX: '100', DYN_METRICS_TTFT_COUNT: '3' },
    { timeToFirstToken: [0, 10, 100] },
  ],
  ["upstream's own spelling", { DYN_HISTOGRAM_DYN_METRICS_OUTPUT_SEQUENCE_COUNT: '1' }, { outputSequenceTokens: [0] }],
  [
    "upstream's own spelling first",
    { DYN_HISTOGRAM_DYN_METRICS_REQUEST_DURATION_COUNT: '1', DYN_METRICS_REQUEST_DURATION_COUNT: '2' },
    { requestDuration: [0] },
  ],
  [
    'lengths of prompts, and what of them was cached',
    { DYN_METRICS_INPUT_SEQUENCE_COUNT: '2' },
    { inputSequenceTokens: [0, 130_000], cachedTokens: [0, 130_000] },
  ],
  ['what cannot be read', { DYN_METRICS_TTFT_MAX: 'much', DYN_METRICS_ITL_MIN: ' ' }, {}],
  ['a range upside down', { DYN_METRICS_TTFT_MIN: '500' }, {}],
  ['a range from nothing', { DYN_METRICS_TTFT_MIN: '0' }, {}],
  ['a range without an end', { DYN_METRICS_TTFT_MAX: 'Infinity' }, {}],
  ['no bounds', { DYN_METRICS_TTFT_COUNT: '0' }, {}],
  ['too many bounds', { DYN_METRICS_TTFT_COUNT: '513' }, {}],
])('the environment sets %s', (_says, env, buckets) => {
  expect(bucketsFromEnv(env)).toEqual(buckets)
})

it('bounds that are set are those of their family, and of no other', () => {
  const metrics = createMetrics({ buckets: bucketsFromEnv({ DYN_METRICS_TTFT_COUNT: '2' }) })
  expect(metrics.timeToFirstToken.bounds).toEqual([0, 480])
  expect(metrics.routerTimeToFirstToken.bounds).toHaveLength(18)
})
