/**
 * What bodies look like, for `/openapi.json`. Of a request to an engine only what is read here is described, and the rest
 * passes; what we answer is described whole, and the tests hold real answers against it.
 */
import { z } from 'zod'
import { connectors, engineKinds } from '../../engines/index.js'
import { workerRoles } from '../options.js'
import { engineControlFields } from '../request/engine-fields.js'
import type { RankReport } from '../workers/rank-report.js'
import type { WorkerReport } from '../workers/worker.js'

/** More than a number of JavaScript holds. */
const id64 = z.any().meta({ type: 'integer', format: 'uint64' })
const idText = z.string().regex(/^[0-9]{1,20}$/)
const count = z.number().int().min(0)
const token = z.number().int().min(0).max(0xffff_ffff)
const rank = token
const texts = z.array(z.string())
const textMap = z.record(z.string(), z.string())
const counts = z.record(z.string(), count)

// ---- what clients send

const taints = z.looseObject({
  required_taints: texts.optional(),
  preferred_taints: z.record(z.string(), z.number()).optional(),
})

const nvext = z
  .looseObject({
    backend_instance_id: id64.optional(),
    decode_worker_id: id64.optional(),
    prefill_worker_id: id64.optional(),
    dp_rank: rank.optional(),
    prefill_dp_rank: rank.optional(),
    token_data: z.array(token).optional().describe('The prompt as token ids'),
    annotations: texts
      .optional()
      .describe('`query_instance_id:` is a dry run: the choice is answered and nothing sent'),
    extra_fields: z.array(z.string()).optional().describe('`worker_id`, `timing`: what is added to the answer'),
    cache_salt: z.string().optional(),
    agent_hints: z
      .looseObject({
        priority: z.number().int().optional(),
        strict_priority: count.optional(),
        latency_sensitivity: z.number().optional(),
        osl: count.optional(),
      })
      .optional(),
    routing_constraints: taints.optional(),
    session_control: z
      .looseObject({
        session_id: z.string(),
        action: z.enum(['open', 'close']).optional(),
        timeout: z.number().int().min(1).optional(),
      })
      .optional(),
  })
  .describe('Addressed to the gateway, and taken out before an engine sees the body')

/** Of every body that ends in an engine. */
const common = {
  model: z.string().optional().describe('May be left out where one model is served'),
  cache_salt: z.string().optional(),
  nvext: nvext.optional(),
}
const streamed = {
  ...common,
  stream: z.boolean().optional(),
  stream_options: z.looseObject({ include_usage: z.boolean().optional() }).nullish(),
}
const passes = `Passed on as it came, but for nvext and, unless configured otherwise, ${engineControlFields.join(', ')}`
const messages = z.array(z.looseObject({}))
const tools = z.array(z.looseObject({})).optional()
const prompt = z.union([z.string(), texts, z.array(token), z.array(z.array(token))])

const requests = {
  ChatCompletionRequest: z.looseObject({ ...streamed, messages, tools }).describe(passes),
  CompletionRequest: z.looseObject({ ...streamed, prompt }).describe(passes),
  ResponseRequest: z
    .looseObject({ ...streamed, input: z.union([z.string(), messages]), instructions: z.string().nullish(), tools })
    .describe(passes),
  MessageRequest: z
    .looseObject({ ...streamed, messages, system: z.union([z.string(), messages]).optional(), tools })
    .describe(passes),
  GenerateRequest: z
    .looseObject({
      ...streamed,
      text: z.union([z.string(), texts]).optional(),
      input_ids: z.union([z.array(token), z.array(z.array(token))]).optional(),
    })
    .describe(passes),
  EmbeddingRequest: z.looseObject({ ...common, input: prompt }).describe(passes),
  EngineRequest: z.looseObject(common).describe(passes),
}

// ---- what we answer

const role = z.enum(workerRoles)

const rankReport = z.strictObject({
  dp_rank: rank,
  state: z.string(),
  is_complete: z.boolean(),
  last_sequence: z.number().int().min(-1),
  lag_seconds: z.number().nullable(),
  last_batch_age_seconds: z.number().nullable(),
  events_per_second: z.number(),
  blocks: count,
  batches: count,
  events: count,
  gaps: count,
  restarts: count,
  replays: count,
  replay_failures: count,
  overruns: count,
  dropped_frames: count,
  stale_frames: count,
  purges: counts,
  decode_errors: counts,
  passed_over: counts,
  removed_blocks: count,
  doubled_blocks: count,
  kept_copies: count,
  unknown_removals: count,
  unrooted_stores: count,
  rank_mismatches: count,
}) satisfies z.ZodType<RankReport>

const worker = z.strictObject({
  id: idText,
  url: z.string(),
  model: z.string(),
  engine: z.enum(engineKinds),
  state: z.enum(['ready', 'draining', 'gone']),
  mode: z.enum(['exact', 'degraded', 'approximate', 'load-only']),
  role,
  is_quarantined: z.boolean(),
  in_flight: count,
  faults: count,
  data_parallel_start_rank: rank,
  data_parallel_size: count,
  ranks: z.array(rankReport),
}) satisfies z.ZodType<WorkerReport>
const absentWorker = z.strictObject({
  id: idText,
  url: z.string(),
  model: z.string().optional(),
  state: z.literal('waiting'),
  reason: z.string(),
})

const thresholds = {
  active_decode_blocks_threshold: z.number().min(0).max(1).nullable(),
  active_prefill_tokens_threshold: count.nullable(),
  active_prefill_tokens_threshold_frac: z.number().min(0).nullable(),
}
const modelThresholds = z.strictObject({ model: z.string(), ...thresholds })

const openAiModel = z.strictObject({
  id: z.string(),
  object: z.literal('model'),
  created: count,
  owned_by: z.string(),
  context_window: count.optional(),
})
const anthropicModel = z.looseObject({
  type: z.literal('model'),
  id: z.string(),
  display_name: z.string(),
  created_at: z.string(),
  max_input_tokens: count.nullable(),
})

const readiness = {
  ready: z.boolean(),
  reason: z.string().optional(),
}

const routedPrompt = {
  tokens: z.array(token),
  lora_name: z.string().nullish(),
  cache_namespace: z.string().nullish(),
  block_mm_infos: z.array(z.looseObject({}).nullable()).nullish(),
}

const answers = {
  Error: z
    .strictObject({
      error: z.strictObject({
        message: z.string(),
        type: z.string(),
        code: z.string().describe('One of docs/reference/errors.md'),
        param: z.string().nullable(),
      }),
    })
    .describe("OpenAI's envelope; an engine's own error reaches the client as the engine sent it"),
  AnthropicError: z.strictObject({
    type: z.literal('error'),
    error: z.strictObject({ type: z.string(), message: z.string() }),
  }),
  DynamoError: z
    .strictObject({
      message: z.string(),
      type: z.string(),
      code: z.number().int(),
      details: z.looseObject({}).optional(),
    })
    .describe('In place of Error with `strict: dynamo`'),
  ThresholdError: z.strictObject({ error: z.string() }),
  Model: z.union([openAiModel, anthropicModel]).describe("Anthropic's shape for requests with anthropic-version"),
  ModelList: z.union([
    z.strictObject({ object: z.literal('list'), data: z.array(openAiModel) }),
    z.strictObject({
      data: z.array(anthropicModel),
      has_more: z.boolean(),
      first_id: z.string().nullable(),
      last_id: z.string().nullable(),
    }),
  ]),
  ModelReadiness: z.strictObject({
    model: z.string(),
    ...readiness,
    namespaces: z.record(
      z.string(),
      z.strictObject({
        ...readiness,
        worker_types: z.record(z.string(), z.strictObject({ workers: count, needs: z.array(z.array(role)) })),
        present: z.array(role),
        missing_worker_types: z.array(role),
      }),
    ),
  }),
  OpenApi: z.looseObject({ openapi: z.string(), paths: z.looseObject({}) }),
  Live: z.strictObject({ status: z.string(), message: z.string() }),
  Health: z.strictObject({
    status: z.literal('healthy'),
    endpoints: texts,
    instances: z.array(
      z.strictObject({ model: z.string(), instance_id: idText, state: z.string(), is_available: z.boolean() }),
    ),
  }),
  NotHealthy: z.strictObject({ status: z.literal('not_ready'), stage: z.string(), message: z.string() }),
  Readiness: z.strictObject({
    status: z.enum(['ready', 'not_ready']),
    models: z.array(z.strictObject({ model: z.string(), ready: z.boolean() })),
  }),
  BusyThresholds: z.strictObject({ thresholds: z.array(modelThresholds) }),
  ModelThresholds: modelThresholds,
  WorkerList: z.strictObject({ workers: z.array(z.union([worker, absentWorker])) }),
  JoinedWorker: z.strictObject({ worker }),
  WaitingWorker: z.strictObject({ worker: absentWorker }),
  WorkerState: z.strictObject({ id: idText, state: z.enum(['draining', 'gone']) }),
  TokenizerStatus: z.strictObject({
    model: z.string(),
    source: z.string(),
    from: z.string().nullable(),
    encoder: z.enum(['own', 'library', 'engine', 'none']),
    asks: z.enum(['ends', 'whole']).nullable(),
    reason: z.string().nullable(),
    unaskable: z.string().nullable(),
    load_only: z.string().nullable(),
    trouble: z.string().nullable(),
    tried: texts,
  }),
  RouterResponse: z.union([
    z.strictObject({ method: z.literal('new'), worker_id: id64, dp_rank: rank, overlap_blocks: count }),
    z.strictObject({ method: z.enum(['prefill_marked', 'free_marked']), success: z.boolean() }),
    z.strictObject({
      method: z.literal('queue_rejected'),
      rejection: z.strictObject({ policy_class: z.string(), limit_kind: z.string(), current: count, limit: count }),
    }),
    z.strictObject({
      method: z.literal('potential_loads'),
      loads: z.array(
        z.strictObject({
          worker_id: id64,
          dp_rank: rank,
          potential_prefill_tokens: count,
          potential_decode_blocks: count,
          active_requests: count,
        }),
      ),
      pending_count: count,
      pending_isl_tokens: count,
    }),
  ]),
}

// ---- what admins send

const orders = {
  ThresholdChange: z
    .looseObject({ model: z.string(), ...thresholds })
    .partial({
      active_decode_blocks_threshold: true,
      active_prefill_tokens_threshold: true,
      active_prefill_tokens_threshold_frac: true,
    })
    .describe('What is left out stays; null takes a limit back'),
  NewWorker: z.looseObject({
    model: z.string(),
    url: z.string(),
    engine: z.enum(engineKinds).optional(),
    id: z.union([idText, id64]).optional(),
    api_key: z.string().optional(),
    served_model: z.string().optional(),
    data_parallel_size: count.optional(),
    data_parallel_start_rank: rank.optional(),
    total_kv_blocks: count.optional(),
    max_num_batched_tokens: count.optional(),
    taints: texts.optional(),
    events: z.string().optional(),
    replay: z.string().optional(),
    role: role.optional(),
    labels: textMap.optional(),
    block_size: count.optional(),
    connector: z.enum(connectors).optional(),
    transfer_host: z.string().optional(),
    transfer_port: count.optional(),
    engine_ids: texts.optional(),
    tp_size: count.optional(),
    pp_size: count.optional(),
    kv_lease_ms: count.optional(),
    topology_domains: textMap.optional(),
    kv_transfer_domain: z.string().optional(),
    kv_transfer_enforcement: z.enum(['required', 'preferred']).optional(),
    kv_transfer_preferred_weight: z.number().optional(),
  }),
  TokenizerChange: z.strictObject({ path: z.string().nullish().describe("A folder on the router's machine") }),
  RouterRequest: z.union([
    z.looseObject({
      method: z.literal('new'),
      ...routedPrompt,
      priority_jump: z.number().nullish(),
      strict_priority: count.nullish(),
      routing_constraints: taints.nullish(),
    }),
    z.looseObject({ method: z.enum(['mark_prefill', 'mark_free']), request_id: z.string().nullish() }),
    z.looseObject({ method: z.literal('potential_loads'), ...routedPrompt }),
  ]),
}

export const shapes = { ...requests, ...answers, ...orders }
export type ShapeName = keyof typeof shapes

/** `components.schemas` of OpenAPI 3.1, whose schemas are JSON Schema's. */
export function componentSchemas(): Record<string, object> {
  return Object.fromEntries(
    Object.entries(shapes).map(([name, shape]) => {
      const { $schema: _, ...schema } = z.toJSONSchema(shape)
      return [name, schema]
    }),
  )
}
