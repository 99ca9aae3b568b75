/**
 * What upstream's frontend checks before it accepts a request (spec/serving.md 1.2), for `strict: dynamo`. Off by default:
 * an engine knows better what it accepts. Every refusal begins with `Validation: ` as upstream's do, except where noted.
 */
import { entriesOf, WarmrouteError } from '../../core/protocol/index.js'
import type { EndpointRow } from './endpoints.js'

type Body = Readonly<Record<string, unknown>>

interface Range {
  readonly min: number
  readonly max: number
  /** The minimum itself is refused. */
  readonly isOpen?: boolean
  readonly isWhole?: boolean
}

const ranges: Readonly<Record<string, Range>> = {
  temperature: { min: 0, max: 2 },
  top_p: { min: 0, max: 1, isOpen: true },
  frequency_penalty: { min: -2, max: 2 },
  presence_penalty: { min: -2, max: 2 },
  repetition_penalty: { min: 0, max: 2, isOpen: true },
  top_k: { min: -1, max: Number.MAX_SAFE_INTEGER, isWhole: true },
  min_p: { min: 0, max: 1 },
  top_logprobs: { min: 0, max: 20, isWhole: true },
  n: { min: 1, max: 128, isWhole: true },
  best_of: { min: 0, max: 20, isWhole: true },
}

// biome-ignore format: a list of names
const common = ['model', 'stream', 'stream_options', 'max_tokens', 'stop', 'seed', 'user', 'logit_bias', 'echo', 'suffix', 'prompt', 'messages', 'tools', 'tool_choice', 'parallel_tool_calls', 'response_format', 'logprobs', 'max_completion_tokens', 'metadata', 'store', 'service_tier', 'reasoning_effort', 'modalities', 'audio', 'prediction', 'web_search_options', 'functions', 'function_call', 'ignore_eos', 'min_tokens', 'include_stop_str_in_output', 'skip_special_tokens', 'prompt_logprobs', 'guided_json', 'guided_regex', 'guided_grammar', 'guided_choice', 'guided_decoding_backend', 'guided_whitespace_pattern', 'cache_salt', 'stop_token_ids', 'detokenize', 'allowed_token_ids', 'bad_words_token_ids', 'logprob_token_ids', 'return_tokens_as_token_ids', 'chat_template_args', 'chat_template_kwargs', 'thinking', 'media_io_kwargs', 'nvext', ...Object.keys(ranges)]
const known: ReadonlySet<string> = new Set(common)

// biome-ignore format: a list of names
export const nvextFields: ReadonlySet<string> = new Set(['backend_instance_id', 'prefill_worker_id', 'decode_worker_id', 'dp_rank', 'prefill_dp_rank', 'token_data', 'use_raw_prompt', 'greed_sampling', 'annotations', 'extra_fields', 'cache_salt', 'max_thinking_tokens', 'agent_hints', 'request_timestamp_ms', 'routing_constraints', 'router', 'metadata_upload', 'session_control'])

export const choicesMax = 128
const stopsMax = 4
export const toolsMax = 1536
export const toolNameMax = 128

/** Upstream checks no other requests. */
export function isCheckedStrictly({ endpoint }: EndpointRow): boolean {
  return endpoint === 'chat_completions' || endpoint === 'completions'
}

/** Throws `WR_INVALID_BODY`, or `WR_NOT_IMPLEMENTED` for the old function calls. */
export function validateStrictly(row: EndpointRow, body: Body): void {
  if (!isCheckedStrictly(row)) return
  const unknown = Array.from(entriesOf(body), ([name]) => name)
    .filter((name) => !known.has(name))
    .sort((one, other) => placeOf(one) - placeOf(other))
  if (unknown.length > 0)
    throw refused(`Unsupported parameter(s): ${unknown.map((name) => `\`${name}\``).join(', ')}`, unknown[0]!)
  for (const [name, range] of Object.entries(ranges)) checkRange(name, body[name], range)
  if (row.endpoint === 'completions') checkRange('logprobs', body['logprobs'], { min: 0, max: 5, isWhole: true })
  checkCounts(row, body)
  checkTools(body['tools'])
  checkNvext(body['nvext'])
}

/** An object that was parsed has names that are indexes before all others: which way a body was read must not show. */
function placeOf(name: string): number {
  return /^(?:0|[1-9]\d{0,9})$/.test(name) ? Math.min(Number(name), indexMax) : indexMax
}

const indexMax = 2 ** 32 - 1

function checkRange(name: string, value: unknown, { min, max, isOpen = false, isWhole = false }: Range): void {
  if (value === undefined || value === null) return
  const isInside = typeof value === 'number' && value <= max && (isOpen ? value > min : value >= min)
  if (!isInside || (isWhole && !Number.isInteger(value)))
    throw refused(`Validation: ${name} must be between ${min} and ${max}, got ${shown(value)}`, name)
}

function checkCounts(row: EndpointRow, body: Body): void {
  for (const name of ['max_tokens', 'max_completion_tokens'])
    if (body[name] === 0) throw refused('Validation: Max tokens must be greater than 0, got 0', name)
  const n = typeof body['n'] === 'number' ? body['n'] : 1
  if (n > 1 && body['temperature'] === 0) throw refused('Validation: n > 1 needs a temperature above 0', 'n')
  const { prompt, stop } = body
  const prompts =
    row.endpoint === 'completions' && Array.isArray(prompt) && typeof prompt[0] !== 'number' ? prompt.length : 1
  if (prompts * n > choicesMax) throw refused(`Validation: prompts times n must be at most ${choicesMax}`, 'n')
  if (Array.isArray(stop) && stop.length > stopsMax)
    throw refused(`Validation: at most ${stopsMax} stop sequences`, 'stop')
  if (body['stream_options'] !== undefined && body['stream_options'] !== null && body['stream'] !== true)
    throw refused('Validation: stream_options needs stream to be true', 'stream_options')
  for (const name of ['functions', 'function_call'])
    if (body[name] !== undefined)
      throw new WarmrouteError('WR_NOT_IMPLEMENTED', { message: `${name} is not supported`, param: name })
}

function checkTools(tools: unknown): void {
  if (!Array.isArray(tools)) return
  if (tools.length > toolsMax) throw refused(`Validation: at most ${toolsMax} tools`, 'tools')
  for (const tool of tools as readonly { readonly function?: { readonly name?: unknown } }[]) {
    const name = tool?.function?.name
    if (typeof name === 'string' && name.length > toolNameMax)
      throw refused(`Validation: a function name has at most ${toolNameMax} characters`, 'tools')
  }
}

function checkNvext(nvext: unknown): void {
  if (typeof nvext !== 'object' || nvext === null) return
  for (const [name] of entriesOf(nvext as Body))
    if (!nvextFields.has(name)) throw refused(`nvext: unknown field \`${name}\``, 'nvext')
}

/** A number as it is; anything else by its kind, since it may be a prompt. */
function shown(value: unknown): string {
  return typeof value === 'number' ? String(value) : typeof value
}

function refused(message: string, param: string): WarmrouteError {
  return new WarmrouteError('WR_INVALID_BODY', { message, param })
}
