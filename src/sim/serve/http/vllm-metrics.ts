/** vLLM's `/metrics`: the families that routers and operators read, by their real names. */
import type { SimServer } from '../sim-engine.js'
import { Exposition } from './exposition.js'
import type { Labels } from './exposition.js'

export function vllmMetrics(server: SimServer): string {
  const { options, latencies } = server
  const text = new Exposition()
  text.family('process_start_time_seconds', 'gauge', 'Start time of the process since the epoch, in seconds.')
  text.sample('process_start_time_seconds', {}, server.startedSeconds)
  const ranks = server.ranks.map((rank, index) => ({
    labels: { engine: index, model_name: options.models[0]! } satisfies Labels,
    scheduler: rank.engine.scheduler,
    totals: rank.totals,
  }))
  type Rank = (typeof ranks)[number]
  const each = (name: string, type: 'gauge' | 'counter', help: string, value: (rank: Rank) => number): void => {
    text.family(name, type, help)
    for (const rank of ranks) text.sample(name, rank.labels, value(rank))
  }
  each(
    'vllm:num_requests_running',
    'gauge',
    'Requests in the running batch.',
    ({ scheduler }) => scheduler.runningCount,
  )
  each('vllm:num_requests_waiting', 'gauge', 'Requests that wait.', ({ scheduler }) => scheduler.waitingCount)
  text.family('vllm:num_requests_waiting_by_reason', 'gauge', 'Requests that wait, by reason.')
  for (const { labels, scheduler } of ranks) {
    text.sample('vllm:num_requests_waiting_by_reason', { ...labels, reason: 'capacity' }, scheduler.waitingCount)
    text.sample('vllm:num_requests_waiting_by_reason', { ...labels, reason: 'deferred' }, 0)
  }
  text.family('vllm:engine_sleep_state', 'gauge', 'Whether the engine sleeps.')
  for (const { labels } of ranks)
    for (const state of ['awake', 'weights_offloaded', 'discard_all'])
      text.sample(
        'vllm:engine_sleep_state',
        { ...labels, sleep_state: state },
        (state === 'awake') !== server.isAsleep ? 1 : 0,
      )
  each(
    'vllm:kv_cache_usage_perc',
    'gauge',
    'Share of KV blocks in use, 1 is all.',
    ({ scheduler: { pool } }) => pool.activeCount / pool.blocks,
  )
  each('vllm:prefix_cache_queries_total', 'counter', 'Prompt tokens looked up.', ({ totals }) => totals.promptTokens)
  each('vllm:prefix_cache_hits_total', 'counter', 'Prompt tokens found.', ({ totals }) => totals.cachedTokens)
  each('vllm:external_prefix_cache_queries_total', 'counter', 'Tokens looked up in a connector.', () => 0)
  each('vllm:external_prefix_cache_hits_total', 'counter', 'Tokens found in a connector.', () => 0)
  each('vllm:num_preemptions_total', 'counter', 'Preemptions.', ({ scheduler }) => scheduler.preemptionCount)
  each('vllm:prompt_tokens_total', 'counter', 'Prompt tokens.', ({ totals }) => totals.promptTokens)
  each('vllm:prompt_tokens_cached_total', 'counter', 'Prompt tokens from a cache.', ({ totals }) => totals.cachedTokens)
  text.family('vllm:prompt_tokens_by_source_total', 'counter', 'Prompt tokens by where their KV came from.')
  for (const { labels, totals } of ranks) {
    const name = 'vllm:prompt_tokens_by_source_total'
    text.sample(name, { ...labels, source: 'local_compute' }, totals.promptTokens - totals.cachedTokens)
    text.sample(name, { ...labels, source: 'local_cache_hit' }, totals.cachedTokens)
    text.sample(name, { ...labels, source: 'external_kv_transfer' }, 0)
  }
  each('vllm:generation_tokens_total', 'counter', 'Generated tokens.', ({ totals }) => totals.generatedTokens)
  text.family('vllm:request_success_total', 'counter', 'Requests that ended, by reason.')
  // A client that leaves is not counted (seen on 0.32.0).
  for (const { labels, totals } of ranks)
    for (const reason of ['stop', 'length', 'abort', 'error', 'repetition'])
      text.sample(
        'vllm:request_success_total',
        { ...labels, finished_reason: reason },
        reason === 'stop' || reason === 'length' ? totals.ended[reason] : 0,
      )
  const first = ranks[0]!.labels
  const histograms = {
    time_to_first_token_seconds: latencies.ttft,
    inter_token_latency_seconds: latencies.itl,
    e2e_request_latency_seconds: latencies.e2e,
  }
  for (const [name, values] of Object.entries(histograms))
    text.family(`vllm:${name}`, 'histogram', 'Seconds.').histogram(`vllm:${name}`, first, values)
  text.family('vllm:cache_config_info', 'gauge', 'The configuration of the KV cache, as labels.')
  for (const { labels } of ranks)
    text.sample('vllm:cache_config_info', { ...cacheLabels(server), engine: labels.engine }, 1)
  return text.toString()
}

function cacheLabels(server: SimServer): Labels {
  const { blockTokens, blocks } = server.options
  return {
    block_size: blockTokens,
    cache_dtype: 'auto',
    effective_attention_block_size: blockTokens,
    enable_prefix_caching: 'True',
    gpu_memory_utilization: '0.92',
    kv_cache_size_tokens: blocks * blockTokens,
    kv_offloading_size: 'None',
    mamba_cache_mode: 'none',
    num_gpu_blocks: blocks,
    prefix_caching_hash_algo: 'sha256_cbor',
    prefix_match_unit: 'None',
    sliding_window: 'None',
  }
}
