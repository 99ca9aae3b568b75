/**
 * The router as a service: one JSON request, one JSON answer, tagged by `method`. Follows `RouterRequest` and
 * `RouterResponse` of lib/kv-router/src/protocols.rs at v1.2.0; members that 1.5.0-dev added are read where present.
 * Ids are bare 64-bit integers, so both ways go through the lossless codec.
 */
import type { JsonInput, JsonObject, JsonValue, MmExtraInfo, WorkerRank } from '../core/protocol/index.js'
import { parseLosslessJson, readMmInfo, stringifyLosslessJson, WarmrouteError } from '../core/protocol/index.js'
import type { QueueRejection } from '../core/queue/index.js'

export interface NewRequest {
  readonly method: 'new'
  readonly tokens: Uint32Array
  readonly blockMmInfos?: readonly (MmExtraInfo | null)[] | undefined
  readonly priorityJump?: number | undefined
  readonly strictPriority?: number | undefined
  readonly loraName?: string | undefined
  readonly cacheNamespace?: string | undefined
  readonly requiredTaints?: readonly string[] | undefined
  readonly preferredTaints?: Readonly<Record<string, number>> | undefined
}

/** What surrounds a request. */
export interface RequestContext {
  /** Names the request, unless the request names another. */
  readonly id: string
  /** From the metadata of the stream. */
  readonly policyClass?: string | undefined
  readonly signal?: AbortSignal | undefined
}

export type RouterRequest =
  | NewRequest
  | { readonly method: 'mark_prefill'; readonly requestId?: string | undefined }
  | { readonly method: 'mark_free'; readonly requestId?: string | undefined }
  | ({ readonly method: 'potential_loads' } & Pick<
      NewRequest,
      'tokens' | 'blockMmInfos' | 'loraName' | 'cacheNamespace'
    >)

export type RouterResponse =
  | { readonly method: 'new'; readonly worker: WorkerRank; readonly overlapBlocks: number }
  | { readonly method: 'prefill_marked' | 'free_marked'; readonly success: boolean }
  | { readonly method: 'queue_rejected'; readonly rejection: QueueRejection }
  | {
      readonly method: 'potential_loads'
      readonly loads: readonly (WorkerRank & {
        readonly potentialPrefillTokens: number
        readonly potentialDecodeBlocks: number
        readonly activeRequests: number
      })[]
      readonly pendingCount: number
      readonly pendingIslTokens: number
    }

/** `tokens` stand for those of the text, where whoever reads it has read them already. Throws `WR_INVALID_JSON` or `WR_INVALID_ARGUMENT`. */
export function parseRouterRequest(text: string, tokens?: Uint32Array): RouterRequest {
  const value = parseLosslessJson(text)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw refused('a request is an object')
  const { method } = value
  if (method === 'new') return readNew(value, tokens)
  if (method === 'mark_prefill' || method === 'mark_free')
    return { method, requestId: optionalText(value, 'request_id') }
  if (method === 'potential_loads') return { method, ...readPrompt(value, tokens) }
  throw refused('method must be new, mark_prefill, mark_free or potential_loads')
}

export function stringifyRouterResponse(response: RouterResponse): string {
  return stringifyLosslessJson(toWire(response))
}

/** An id that is absent or blank means the context's own. */
export function requestIdOr(contextId: string, requestId: string | undefined): string {
  return requestId === undefined || requestId.trim() === '' ? contextId : requestId
}

function readNew(value: JsonObject, tokens: Uint32Array | undefined): NewRequest {
  const constraints = value['routing_constraints'] ?? null
  return {
    method: 'new',
    ...readPrompt(value, tokens),
    priorityJump: optionalNumber(value, 'priority_jump'),
    strictPriority: optionalNumber(value, 'strict_priority'),
    ...(constraints === null ? {} : readConstraints(constraints)),
  }
}

function readPrompt(
  value: JsonObject,
  tokens: Uint32Array | undefined,
): Pick<NewRequest, 'tokens' | 'blockMmInfos' | 'loraName' | 'cacheNamespace'> {
  const infos = value['block_mm_infos'] ?? null
  if (infos !== null && !Array.isArray(infos)) throw refused('block_mm_infos must be a list')
  return {
    tokens: tokens ?? readTokens(value['tokens']),
    blockMmInfos: infos === null ? undefined : infos.map((info, index) => readInfo(info, index)),
    loraName: optionalText(value, 'lora_name'),
    cacheNamespace: optionalText(value, 'cache_namespace'),
  }
}

function readConstraints(value: JsonValue): Pick<NewRequest, 'requiredTaints' | 'preferredTaints'> {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw refused('routing_constraints must be an object')
  const required = value['required_taints'] ?? []
  const preferred = value['preferred_taints'] ?? {}
  if (!Array.isArray(required) || required.some((it) => typeof it !== 'string'))
    throw refused('required_taints must be a list of texts')
  if (typeof preferred !== 'object' || preferred === null || Array.isArray(preferred))
    throw refused('preferred_taints must be an object')
  const weights = Object.keys(preferred).map((taint) => [taint, optionalNumber(preferred, taint) ?? 0] as const)
  return { requiredTaints: required as string[], preferredTaints: Object.fromEntries(weights) }
}

function readInfo(value: JsonValue, index: number): MmExtraInfo | null {
  try {
    return value === null ? null : readMmInfo(value, `block_mm_infos[${index}]`)
  } catch (cause) {
    throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: (cause as Error).message }, { cause })
  }
}

function readTokens(value: JsonValue | undefined): Uint32Array {
  if (!Array.isArray(value)) throw refused('tokens must be a list')
  const tokens = new Uint32Array(value.length)
  for (let index = 0; index < value.length; index++) {
    const token = value[index]
    if (typeof token !== 'bigint' || token < 0n || token > 0xffff_ffffn) throw refused(`tokens[${index}] is no token`)
    tokens[index] = Number(token)
  }
  return tokens
}

function optionalText(value: JsonObject, key: string): string | undefined {
  const text = value[key] ?? undefined
  if (text !== undefined && typeof text !== 'string') throw refused(`${key} must be a text`)
  return text
}

function optionalNumber(value: JsonObject, key: string): number | undefined {
  const number = value[key] ?? undefined
  if (number === undefined) return undefined
  if (typeof number !== 'number' && typeof number !== 'bigint') throw refused(`${key} must be a number`)
  return Number(number)
}

function toWire(response: RouterResponse): JsonInput {
  switch (response.method) {
    case 'new': {
      const { worker, overlapBlocks } = response
      return { method: 'new', worker_id: worker.workerId, dp_rank: worker.dpRank, overlap_blocks: overlapBlocks }
    }
    case 'prefill_marked':
    case 'free_marked':
      return { method: response.method, success: response.success }
    case 'queue_rejected': {
      const { policyClass, limitKind, current, limit } = response.rejection
      return {
        method: 'queue_rejected',
        rejection: { policy_class: policyClass, limit_kind: limitKind, current, limit },
      }
    }
    case 'potential_loads':
      return {
        method: 'potential_loads',
        loads: response.loads.map((load) => ({
          worker_id: load.workerId,
          dp_rank: load.dpRank,
          potential_prefill_tokens: load.potentialPrefillTokens,
          potential_decode_blocks: load.potentialDecodeBlocks,
          active_requests: load.activeRequests,
        })),
        pending_count: response.pendingCount,
        pending_isl_tokens: response.pendingIslTokens,
      }
  }
}

function refused(reason: string): WarmrouteError {
  return new WarmrouteError('WR_INVALID_ARGUMENT', { reason })
}
