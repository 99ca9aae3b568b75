/**
 * What a request must carry so that an engine does what the router decided: which rank, which priority, which id. Headers
 * where the engine reads headers, so that the client's body stays untouched; body fields only where there is no header.
 */
import type { EngineKind } from './engine-facts.js'

export interface ControlInput {
  readonly engine: EngineKind
  /** Route on the engine, for instance `/v1/chat/completions`. */
  readonly path: string
  /** Undefined: the engine serves one rank, or each rank has an address of its own. */
  readonly dpRank?: number | undefined
  readonly requestId?: string | undefined
  readonly sessionId?: string | undefined
  /** A session that was opened inside this engine: the request becomes part of it. */
  readonly openSessionId?: string | undefined
  /** Ours: a larger number is more urgent. */
  readonly priority?: number | undefined
}

/** What stands in a field: JSON. */
export type ControlValue = string | number | Readonly<Record<string, string>>

export interface RequestControls {
  readonly headers: Readonly<Record<string, string>>
  /** To be put into the body, in place of fields of the same name. */
  readonly fields: Readonly<Record<string, ControlValue>>
  /** Names the client may not set: they steer the engine's ranks or its transfers. */
  readonly strip: readonly string[]
  /** False: the engine ignores a rank on this route and will choose for itself. */
  readonly isPinned: boolean
}

/**
 * Never the client's to send. A vLLM decoder that gets `do_remote_prefill` without block ids ends its engine process
 * (seen on 0.32.0), and rank or room fields would undo the router's choice.
 */
const clientMayNotSet: Readonly<Partial<Record<EngineKind, readonly string[]>>> = {
  vllm: ['kv_transfer_params'],
  sglang: [
    'bootstrap_host',
    'bootstrap_port',
    'bootstrap_room',
    'routed_dp_rank',
    'data_parallel_rank',
    'disagg_prefill_dp_rank',
    'session_params',
  ],
  trtllm: ['disaggregated_params'],
}

const vllmPinnedPaths = new Set(['/v1/chat/completions', '/v1/completions', '/v1/messages', '/inference/v1/generate'])
const sglangSessionPaths = new Set(['/generate', '/v1/chat/completions', '/v1/completions'])
const sglangHeaderPaths = new Set(['/v1/chat/completions', '/v1/completions', '/v1/messages'])

/** Whether the engine lets a request name its rank on this route; on the others it takes one by itself. */
export function takesRank(engine: EngineKind, path: string): boolean {
  if (engine === 'vllm') return vllmPinnedPaths.has(path)
  return engine === 'sglang' && (sglangHeaderPaths.has(path) || path === '/generate')
}

export function requestControls(input: ControlInput): RequestControls {
  const headers: Record<string, string> = {}
  const fields: Record<string, ControlValue> = {}
  const strip = [...(clientMayNotSet[input.engine] ?? [])]
  const dpRank = takesRank(input.engine, input.path) ? input.dpRank : undefined
  if (input.engine === 'vllm') {
    if (dpRank !== undefined) headers['x-data-parallel-rank'] = String(dpRank)
    if (input.requestId) headers['x-request-id'] = input.requestId
    if (input.sessionId) headers['x-session-id'] = input.sessionId
    if (input.priority !== undefined) headers['x-vllm-priority'] = String(-input.priority) // lower runs first there
  } else if (input.engine === 'sglang') {
    if (dpRank !== undefined && input.path === '/generate') fields['routed_dp_rank'] = dpRank
    else if (dpRank !== undefined) headers['x-data-parallel-rank'] = String(dpRank)
    // Without `rid` the prompt stands for itself: clients send the whole conversation, and nothing is put in front of it.
    if (input.openSessionId && sglangSessionPaths.has(input.path)) {
      fields['session_params'] = { id: input.openSessionId }
      if (input.path === '/generate') strip.push('session_id') // which it refuses beside the other
    }
    if (input.requestId) fields['rid'] = input.requestId
    if (input.priority !== undefined) fields['priority'] = input.priority // higher runs first there
  }
  // TensorRT-LLM refuses unknown fields, so nothing is added for it or for engines that we know less of.
  return { headers, fields, strip, isPinned: dpRank === input.dpRank }
}

/** Below the 5 s after which engines close an idle connection: a socket reused at that moment would be reset. */
export const engineKeepAliveMs = 4000
