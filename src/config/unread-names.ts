/** Upstream's environment names that are not read here, and why. One that is set is said once, at start. */

const workersByAddress = 'workers are given by their addresses'
const ofWorkers = "a setting of upstream's workers; engines have their own"
const engineSays = 'engines say it themselves'

/** A name that ends in `_` stands for all that begin so. */
export const unreadNames: Readonly<Record<string, string>> = {
  DYN_CANARY_WAIT_TIME: ofWorkers,
  DYN_CONTEXT_WINDOW: engineSays,
  DYN_DISABLE_FRONTEND_NVEXT: 'nvext is always read; keys keep strangers out',
  DYN_DISCOVERY_BACKEND: workersByAddress,
  DYN_DYNAMO_REQUEST_QUEUE_LIMIT: ofWorkers,
  DYN_ENABLE_ANTHROPIC_API: 'its routes are always there',
  DYN_ENABLE_FORCE_INCLUDE_USAGE:
    "whether a stream ends with usage is its client's choice; see server.usage_sample_every",
  DYN_ENABLE_RL: 'no such routes are offered',
  DYN_EVENT_PLANE: 'events come from the engines themselves',
  DYN_FRONTEND_FD_LIMIT_TARGET: 'Node raises its limit of open files as far as the system lets it',
  DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS: `${ofWorkers}; of the gateway see server.shutdown_grace_secs`,
  DYN_HEALTH_CHECK_: ofWorkers,
  DYN_HTTP_BACKEND_STREAM_TIMEOUT_SECS: 'see server.idle_timeout_ms and server.no_progress_timeout_ms',
  DYN_HTTP_PRE_COMMIT_ERROR_PEEK_MS:
    "nothing is answered before the first byte of an engine's answer, however long it takes",
  DYN_HTTP_SVC_: 'routes have the paths of the APIs that they are of',
  DYN_IGNORE_OPENAI_FE_UNSUPPORTED_FIELDS: 'unknown fields pass, and are refused with server.strict only',
  DYN_KV_CACHE_BLOCK_SIZE: engineSays,
  DYN_MAX_OUTPUT_TOKENS: engineSays,
  DYN_METADATA_HEADER: 'metadata headers begin with x-dynamo-meta-',
  DYN_MIGRATION_:
    'a request moves to another worker before its first byte, once; an answer that began is not gone on with elsewhere',
  DYN_MODEL_: engineSays,
  DYN_NAMESPACE: workersByAddress,
  DYN_NAMESPACE_PREFIX: workersByAddress,
  DYN_REQUEST_PLANE: 'engines are asked over HTTP',
  DYN_RL_PORT: 'no such routes are offered',
  DYN_ROUTER_ACTIVE_SEQUENCE_: 'serve knows no other replicas',
  DYN_RUNTIME_GRACEFUL_SHUTDOWN_TIMEOUT_SECS: ofWorkers,
  DYN_RUNTIME_INHIBITED_DURATION_SECS: 'a worker that failed is back when it answers a probe; see server.quarantine_ms',
  DYN_SGLANG_ENABLE_GENERATE: 'the route is there where an SGLang serves the model',
  DYN_TOKENIZER_CACHE: 'caches of tokens are always on, and bounded in bytes',
  DYN_VLLM_ENABLE_INFERENCE_V1_GENERATE: 'no such route is offered',
}

/** Undefined: the name is none of them. */
export function unreadReason(name: string): string | undefined {
  if (Object.hasOwn(unreadNames, name)) return unreadNames[name]
  const prefix = Object.keys(unreadNames).find((it) => it.endsWith('_') && name.startsWith(it))
  return prefix === undefined ? undefined : unreadNames[prefix]
}
