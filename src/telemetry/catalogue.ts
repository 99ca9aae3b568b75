/**
 * Every metric we expose: one row each, in one place. `docs/reference/metrics.md` is generated from it. Names, help, labels
 * and buckets of the `dynamo_*` rows are those of a recorded v1.2.1 system (test/fixtures/dynamo/v1.2.1/metrics.txt);
 * rows marked otherwise come from 1.6.1 (test/fixtures/dynamo/v1.6.1/metrics.txt). `warmroute_*` rows are ours.
 */
import { exponentialBuckets, linearBuckets, logBuckets } from './buckets.js'
import type { FamilyType } from './families.js'

export interface MetricRow {
  readonly name: string
  readonly type: FamilyType
  readonly labels: readonly string[]
  readonly buckets?: readonly number[]
  readonly help: string
  /** Of a gauge that says what something is: the label that says it, and everything that it may say. */
  readonly states?: { readonly label: string; readonly values: readonly string[] }
  /** Version that a `dynamo_*` row is taken from; 1.2.1 when absent. */
  readonly since?: string
  /** What upstream's sentence does not say, for the reference page alone. */
  readonly note?: string
}

const worker = ['worker_id', 'dp_rank', 'worker_type'] as const
const component = ['dynamo_namespace', 'dynamo_component', 'worker_id'] as const
const router = [...component, 'router_id'] as const

/** Least, largest and number of bounds of what is spread over orders of magnitude. */
export const bucketRanges = {
  duration: [1, 512, 10],
  inputTokens: [50, 128_000, 12],
  outputTokens: [50, 32_000, 10],
  firstToken: [0.001, 480, 18],
  tokenGap: [0.001, 2, 13],
} as const

const isl = logBuckets(...bucketRanges.inputTokens)
const osl = logBuckets(...bucketRanges.outputTokens)
const ttft = logBuckets(...bucketRanges.firstToken)
const itl = logBuckets(...bucketRanges.tokenGap)
const rate = linearBuckets(0, 0.05, 21)
const compute = exponentialBuckets(0.001, 2, 15)
const awaited = exponentialBuckets(0.01, 3, 17)
const stage = [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 2.5, 5]
const roundtrip = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5]
const shortStage = stage.slice(0, 9)

/** Overhead buckets of the first generation (lib/llm/src/kv_router/metrics.rs at v1.0.2), chosen by `metrics_compat: '1.0'`. */
export const overheadBuckets10: readonly number[] = exponentialBuckets(0.0001, 2, 18)

// biome-ignore format: a table reads best with one row per metric
export const catalogue = {
  requests: { name: 'dynamo_frontend_requests_total', type: 'counter', labels: ['model', 'endpoint', 'request_type', 'status', 'error_type'], help: 'Total number of LLM requests processed' },
  requestsStarted: { name: 'dynamo_frontend_requests_started_total', type: 'counter', labels: ['model', 'endpoint', 'request_type'], help: 'Total number of LLM requests accepted by the frontend handler', since: '1.6.1' },
  activeRequests: { name: 'dynamo_frontend_active_requests', type: 'gauge', labels: ['model'], help: 'Number of requests currently being handled by the frontend, from HTTP handler entry to response completion' },
  inflightRequests: { name: 'dynamo_frontend_inflight_requests', type: 'gauge', labels: ['model'], help: 'Number of inflight requests' },
  queuedRequests: { name: 'dynamo_frontend_queued_requests', type: 'gauge', labels: ['model'], help: 'Number of requests in HTTP processing queue' },
  disconnectedClients: { name: 'dynamo_frontend_disconnected_clients', type: 'gauge', labels: [], help: 'Number of disconnected clients' },
  requestDuration: { name: 'dynamo_frontend_request_duration_seconds', type: 'histogram', labels: ['model'], buckets: logBuckets(...bucketRanges.duration), help: 'Duration of LLM requests' },
  inputSequenceTokens: { name: 'dynamo_frontend_input_sequence_tokens', type: 'histogram', labels: ['model'], buckets: isl, help: 'Input sequence length in tokens', note: 'Four bytes stand for a token where tokens are unknown.' },
  outputSequenceTokens: { name: 'dynamo_frontend_output_sequence_tokens', type: 'histogram', labels: ['model'], buckets: osl, help: 'Output sequence length in tokens' },
  cachedTokens: { name: 'dynamo_frontend_cached_tokens', type: 'histogram', labels: ['model'], buckets: isl, help: 'Number of cached tokens (prefix cache hits) per request', since: '1.6.1' },
  outputTokens: { name: 'dynamo_frontend_output_tokens_total', type: 'counter', labels: ['model'], help: 'Total number of output tokens generated (updates in real-time)', note: 'An event of a stream counts as one token; what the engine reports at its end beats that where it is more.' },
  timeToFirstToken: { name: 'dynamo_frontend_time_to_first_token_seconds', type: 'histogram', labels: ['model'], buckets: ttft, help: 'Time to first token in seconds', note: 'Of streams: a whole answer does not show when it began.' },
  interTokenLatency: { name: 'dynamo_frontend_inter_token_latency_seconds', type: 'histogram', labels: ['model'], buckets: itl, help: 'Inter-token latency in seconds' },
  embeddingLatency: { name: 'dynamo_frontend_embedding_latency_seconds', type: 'histogram', labels: ['model'], buckets: logBuckets(0.001, 10, 14), help: 'Embedding request latency in seconds', since: '1.3' },
  modelContextLength: { name: 'dynamo_frontend_model_context_length', type: 'gauge', labels: ['model'], help: 'Maximum context length in tokens for a worker serving the model' },
  modelKvCacheBlockSize: { name: 'dynamo_frontend_model_kv_cache_block_size', type: 'gauge', labels: ['model'], help: 'KV cache block size in tokens for a worker serving the model' },
  modelMaxNumBatchedTokens: { name: 'dynamo_frontend_model_max_num_batched_tokens', type: 'gauge', labels: ['model'], help: 'Maximum number of batched tokens for a worker serving the model' },
  modelMaxNumSeqs: { name: 'dynamo_frontend_model_max_num_seqs', type: 'gauge', labels: ['model'], help: 'Maximum number of sequences for a worker serving the model' },
  modelMigrationLimit: { name: 'dynamo_frontend_model_migration_limit', type: 'gauge', labels: ['model'], help: 'Maximum number of request migrations allowed for the model' },
  modelMigrations: { name: 'dynamo_frontend_model_migration_total', type: 'counter', labels: ['model', 'migration_type'], help: 'Total number of request migrations due to worker unavailability', since: '1.0', note: 'Always `new_request`: a request goes to another worker only before the first byte of its answer' },
  modelTotalKvBlocks: { name: 'dynamo_frontend_model_total_kv_blocks', type: 'gauge', labels: ['model'], help: 'Total KV cache blocks available for a worker serving the model' },
  modelReady: { name: 'dynamo_frontend_model_ready', type: 'gauge', labels: ['model'], help: 'Whether the frontend can route at least one inference request for the model (1 = ready, 0 = not ready)', since: '1.6.1' },
  modelRejection: { name: 'dynamo_frontend_model_rejection_total', type: 'counter', labels: ['model', 'endpoint'], help: 'Total number of requests rejected due to resource exhaustion', since: '1.1' },
  modelCancellation: { name: 'dynamo_frontend_model_cancellation_total', type: 'counter', labels: ['model', 'endpoint', 'request_type'], help: 'Total number of requests cancelled by their client', since: '1.1' },
  stageDuration: { name: 'dynamo_frontend_stage_duration_seconds', type: 'histogram', labels: ['stage'], buckets: stage, help: 'Pipeline stage duration (seconds)' },
  stageRequests: { name: 'dynamo_frontend_stage_requests', type: 'gauge', labels: ['stage', 'phase'], help: 'Number of requests currently in the given pipeline stage' },
  tokenizeSeconds: { name: 'dynamo_frontend_tokenize_seconds', type: 'histogram', labels: [], buckets: shortStage, help: 'Tokenization time in preprocessor (seconds)' },
  templateSeconds: { name: 'dynamo_frontend_template_seconds', type: 'histogram', labels: [], buckets: [0.00001, 0.00005, 0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05], help: 'Template application time in preprocessor (seconds)' },
  tokenizerLatency: { name: 'dynamo_frontend_tokenizer_latency_ms', type: 'histogram', labels: ['operation'], buckets: exponentialBuckets(0.5, 2, 11), help: 'Tokenizer latency in milliseconds' },
  eventLoopDelay: { name: 'dynamo_frontend_event_loop_delay_seconds', type: 'histogram', labels: [], buckets: [0, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1], help: 'Event loop delay canary: drift from 10ms sleep (seconds)' },
  eventLoopStall: { name: 'dynamo_frontend_event_loop_stall_total', type: 'counter', labels: [], help: 'Number of event loop stalls (delay > 5ms)' },
  workerActiveDecodeBlocks: { name: 'dynamo_frontend_worker_active_decode_blocks', type: 'gauge', labels: worker, help: 'Active KV cache decode blocks per worker' },
  workerActivePrefillTokens: { name: 'dynamo_frontend_worker_active_prefill_tokens', type: 'gauge', labels: worker, help: 'Active prefill tokens queued per worker' },
  workerLastInputSequenceTokens: { name: 'dynamo_frontend_worker_last_input_sequence_tokens', type: 'gauge', labels: worker, help: 'Last observed input sequence tokens per worker' },
  workerLastInterTokenLatency: { name: 'dynamo_frontend_worker_last_inter_token_latency_seconds', type: 'gauge', labels: worker, help: 'Last observed inter-token latency per worker (seconds)' },
  workerLastTimeToFirstToken: { name: 'dynamo_frontend_worker_last_time_to_first_token_seconds', type: 'gauge', labels: worker, help: 'Last observed time to first token per worker (seconds)', note: 'Of streams, and of remote prefills.' },
  queuePendingRequests: { name: 'dynamo_frontend_router_queue_pending_requests', type: 'gauge', labels: ['worker_type'], help: 'Number of requests pending in the router scheduler queue' },
  queuePendingIslTokens: { name: 'dynamo_frontend_router_queue_pending_isl_tokens', type: 'gauge', labels: ['worker_type'], help: 'Sum of isl_tokens for requests pending in the router scheduler queue' },
  queueBackpressure: { name: 'dynamo_frontend_router_queue_backpressure_total', type: 'counter', labels: ['model', 'policy_class', 'reason', 'worker_type'], help: 'Total number of router scheduler queue backpressure rejections', since: '1.6.1' },
  requestPlaneInflight: { name: 'dynamo_request_plane_inflight_requests', type: 'gauge', labels: [], help: 'Currently in-flight requests at AddressedPushRouter' },
  requestPlaneQueue: { name: 'dynamo_request_plane_queue_seconds', type: 'histogram', labels: [], buckets: shortStage, help: 'Time from generate() entry to send_request() (seconds)' },
  requestPlaneSend: { name: 'dynamo_request_plane_send_seconds', type: 'histogram', labels: [], buckets: shortStage, help: 'Time for send_request() to complete (seconds)' },
  requestPlaneRoundtrip: { name: 'dynamo_request_plane_roundtrip_ttft_seconds', type: 'histogram', labels: [], buckets: roundtrip, help: 'Time from send_request() to first response item (seconds)', note: 'To the first byte of the body: engines send the head before they compute.' },
  overheadBlockHashing: { name: 'dynamo_router_overhead_block_hashing_ms', type: 'histogram', labels: ['router_id'], buckets: compute, help: 'Time spent computing block hashes in milliseconds' },
  overheadFindMatches: { name: 'dynamo_router_overhead_indexer_find_matches_ms', type: 'histogram', labels: ['router_id'], buckets: awaited, help: 'Time spent in indexer find_matches in milliseconds' },
  overheadSeqHashing: { name: 'dynamo_router_overhead_seq_hashing_ms', type: 'histogram', labels: ['router_id'], buckets: compute, help: 'Time spent computing sequence hashes in milliseconds' },
  overheadScheduling: { name: 'dynamo_router_overhead_scheduling_ms', type: 'histogram', labels: ['router_id'], buckets: awaited, help: 'Time spent in scheduler worker selection in milliseconds' },
  overheadTotal: { name: 'dynamo_router_overhead_total_ms', type: 'histogram', labels: ['router_id'], buckets: awaited, help: 'Total routing overhead per request in milliseconds' },
  overheadSharedCache: { name: 'dynamo_router_overhead_shared_cache_query_ms', type: 'histogram', labels: ['router_id'], buckets: awaited, help: 'Time spent querying the shared KV cache in milliseconds' },
  sharedCacheErrors: { name: 'dynamo_router_shared_cache_errors_total', type: 'counter', labels: ['router_id'], help: 'Total shared cache query errors' },
  kvCacheEventsApplied: { name: 'dynamo_component_kv_cache_events_applied', type: 'counter', labels: [...component, 'event_type', 'status'], help: 'Total number of KV cache events applied to index' },
  kvCacheEventWarnings: { name: 'dynamo_component_kv_cache_event_warnings', type: 'counter', labels: [...component, 'warning_kind'], help: 'Total number of suspicious KV cache events seen by the router indexer' },
  routerRequests: { name: 'dynamo_component_router_requests_total', type: 'counter', labels: router, help: 'Total number of requests processed by the router' },
  routerRequestsStarted: { name: 'dynamo_component_router_requests_started_total', type: 'counter', labels: router, help: 'Total number of requests admitted by the router scheduler', since: '1.6.1' },
  routerTimeToFirstToken: { name: 'dynamo_component_router_time_to_first_token_seconds', type: 'histogram', labels: router, buckets: ttft, help: 'Time to first token observed at the router', note: 'Of streams, and of remote prefills.' },
  routerInterTokenLatency: { name: 'dynamo_component_router_inter_token_latency_seconds', type: 'histogram', labels: router, buckets: itl, help: 'Average inter-token latency observed at the router', note: 'As upstream: the mean so far, once for each block that the output grew by, so that a request counts as often as it filled a block; see `dynamo_frontend_inter_token_latency_seconds` for one observation per token.' },
  routerInputTokens: { name: 'dynamo_component_router_input_sequence_tokens', type: 'histogram', labels: router, buckets: isl, help: 'Input sequence length in tokens observed at the router' },
  routerOutputTokens: { name: 'dynamo_component_router_output_sequence_tokens', type: 'histogram', labels: router, buckets: osl, help: 'Output sequence length in tokens observed at the router' },
  routerKvHitRate: { name: 'dynamo_component_router_kv_hit_rate', type: 'histogram', labels: router, buckets: rate, help: 'Predicted KV cache hit rate at routing time (0.0-1.0)' },
  routerKvTransferLatency: { name: 'dynamo_component_router_kv_transfer_estimated_latency_seconds', type: 'histogram', labels: router, buckets: logBuckets(0.001, 10, 15), help: 'Upper-bound estimation of KV cache transfer latency in disaggregated serving (prefill_complete to first_token)', note: 'Of streams.' },
  routerSharedCacheHitRate: { name: 'dynamo_component_router_shared_cache_hit_rate', type: 'histogram', labels: router, buckets: rate, help: 'Fraction of request blocks found in the shared KV cache (0.0-1.0)' },
  routerSharedCacheBeyond: { name: 'dynamo_component_router_shared_cache_beyond_blocks', type: 'histogram', labels: router, buckets: exponentialBuckets(1, 2, 12), help: 'Shared cache blocks beyond device overlap for the selected worker' },
  routerNonMaxOverlap: { name: 'dynamo_component_router_non_max_overlap_selections_total', type: 'counter', labels: [...router, 'worker_type'], help: 'Total admitted prefill scheduler selections with less KV cache overlap than another eligible worker', since: '1.6.1' },
  routerOverlapLost: { name: 'dynamo_component_router_overlap_blocks_lost', type: 'histogram', labels: [...router, 'worker_type'], buckets: exponentialBuckets(0.25, 2, 16), help: 'Difference in effective KV cache overlap between the highest-overlap eligible prefill worker and selected worker', since: '1.6.1' },
  routerKvSelectedCached: { name: 'dynamo_component_router_kv_selected_cached_prefix_tokens_total', type: 'counter', labels: [...router, 'model', 'phase'], help: 'Raw cached prefix tokens on the selected worker and DP rank', since: '1.6.1' },
  routerKvWorkerReused: { name: 'dynamo_component_router_kv_worker_reused_tokens_total', type: 'counter', labels: [...router, 'model', 'phase'], help: 'Worker-reported reused tokens per routing attempt', since: '1.6.1' },
  routerWorkerRegistered: { name: 'dynamo_component_router_worker_registered', type: 'gauge', labels: [...component, 'dp_rank', 'router_worker_id', 'worker_type'], help: 'Whether the router currently has this worker/dp_rank registered (1 = registered)', since: '1.6.1' },
  uptime: { name: 'dynamo_component_uptime_seconds', type: 'gauge', labels: ['worker_id'], help: 'Total uptime of the DistributedRuntime in seconds' },
  workerMode: { name: 'warmroute_worker_mode', type: 'gauge', labels: ['model', 'worker', 'mode'], states: { label: 'mode', values: ['exact', 'degraded', 'approximate', 'load-only'] }, help: 'What is claimed about a worker, 1 for the mode that holds: exact, degraded, approximate or load-only.' },
  workerAvailable: { name: 'warmroute_worker_available', type: 'gauge', labels: ['model', 'worker'], help: 'Whether a worker may take requests: 0 while it drains or does not answer.' },
  workerInFlight: { name: 'warmroute_worker_in_flight_requests', type: 'gauge', labels: ['model', 'worker'], help: 'Requests that this gateway has under way on a worker.' },
  routedPromptTokens: { name: 'warmroute_routed_prompt_tokens_total', type: 'counter', labels: ['model', 'worker'], help: 'Prompt tokens sent to a worker.' },
  cachedTokensBySource: { name: 'warmroute_cached_tokens_total', type: 'counter', labels: ['model', 'worker', 'source'], help: 'Prompt tokens found in a cache, as predicted by us or as reported by the engine. Nothing is predicted where an engine with several ranks takes one by itself.' },
  comparedTokens: { name: 'warmroute_compared_cached_tokens_total', type: 'counter', labels: ['model', 'worker', 'source'], help: 'Cached prompt tokens, predicted and reported, of those requests for which both are known: not of batches, nor of prompts without tokens on exact workers, nor where an engine with several ranks takes one by itself.' },
  requestsShed: { name: 'warmroute_requests_shed_total', type: 'counter', labels: ['model', 'reason'], help: 'Requests refused before they reached a worker: busy, limit, not_ready, draining or queue.' },
  answersUnedited: { name: 'warmroute_answers_unedited_total', type: 'counter', labels: ['model'], help: 'Whole answers that were too long to be edited (over 16 MiB) and reached the client as the engine sent them.' },
  unreadableRequests: { name: 'warmroute_unreadable_requests_total', type: 'counter', labels: ['code'], help: 'Connections whose bytes were no request, by the code of the error that says why.' },
  unkeptRequests: { name: 'warmroute_unkept_requests_total', type: 'counter', labels: ['part'], help: 'Heads and short bodies that were read without having V8 keep their names and texts, which is slower: they had many new ones, or all requests since the last full collection had.' },
  responsesForgotten: { name: 'warmroute_stored_responses_forgotten_total', type: 'counter', labels: ['model'], help: 'Responses whose workers were forgotten because more than stored_responses_max were remembered.' },
  requestsRetried: { name: 'warmroute_requests_retried_total', type: 'counter', labels: ['model'], help: 'Requests that went to a second worker because the first failed before its first byte.' },
  prefillActivationFailures: { name: 'warmroute_prefill_activation_failures_total', type: 'counter', labels: ['model'], help: 'Times that the router among prefill workers could not be made; it is tried again each second.' },
  prefillLegs: { name: 'warmroute_prefill_legs_total', type: 'counter', labels: ['model', 'worker', 'outcome'], help: 'Remote prefills by worker: completed or failed.' },
  decodeLegs: { name: 'warmroute_decode_legs_total', type: 'counter', labels: ['model', 'worker', 'prefill'], help: 'Requests of a model with prefill workers by the worker that decoded them, and whether their prompt was computed elsewhere (remote) or there (local).' },
  remotePrefillSkipped: { name: 'warmroute_remote_prefill_skipped_total', type: 'counter', labels: ['model', 'reason'], help: 'Requests of a model with prefill workers whose prompt was computed where it was decoded, and why.' },
  prefillAnswers: { name: 'warmroute_prefill_answers_total', type: 'counter', labels: ['model'], help: 'Requests whose remote prefill ended the answer with its only token, so that nothing was decoded.' },
  prefillLegSeconds: { name: 'warmroute_prefill_leg_seconds', type: 'histogram', labels: ['model'], buckets: ttft, help: 'From dispatch of a remote prefill to its answer.' },
  kvTransferSeconds: { name: 'warmroute_kv_transfer_upper_bound_seconds', type: 'histogram', labels: ['model'], buckets: logBuckets(0.001, 10, 15), help: 'From the answer of a remote prefill to the first token of a stream: what the transfer took at most.' },
  decodeLegFirstToken: { name: 'warmroute_decode_leg_first_token_seconds', type: 'histogram', labels: ['model'], buckets: ttft, help: 'From dispatch of a decode whose prompt was computed elsewhere to its first token, of streams.' },
  prefillLeaseMissed: { name: 'warmroute_prefill_lease_missed_total', type: 'counter', labels: ['model'], help: 'Prefills made again because their decode could not be sent within the lease.' },
  heldKvReleased: { name: 'warmroute_held_kv_released_total', type: 'counter', labels: ['model', 'how'], help: 'KV held by prefill workers that nobody decoded from: read and thrown away (read), left to the end of its lease (lease), or its decode was sent and failed (decode_failed), so that the decode worker says so to the prefill worker, or the lease ends it.' },
  sessionNews: { name: 'warmroute_session_affinity_events_total', type: 'counter', labels: ['model', 'worker_type', 'outcome'], help: "News of where sessions live, between routers: ours sent or dropped on the way, others' applied or ignored." },
  prefillsLearned: { name: 'warmroute_prefills_learned_total', type: 'counter', labels: ['model', 'worker_type'], help: 'Prefills from which it was learned how long they take (policy warm, or prefill_times: online): those of streams, and remote ones.' },
  prefillEstimateError: { name: 'warmroute_prefill_estimate_error_ratio', type: 'gauge', labels: ['model', 'worker_type'], help: 'Usual relative error of a learned prefill time: 0.1 is ten percent.' },
  indexBytes: { name: 'warmroute_index_bytes', type: 'gauge', labels: ['model'], help: 'Memory that the index uses, over all tiers.' },
  indexEvicted: { name: 'warmroute_index_evicted_blocks_total', type: 'counter', labels: ['model'], help: 'Blocks that the index forgot because of its caps, over all tiers.' },
  tokenizedPrompts: { name: 'warmroute_tokenized_prompts_total', type: 'counter', labels: ['model', 'source', 'exactness'], help: 'Prompts whose tokens are known: from the request itself, our tokenizer or the engine; proven by it or by recordings, or expected by its rules, or by our clock where a template shows the date. Where vLLM and SGLang serve one model, a prompt counts for each of them.' },
  loadOnlyPrompts: { name: 'warmroute_load_only_prompts_total', type: 'counter', labels: ['model', 'reason'], help: 'Prompts whose tokens cannot be known, by why: their caches are not looked for by tokens. Where vLLM and SGLang serve one model, a prompt counts for each of them.' },
  countedPrompts: { name: 'warmroute_counted_prompts_total', type: 'counter', labels: ['model', 'result'], help: 'Prompts whose tokens the engine counted, too: as many as we made of them (equal), or not (different).' },
  tokenSource: { name: 'warmroute_token_source', type: 'gauge', labels: ['model', 'source', 'encoder'], help: 'Where the tokens of a model come from, 1 for the source that serves it: configured, folder, hub-cache, hub, engine or none.' },
  tokenCacheHits: { name: 'warmroute_token_cache_hits_total', type: 'counter', labels: ['model', 'cache'], help: 'Lookups that a token cache answered: pieces, segments, thread_pieces and thread_segments (those of the tokenizer threads), texts (earlier prompts, of the engine too), ids (beginnings of earlier answers of the engine), answers (what an engine said of media, beside the files of the model), renderings (earlier conversations) or ends (texts of which an engine is asked only the new end); texts and ids of an engine of another kind that serves the same model begin with its kind (sglang_texts).' },
  tokenCacheMisses: { name: 'warmroute_token_cache_misses_total', type: 'counter', labels: ['model', 'cache'], help: 'Lookups that a token cache did not answer.' },
  tokenCacheEvictions: { name: 'warmroute_token_cache_evictions_total', type: 'counter', labels: ['model', 'cache'], help: 'Entries that left a token cache to make room.' },
  tokenCacheBytes: { name: 'warmroute_token_cache_bytes', type: 'gauge', labels: ['model'], help: 'Bytes that the token caches of a model hold, those of the threads included.' },
  encodedTexts: { name: 'warmroute_encoded_texts_total', type: 'counter', labels: ['model', 'place'], help: 'Texts that were encoded, on the event loop or in a thread.' },
  refutedTemplates: { name: 'warmroute_refuted_templates_total', type: 'counter', labels: ['model'], help: 'Chat templates that are rendered in full because a continued rendering differed. Anything but 0 is a bug.' },
  tokenizerReplacements: { name: 'warmroute_tokenizer_replacements_total', type: 'counter', labels: ['model', 'outcome'], help: 'Tokenizers that an admin replaced while running, or that were refused: then the one before serves on.' },
  engineEnds: { name: 'warmroute_engine_prompts_total', type: 'counter', labels: ['model', 'asked'], help: 'Prompts that an engine tokenized and whose text we know: only the new end was asked for (end), or all (whole); ends that were checked by asking for all, too (checked), and those that differed (refuted), after which only wholes are asked for.' },
  tokenizerTasks: { name: 'warmroute_tokenizer_tasks_total', type: 'counter', labels: ['outcome'], help: 'Tasks of the tokenizer threads: done, failed, refused because too many waited, or ended at a deadline.' },
  indexBlocks: { name: 'warmroute_index_blocks', type: 'gauge', labels: ['model'], help: 'Blocks that the index holds, over all workers.' },
  eventLag: { name: 'warmroute_event_lag_seconds', type: 'gauge', labels: ['dp_rank', 'model', 'worker'], help: "How old the newest live batch of KV events was when it was applied: our clock less the engine's." },
  eventState: { name: 'warmroute_event_state', type: 'gauge', labels: ['dp_rank', 'model', 'state', 'worker'], states: { label: 'state', values: ['connecting', 'recovering', 'live', 'suspect', 'gone'] }, help: "What is believed of a rank's event stream, 1 for the state that holds: connecting, recovering, live, suspect or gone." },
  eventSequence: { name: 'warmroute_event_last_sequence', type: 'gauge', labels: ['dp_rank', 'model', 'worker'], help: 'Number of the last batch of KV events that was applied; -1 before the first.' },
  eventBlocks: { name: 'warmroute_event_blocks', type: 'gauge', labels: ['dp_rank', 'model', 'worker'], help: 'Distinct blocks that a rank says it holds on its device.' },
  eventsApplied: { name: 'warmroute_events_total', type: 'counter', labels: ['dp_rank', 'model', 'worker'], help: 'KV events applied.' },
  eventBatches: { name: 'warmroute_event_batches_total', type: 'counter', labels: ['dp_rank', 'model', 'worker'], help: 'Batches of KV events applied.' },
  eventGaps: { name: 'warmroute_event_gaps_total', type: 'counter', labels: ['dp_rank', 'model', 'worker'], help: 'Times that batches of KV events were missing.' },
  eventReplays: { name: 'warmroute_event_replays_total', type: 'counter', labels: ['dp_rank', 'model', 'worker'], help: 'Replays of KV events that were asked for, to fill gaps, to join and to look whether the last batch arrived.' },
  eventDropped: { name: 'warmroute_event_dropped_frames_total', type: 'counter', labels: ['dp_rank', 'model', 'worker'], help: 'Frames of KV events that were not read: a flood outran a replay, or their connection was over. What they told is replayed or purged.' },
  eventRestarts: { name: 'warmroute_event_restarts_total', type: 'counter', labels: ['dp_rank', 'model', 'worker'], help: 'Times that an engine was seen to be another process.' },
  eventPurges: { name: 'warmroute_event_purges_total', type: 'counter', labels: ['dp_rank', 'model', 'reason', 'worker'], help: 'Times that all knowledge of a rank was dropped, by reason.' },
  eventDecodeErrors: { name: 'warmroute_event_decode_errors_total', type: 'counter', labels: ['dp_rank', 'model', 'reason', 'worker'], help: 'Frames and replies of an event stream that could not be read, by reason.' },
  loadPolls: { name: 'warmroute_load_polls_total', type: 'counter', labels: ['outcome'], help: "Looks at engines' own figures of their load: read, refused (another status than 200), or unanswered in time." },
  decisionLogLines: { name: 'warmroute_decision_log_lines_total', type: 'counter', labels: ['outcome'], help: 'Requests for the decision log: written, or dropped because nothing of their prompts was compared or the disk did not take them.' },
  snapshotSaves: { name: 'warmroute_snapshot_saves_total', type: 'counter', labels: ['outcome'], help: 'Snapshots of what is known of caches: saved or failed.' },
  snapshotRanks: { name: 'warmroute_snapshot_ranks_total', type: 'counter', labels: ['outcome'], help: "Ranks found in the snapshot of the process before: restored when the engine proved it, unproved when it could not, or why it was not tried." },
  snapshotKept: { name: 'warmroute_snapshot_kept_ranks', type: 'gauge', labels: [], help: 'Ranks that could not be read for the last snapshot, and keep the part that the one before has.' },
  snapshotBytes: { name: 'warmroute_snapshot_bytes', type: 'gauge', labels: [], help: 'Size of the last snapshot.' },
  snapshotPause: { name: 'warmroute_snapshot_pause_seconds', type: 'gauge', labels: [], help: 'Longest time for which the last snapshot held the event loop at once.' },
  loopDelay: { name: 'warmroute_event_loop_delay_seconds', type: 'gauge', labels: ['quantile'], help: 'Delay of the event loop since the last scrape.' },
  droppedSeries: { name: 'warmroute_telemetry_dropped_series', type: 'gauge', labels: [], help: 'Metric series that are not shown because their family reached its limit.' },
} as const satisfies Record<string, MetricRow>

export type MetricKey = keyof typeof catalogue

/** Families that `warmroute serve` shows and never moves, because nothing in it has the value yet. */
export const idle: Readonly<Partial<Record<MetricKey, string>>> = {
  overheadSharedCache: 'no shared cache is attached; a router that is given one observes it',
  sharedCacheErrors: 'no shared cache is attached; a router that is given one counts them',
  routerSharedCacheHitRate: 'no shared cache is attached; a router that is given one observes it',
  routerSharedCacheBeyond: 'no shared cache is attached; a router that is given one observes it',
}

/** Families of the recorded 1.2.1 and 1.6.1 systems that we do not expose, and why. */
export const leftOut: Readonly<Record<string, string>> = {
  dynamo_frontend_detokenize_token_count: 'the engine detokenizes; its bytes are relayed untouched',
  dynamo_frontend_detokenize_total_us: 'the engine detokenizes; its bytes are relayed untouched',
  dynamo_tokio_: 'describes the Rust runtime; the event loop has dynamo_frontend_event_loop_delay_seconds',
  dynamo_transport_tcp_: 'there is no request plane of our own: engines are reached over HTTP',
  dynamo_component_ckf_: '1.6.1: outcomes of another index; ours are in dynamo_component_kv_cache_events_applied',
  dynamo_component_router_active_sequence_:
    '1.6.1: workers announce their running requests; stock engines do not, and warmroute_event_ families have the streams that they do send',
  dynamo_component_router_approximate_:
    '1.6.1: predictions here end by time and by what is known of a cache, without a queue or leases; warmroute_worker_mode says where they stand in for events',
  dynamo_component_router_kv_best_eligible_cached_prefix_tokens_total:
    '1.6.1: what the best worker holds is worked out where it is asked for (receipts, prefill workers), not for every request',
  dynamo_component_router_kv_event_source_mismatch_workers:
    '1.6.1: compares announcements of discovery; warmroute_worker_mode and warmroute_event_state say of every worker what is known of its cache',
  dynamo_component_router_kv_zmq_ingress_:
    '1.6.1: sums over streams whose states are others; warmroute_event_ families have every stream with its own',
  dynamo_frontend_audio_per_request:
    '1.6.1: a body is read for its tokens only, by parts that differ between engines; what it holds of media is not counted',
  dynamo_frontend_images_per_request: '1.6.1: likewise',
  dynamo_frontend_videos_per_request: '1.6.1: likewise',
  dynamo_frontend_image_tokens_per_request: '1.6.1: likewise; how many tokens an image has the engine decides',
  dynamo_frontend_failures_total:
    '1.6.1: classes of its own errors; dynamo_frontend_requests_total has error_type, warmroute_requests_shed_total the reasons',
  dynamo_frontend_router_admission_:
    '1.6.1: admission by deadlines, which do not exist here; dynamo_component_router_requests_started_total counts who was admitted',
  dynamo_frontend_router_queue_pending_cached_tokens:
    '1.6.1: the queue counts it by class for its limits, and tells nobody',
  dynamo_frontend_tokenizer_cache_:
    '1.6.1: one cache of prefixes; here there are several, with hits and misses of their own in warmroute_token_cache_ families',
}
