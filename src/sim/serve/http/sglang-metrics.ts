/** SGLang's `/metrics`: the families that routers and operators read, by their real names. */
import type { SimServer } from '../sim-engine.js'
import { Exposition } from './exposition.js'

export function sglangMetrics(server: SimServer): string {
  const { options, latencies } = server
  const { blockTokens, blocks, modelTokensMax } = options
  const text = new Exposition()
  const ranks = server.ranks.map((rank, index) => ({
    labels: {
      engine_type: 'unified',
      model_name: options.models[0]!,
      moe_ep_rank: 0,
      pp_rank: 0,
      tp_rank: 0,
      ...(options.ranks > 1 ? { dp_rank: index } : {}),
    },
    scheduler: rank.engine.scheduler,
    totals: rank.totals,
  }))
  type Rank = (typeof ranks)[number]
  const each = (name: string, type: 'gauge' | 'counter', help: string, value: (rank: Rank) => number): void => {
    text.family(`sglang:${name}`, type, help)
    for (const rank of ranks) text.sample(`sglang:${name}`, rank.labels, value(rank))
  }
  const used = ({ scheduler: { pool } }: Rank): number => pool.activeCount * blockTokens
  each('max_total_num_tokens', 'gauge', 'Tokens that fit into the KV cache.', () => blocks * blockTokens)
  each('page_size', 'gauge', 'Tokens per page.', () => blockTokens)
  each('num_pages', 'gauge', 'Pages.', () => blocks)
  each('context_len', 'gauge', 'Tokens that the model reads.', () => modelTokensMax)
  each('num_running_reqs', 'gauge', 'Requests that run.', ({ scheduler }) => scheduler.runningCount)
  each('num_queue_reqs', 'gauge', 'Requests that wait.', ({ scheduler }) => scheduler.waitingCount)
  each('token_usage', 'gauge', 'Share of tokens in use.', (rank) => used(rank) / (blocks * blockTokens))
  each('num_used_tokens', 'gauge', 'Tokens in use.', used)
  each('kv_used_tokens', 'gauge', 'Tokens in use.', used)
  each(
    'kv_available_tokens',
    'gauge',
    'Tokens that are neither used nor cached.',
    ({ scheduler: { pool } }) => Math.max(0, pool.blocks - Math.max(pool.cachedCount, pool.activeCount)) * blockTokens,
  )
  each(
    'kv_evictable_tokens',
    'gauge',
    'Cached tokens that may go.',
    ({ scheduler: { pool } }) => Math.max(0, pool.cachedCount - pool.activeCount) * blockTokens,
  )
  each('cache_hit_rate', 'gauge', 'Share of prompt tokens found.', ({ totals }) =>
    totals.promptTokens === 0 ? 0 : totals.cachedTokens / totals.promptTokens,
  )
  each('gen_throughput', 'gauge', 'Tokens per second.', () => 0)
  each('num_retracted_reqs', 'gauge', 'Requests retracted.', ({ scheduler }) => scheduler.preemptionCount)
  each('prompt_tokens_total', 'counter', 'Prompt tokens.', ({ totals }) => totals.promptTokens)
  each('generation_tokens_total', 'counter', 'Generated tokens.', ({ totals }) => totals.generatedTokens)
  each('cached_tokens_total', 'counter', 'Prompt tokens from a cache.', ({ totals }) => totals.cachedTokens)
  each('num_requests_total', 'counter', 'Requests.', ({ totals }) =>
    Object.values(totals.ended).reduce((sum, count) => sum + count, 0),
  )
  const histograms = {
    time_to_first_token_seconds: latencies.ttft,
    inter_token_latency_seconds: latencies.itl,
    e2e_request_latency_seconds: latencies.e2e,
  }
  for (const [name, values] of Object.entries(histograms))
    text.family(`sglang:${name}`, 'histogram', 'Seconds.').histogram(`sglang:${name}`, ranks[0]!.labels, values)
  return text.toString()
}
