/** The JSON that SGLang 0.5.23 answers with: every key, in its order, as recorded. */
import type { Choice } from '../generation.js'
import type { SimServer } from '../sim-engine.js'
import type { Json } from './exchange.js'
import { inputTokensMax } from './sglang-errors.js'

export function sglangUsage(server: SimServer, choices: readonly Choice[], perPrompt: number): Json {
  const prompt = choices
    .filter((_, index) => index % perPrompt === 0)
    .reduce((sum, choice) => sum + choice.prompt.length, 0)
  const completion = choices.reduce((sum, { tokens }) => sum + tokens.length, 0)
  return {
    prompt_tokens: prompt,
    total_tokens: prompt + completion,
    completion_tokens: completion,
    prompt_tokens_details: server.options.isCacheReported ? { cached_tokens: choices.at(-1)!.cachedTokens } : null,
    reasoning_tokens: 0,
    completion_tokens_details: null,
  }
}

export function weightMetadata(completion: number): Json {
  return { weight_version: 'default', weight_versions: [{ version: 'default', start: 0, end: completion }] }
}

/** `meta_info` of `/generate`. */
export function metaInfo(
  choice: Choice,
  fields: { readonly id: string; readonly startedSeconds: number; readonly rank: number | null },
): Json {
  const now = Date.now() / 1000
  const count = choice.tokens.length
  return {
    id: fields.id,
    finish_reason:
      choice.reason === 'length'
        ? { type: 'length', length: count }
        : choice.reason === undefined
          ? null
          : { type: choice.reason, matched: choice.stopReason },
    prompt_tokens: choice.prompt.length,
    weight_version: 'default',
    num_retractions: 0,
    storage_prefetch_wait: 0,
    storage_staging_wait: 0,
    forward_entry_time: fields.startedSeconds,
    prefill_finished_time: now,
    queue_time: 0.0005,
    reasoning_tokens: 0,
    completion_tokens: count,
    cached_tokens: choice.cachedTokens,
    weight_versions: [{ version: 'default', start: 0, end: count }],
    cached_tokens_details: choice.cachedTokens > 0 ? { device: choice.cachedTokens, host: 0 } : null,
    dp_rank: fields.rank,
    e2e_latency: now - fields.startedSeconds,
    request_received_ts: fields.startedSeconds,
    first_token_latency: now - fields.startedSeconds,
    api_server_dispatch_finish_ts: fields.startedSeconds,
    request_finished_ts: now,
    ...(count > 1 ? { decode_throughput: count / Math.max(1e-6, now - fields.startedSeconds) } : {}),
    response_sent_to_client_ts: now,
  }
}

/** As SGLang writes it: a server of its own is the text `null`. */
export function pairMode(server: SimServer): string {
  const kind = server.options.pair?.kind
  return kind === 'prefill' || kind === 'decode' ? kind : 'null'
}

/** How long each step of a start took: never twice the same, which is how a restart shows. */
function startupTime({ startedSeconds }: SimServer): Json {
  const part = startedSeconds % 1
  return {
    load_weight: 0.17 + part / 100,
    kv_cache_allocation: 0.96,
    scheduler_e2e: 4.44 + part,
    tokenizer_e2e: 25.81 + part,
  }
}

export function serverInfo(server: SimServer): Json {
  const { options } = server
  const [publisher] = server.publishers
  const topic = options.events?.topic ?? ''
  return {
    model_path: options.root,
    tokenizer_path: options.root,
    served_model_name: options.models[0],
    host: options.host,
    port: server.port,
    page_size: options.blockTokens,
    reasoning_parser: options.reasoningParser,
    dp_size: options.ranks,
    enable_dp_attention: options.ranks > 1,
    load_balance_method: 'auto',
    chunked_prefill_size: options.batchedTokensMax,
    max_prefill_tokens: 16384,
    max_running_requests: options.sequencesMax,
    max_queued_requests: Number.isFinite(options.queuedMax) ? options.queuedMax : null,
    disable_radix_cache: false,
    disaggregation_mode: pairMode(server),
    disaggregation_bootstrap_port: server.bootstrap?.port ?? 8998,
    speculative_algorithm: null,
    enable_hierarchical_cache: options.hostBlocks > 0,
    enable_lora: options.adapters.length > 0,
    enable_cache_report: options.isCacheReported,
    decode_log_interval: options.decodeLogInterval,
    kv_events_config: publisher
      ? JSON.stringify({
          publisher: 'zmq',
          endpoint: `tcp://*:${publisher.port}`,
          replay_endpoint: `tcp://*:${publisher.replayPort}`,
          topic,
        })
      : null,
    startup_time: startupTime(server),
    max_total_num_tokens: options.blocks * options.blockTokens,
    max_req_input_len: inputTokensMax(server),
    version: options.version,
    internal_states: server.ranks.map((rank) => ({
      page_size: options.blockTokens,
      max_total_num_tokens: options.blocks * options.blockTokens,
      num_running_reqs: rank.engine.scheduler.runningCount,
    })),
    kv_events: publisher
      ? {
          publisher: 'zmq',
          endpoint_host: '*',
          endpoint_port_base: publisher.port,
          topic,
          block_size: options.blockTokens,
          dp_size: options.ranks,
          replay_endpoint_port_base: publisher.replayPort,
        }
      : null,
  }
}

export function loads(server: SimServer): Json {
  const { options } = server
  const total = options.blocks * options.blockTokens
  return {
    timestamp: new Date().toISOString(),
    version: options.version,
    accelerator: null,
    num_accelerators: 1,
    loads: server.ranks.map(({ engine: { scheduler } }, rank) => {
      const used = scheduler.pool.activeCount * options.blockTokens
      return {
        timestamp: Date.now() / 1000,
        dp_rank: rank,
        num_running_reqs: scheduler.runningCount,
        num_waiting_reqs: scheduler.waitingCount,
        num_waiting_uncached_tokens: 0,
        num_used_tokens: used,
        num_total_tokens: used,
        num_active_tokens: used,
        num_prealloc_ready_tokens: 0,
        max_total_num_tokens: total,
        max_running_requests: options.sequencesMax,
        token_usage: used / total,
        gen_throughput: 0,
        cache_hit_rate: 0,
        utilization: 0,
      }
    }),
  }
}
