/**
 * What the two legs of a disaggregated request change in the client's body. Pure: fields to set, as JSON texts, and fields
 * to take out; everything else of the body stays the client's own bytes.
 */
import type { Connector, TransferFacts } from './connector.js'

export interface LegEdit {
  readonly set: Readonly<Record<string, string>>
  readonly remove: readonly string[]
  /** The body itself leads to the rank: to name it besides would contradict it where one body becomes several sequences. */
  readonly leadsToRank?: boolean
  /** The engines match the legs by what they are called; so it must be the same, and nobody else's. */
  readonly requestId?: string
}

/** The two halves of a transfer that is agreed before anything is computed. */
export interface Appointment {
  readonly prefill: LegEdit
  readonly decode: LegEdit
}

type Body = Readonly<Record<string, unknown>>

const unread = {
  do_remote_decode: true,
  do_remote_prefill: false,
  remote_engine_id: null,
  remote_block_ids: null,
  remote_host: null,
  remote_port: null,
} as const

/** One token, not streamed: only a whole answer carries the parameters, and they are made at its end. */
export function prefillOnly(body: Body, transferParams: unknown): LegEdit {
  const set: Record<string, string> = { stream: 'false', max_tokens: '1' }
  if (body['max_completion_tokens'] !== undefined) set['max_completion_tokens'] = '1'
  if (transferParams !== undefined) set['kv_transfer_params'] = JSON.stringify(transferParams)
  return { set, remove: ['stream_options', 'min_tokens', 'min_completion_tokens'] }
}

/** vLLM, where the prefill comes first. */
export function sequentialPrefill(connector: Connector, body: Body): LegEdit {
  return prefillOnly(body, connector === 'nixl' ? unread : undefined)
}

/** The decode leg that reads what a prefill left; `params` is the prefill's own text. Without them it finds the KV by itself. */
export function sequentialDecode(params: string | undefined): LegEdit {
  return { set: params === undefined ? {} : { kv_transfer_params: params }, remove: [] }
}

/** Reads what a prefill left and throws it away: the only way to make vLLM let go before its lease ends. */
export function releasingDecode(body: Body, params: string): LegEdit {
  const edit = prefillOnly(body, undefined)
  return { ...edit, set: { ...edit.set, kv_transfer_params: params } }
}

export interface AppointmentInput {
  readonly connector: Connector
  readonly body: Body
  /** Where decode workers reach the prefill worker. */
  readonly host: string
  readonly facts: TransferFacts | undefined
  /** Of the prefill worker, counted from 0. */
  readonly dpRank: number
  /** Unique among running requests. */
  readonly transferId: string
  /** SGLang's meeting places, one per prompt of the body; made for the rank. */
  readonly rooms: readonly bigint[]
}

/** For connectors whose legs start together. */
export function appointment(input: AppointmentInput): Appointment {
  if (input.connector === 'sglang') return sglangAppointment(input)
  if (input.connector === 'mooncake') return mooncakeAppointment(input)
  return pushAppointment(input)
}

/**
 * The room leads to the prefill rank by itself; a pin besides it would have to agree with it. Of one room for several prompts
 * the engine would make neighbours, which lead to other ranks: so each prompt is given its own.
 */
function sglangAppointment({ host, facts, rooms }: AppointmentInput): Appointment {
  const set = {
    bootstrap_host: JSON.stringify(host),
    bootstrap_port: facts?.port === undefined ? 'null' : String(facts.port),
    bootstrap_room: rooms.length === 1 ? String(rooms[0]) : `[${rooms.join(',')}]`,
  }
  const edit: LegEdit = { set, remove: [] }
  return { prefill: { ...edit, leadsToRank: true }, decode: edit }
}

function mooncakeAppointment({ body, host, facts, dpRank, transferId }: AppointmentInput): Appointment {
  const shared = { transfer_id: `xfer-${transferId}` }
  const bracketed = host.includes(':') ? `[${host}]` : host
  const decode = {
    do_remote_decode: false,
    do_remote_prefill: true,
    remote_bootstrap_addr: `http://${bracketed}:${facts?.port ?? 8998}`,
    remote_engine_id: facts?.engineIds?.[dpRank] ?? null,
    ...shared,
  }
  return {
    prefill: prefillOnly(body, { do_remote_decode: true, do_remote_prefill: false, ...shared }),
    decode: { set: { kv_transfer_params: JSON.stringify(decode) }, remove: [] },
  }
}

/**
 * vLLM matches the legs by `transfer_id`, and before it knew that by the request id that both were sent; a client's own id may
 * come twice, so they get one of ours.
 */
function pushAppointment({ body, host, facts, dpRank, transferId }: AppointmentInput): Appointment {
  const shared = { transfer_id: `xfer-${transferId}` }
  const decode = {
    do_remote_decode: false,
    do_remote_prefill: true,
    remote_engine_id: facts?.engineIds?.[dpRank] ?? null,
    remote_host: host,
    remote_port: (facts?.port ?? 5600) + dpRank,
    tp_size: facts?.tpSize ?? 1,
    pp_size: facts?.ppSize ?? 1,
    remote_request_id: transferId,
    ...shared,
  }
  return {
    prefill: { ...prefillOnly(body, { ...unread, ...shared }), requestId: transferId },
    decode: { set: { kv_transfer_params: JSON.stringify(decode) }, remove: [], requestId: transferId },
  }
}

/**
 * Why a body cannot go over a pair; undefined when it can. On vLLM each sequence would read, and release, the same KV. SGLang
 * sends every answer to one prompt into one room, where all but the first wait in vain (0.5.18; sgl-project/sglang#30723).
 */
export function unpairable(connector: Connector, body: Body): 'sequences' | 'prompt_logprobs' | undefined {
  if (hasSeveralAnswers(body)) return 'sequences'
  if (connector === 'sglang') return undefined
  if (isAboveOne(body['best_of']) || isBatch(body['prompt'])) return 'sequences'
  if (typeof body['prompt_logprobs'] === 'number' || (body['echo'] === true && body['logprobs'] !== undefined))
    return 'prompt_logprobs'
  return undefined
}

/** Prompts in one body, by the names that they have on the routes of pairs. */
export function promptCount(body: Body): number {
  for (const name of ['prompt', 'text', 'input_ids']) if (isBatch(body[name])) return (body[name] as unknown[]).length
  return 1
}

/** `n` of the OpenAI routes, and of SGLang's own. */
function hasSeveralAnswers(body: Body): boolean {
  const { n, sampling_params: params } = body
  const all = Array.isArray(params) ? (params as unknown[]) : [params]
  return isAboveOne(n) || all.some((it) => isAboveOne((it as Body | null | undefined)?.['n']))
}

function isAboveOne(value: unknown): boolean {
  return typeof value === 'number' && value > 1
}

/** Several prompts in one body: texts, or lists of tokens. */
function isBatch(prompt: unknown): boolean {
  return Array.isArray(prompt) && prompt.length > 0 && typeof prompt[0] !== 'number'
}
