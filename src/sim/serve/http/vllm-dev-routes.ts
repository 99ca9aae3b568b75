/** vLLM's development routes (`VLLM_SERVER_DEV_MODE=1`): configuration, cache reset, sleep, pause. */
import type { SimServer } from '../sim-engine.js'
import type { PairKind } from '../sim-options.js'
import type { Exchange, Routes } from './exchange.js'
import { sendJson, sendText } from './exchange.js'
import { vllmBody } from './vllm-errors.js'
import { eventSources } from './vllm-shapes.js'

export const devRoutes: Routes = {
  'GET /server_info': (exchange) => {
    const isJson = exchange.url.searchParams.get('config_format') === 'json'
    const config = isJson ? vllmConfig(exchange.server) : configText(exchange.server)
    sendJson(exchange, 200, { vllm_config: config, vllm_env: {}, system_env: {} })
  },
  'POST /reset_prefix_cache': (exchange) => {
    const isReset = exchange.server.ranks.map((rank) => rank.reset()).every(Boolean)
    sendJson(exchange, 200, { success: isReset })
  },
  'GET /is_sleeping': (exchange) => sendJson(exchange, 200, { is_sleeping: exchange.server.isAsleep }),
  'GET /is_paused': (exchange) => sendJson(exchange, 200, { is_paused: exchange.server.isPaused }),
  'POST /sleep': (exchange) => sleep(exchange, true),
  'POST /wake_up': (exchange) => sleep(exchange, false),
  'POST /pause': (exchange) => pause(exchange, true),
  'POST /resume': (exchange) => pause(exchange, false),
  'POST /abort_requests': abort,
}

/** Ends requests by the ids that their answers carry; one that is not there is no error. */
async function abort(exchange: Exchange): Promise<void> {
  const ids = (await vllmBody(exchange))['request_ids']
  for (const id of Array.isArray(ids) ? ids : []) exchange.server.live.get(String(id))?.abort()
  sendText(exchange, 200, '')
}

/** A sleeping engine has dropped its cache; the event comes with its next pass. */
function sleep(exchange: Exchange, isAsleep: boolean): void {
  exchange.server.isAsleep = isAsleep
  if (isAsleep) for (const rank of exchange.server.ranks) rank.reset()
  sendText(exchange, 200, '')
}

function pause(exchange: Exchange, isPaused: boolean): void {
  exchange.server.isPaused = isPaused
  for (const rank of exchange.server.ranks) rank.engine.pause(isPaused)
  sendJson(exchange, 200, { status: isPaused ? 'paused' : 'resumed' })
}

function vllmConfig(server: SimServer): Record<string, unknown> {
  const { options } = server
  return {
    model_config: {
      model: options.root,
      tokenizer: options.root,
      max_model_len: options.modelTokensMax,
      served_model_name: options.models,
    },
    cache_config: {
      block_size: options.blockTokens,
      enable_prefix_caching: true,
      prefix_caching_hash_algo: 'sha256_cbor',
      num_gpu_blocks: options.blocks,
      kv_cache_size_tokens: options.blocks * options.blockTokens,
    },
    parallel_config: { data_parallel_size: options.ranks, tensor_parallel_size: 1, pipeline_parallel_size: 1 },
    scheduler_config: {
      max_num_batched_tokens: options.batchedTokensMax,
      max_num_seqs: options.sequencesMax,
      enable_chunked_prefill: true,
      policy: 'fcfs',
    },
    kv_transfer_config: options.pair
      ? { kv_connector: connectorNames[options.pair.kind], kv_role: options.pair.kvRole ?? 'kv_both' }
      : null,
    kv_events_config: eventSources(server)['0'] ?? null,
  }
}

function configText(server: SimServer): string {
  const { root, modelTokensMax, ranks } = server.options
  return `model='${root}', tokenizer='${root}', max_seq_len=${modelTokensMax}, data_parallel_size=${ranks}`
}

const connectorNames: Readonly<Partial<Record<PairKind, string>>> = {
  nixl: 'NixlConnector',
  nixl_push: 'NixlPushConnector',
  mooncake: 'MooncakeConnector',
  shared_cache: 'LMCacheConnectorV1',
}
