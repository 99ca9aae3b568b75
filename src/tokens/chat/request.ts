/**
 * From a request body to what is rendered and encoded, as each engine does it. The wire is read here, once; a body that the
 * engine would refuse, or whose tokens cannot be known from outside, ends as a reason and never as a guess.
 * Follows spec `engines.md` 3.2 with Appendix C: vLLM 0.32.0 and SGLang 0.5.23 as recorded.
 */
import { fieldsBehind, unkept } from '../../core/protocol/index.js'
import type { Value } from '../template/values.js'
import { Float, isNumber } from '../template/values.js'
import type { ChosenTemplate, RenderInput } from './chat-template.js'

export type Dialect = 'vllm' | 'sglang' | 'trtllm'
export type Route = 'chat' | 'completions' | 'responses' | 'messages'

/** Why a request's tokens cannot be known. */
export type LoadOnlyReason =
  | 'no-tokenizer' // no source knows this model
  | 'no-template' // a chat, and the model has no chat template
  | 'media-image' // their tokens and hashes are made by the engine's processor
  | 'media-audio'
  | 'media-video'
  | 'media-other'
  | 'embeddings' // the prompt is vectors
  | 'stored-response' // the conversation is kept by the engine
  | 'engine-settings' // how the engine was started decides, and what it makes of a prompt then is not told
  | 'own-renderer' // the engine renders this model by code of its own
  | 'request-template' // the request brings a template that is not trusted
  | 'malformed' // the engine will refuse it
  | 'template-failed'
  | 'too-long'
  | 'busy'
  | 'deadline'
  | 'source-failed'
  | 'other-route' // what the engine makes of its prompts nobody looks at

export class LoadOnlyError extends Error {
  override readonly name = 'LoadOnlyError'
  readonly reason: LoadOnlyReason
  constructor(reason: LoadOnlyReason, detail: string, options?: ErrorOptions) {
    super(detail, options)
    this.reason = reason
  }
}

export type Body = Readonly<Record<string, Value>>

/** A chat, as the template sees it. */
export interface ChatPrompt {
  readonly kind: 'chat'
  readonly render: RenderInput
  readonly chosen: ChosenTemplate
  /** Encoded on its own and put behind the rendered text: how SGLang continues a message. */
  readonly suffix: string | undefined
  readonly addSpecialTokens: boolean
  readonly truncation: Truncation | undefined
  /** Whether the way this was built is in our recordings of a real engine. */
  readonly isProven: boolean
}

export interface TextPrompt {
  readonly kind: 'text'
  readonly texts: readonly string[]
  readonly addSpecialTokens: boolean
  readonly truncation: Truncation | undefined
  readonly isProven: boolean
}

export interface IdsPrompt {
  readonly kind: 'ids'
  readonly ids: readonly Uint32Array[]
  readonly truncation: Truncation | undefined
  readonly isProven: boolean
}

export interface Truncation {
  readonly tokens: number
  readonly side: 'left' | 'right'
  /** The tokenizer does it, and what stands around a text stays; where the request names a side, the ids are cut as they are. */
  readonly isByTokenizer: boolean
}

/** How many special tokens stand around a text. */
export interface Around {
  readonly before: number
  readonly after: number
}

export function malformed(detail: string): never {
  throw new LoadOnlyError('malformed', detail)
}

/**
 * The token ids that a request carries itself: nothing is rendered then. `nvext.token_data` is the client's word for every engine; beside the
 * messages of a chat SGLang reads `input_ids` and TensorRT-LLM `prompt_token_ids`, and each passes over the other's field. vLLM has none.
 */
export function carriedIds(route: Route, body: Body, dialect: Dialect): Uint32Array | undefined {
  const field = route === 'chat' ? carryingFields[dialect] : undefined
  const carried = asRecord(body['nvext'])?.['token_data'] ?? (field === undefined ? undefined : body[field])
  return Array.isArray(carried) && carried.length > 0 ? toIds(carried) : undefined
}

const carryingFields: Readonly<Partial<Record<Dialect, string>>> = { sglang: 'input_ids', trtllm: 'prompt_token_ids' }

export function readTruncation(body: Body, dialect: Dialect): Truncation | undefined {
  if (dialect === 'sglang') return undefined // it has no such field, and passes over it
  const tokens = countOf(body['truncate_prompt_tokens']) ?? null
  if (tokens !== null && (!Number.isInteger(tokens) || tokens === 0 || (tokens as number) < atLimit))
    malformed('truncate_prompt_tokens is a positive integer')
  return truncationOf(body)
}

const atLimit = -1

/**
 * Whether a prompt above the model's limit is cut there and not refused: where that is only the engine knows. A response says so in a word
 * of its own.
 */
export function isCutAtLimit(body: Body, dialect: Dialect): boolean {
  if (dialect === 'sglang') return false
  return countOf(body['truncate_prompt_tokens']) === atLimit || body['truncation'] === 'auto'
}

/** Of a request that may be wrong. */
export function truncationOf(body: Readonly<Record<string, unknown>>): Truncation | undefined {
  const tokens = countOf(body['truncate_prompt_tokens'])
  if (typeof tokens !== 'number' || !Number.isInteger(tokens) || tokens <= 0) return undefined
  const side = body['truncation_side'] ?? undefined
  return { tokens, side: side === 'right' ? 'right' : 'left', isByTokenizer: side === undefined }
}

/** Engines take a number that is spelled as a text, too. */
function countOf(value: unknown): unknown {
  if (typeof value === 'boolean') return Number(value)
  return typeof value === 'string' && /^\s*[+-]?\d{1,15}(\.0+)?\s*$/.test(value) ? Number(value) : wholeOf(value)
}

/** A body that was read as Python reads it has `5.0` as a float, which engines take for a number of tokens, or for a token. */
function wholeOf(value: unknown): unknown {
  return value instanceof Float ? value.value : value
}

/** A switch as both engines read it from what a client wrote: `"yes"` and 1 are on. Undefined where it is not given. */
export function asSwitch(value: Value, what: string): boolean | undefined {
  if (value === undefined || value === null || typeof value === 'boolean') return value ?? undefined
  const word = switchWord(value)
  if (on.has(word)) return true
  return off.has(word) ? false : malformed(`${what} is true or false`)
}

/** Whether engines take it for one, or for none that is given. */
export function isSwitch(value: Value): boolean {
  if (value === undefined || value === null || typeof value === 'boolean') return true
  const word = switchWord(value)
  return on.has(word) || off.has(word)
}

function switchWord(value: Value): string {
  return typeof value === 'string' ? value.toLowerCase() : isNumber(value) ? String(wholeOf(value)) : ''
}

const on = new Set(['1', 'on', 't', 'true', 'y', 'yes'])
const off = new Set(['0', 'off', 'f', 'false', 'n', 'no'])

/** What an engine keeps of ids; `around`: of a text's. */
export function truncate(ids: Uint32Array, truncation: Truncation | undefined, around?: Around): Uint32Array {
  if (!truncation || ids.length <= truncation.tokens) return ids
  const { tokens, side, isByTokenizer } = truncation
  const { before, after } = isByTokenizer && around ? around : nothingAround
  const kept = tokens - before - after
  if (before + after === 0 || kept < 0) return endOf(ids, tokens, side)
  const cut = new Uint32Array(tokens)
  cut.set(ids.subarray(0, before))
  cut.set(endOf(ids.subarray(before, ids.length - after), kept, side), before)
  cut.set(ids.subarray(ids.length - after), before + kept)
  return cut
}

const nothingAround: Around = { before: 0, after: 0 }

function endOf(ids: Uint32Array, count: number, side: Truncation['side']): Uint32Array {
  return side === 'left' ? ids.subarray(ids.length - count) : ids.subarray(0, count)
}

/**
 * `/v1/completions`: texts are encoded with special tokens around them, ids are taken as they are. `is_rendered` is ours: a chat that
 * somebody else made a text of has its special tokens written out, whatever the engine makes of `add_special_tokens`.
 */
export function readCompletion(body: Body, dialect: Dialect): TextPrompt | IdsPrompt {
  if (body['prompt_embeds'] !== undefined && body['prompt_embeds'] !== null) {
    throw new LoadOnlyError('embeddings', 'prompt_embeds')
  }
  if (dialect !== 'sglang' && (body['suffix'] ?? null) !== null) {
    throw new LoadOnlyError('engine-settings', 'what stands around a text and its suffix is made by the engine')
  }
  const truncation = readTruncation(body, dialect)
  const { prompt } = body
  const addSpecialTokens = addsSpecialTokens(body, dialect)
  const isProven = !isCutAtLimit(body, dialect)
  if (typeof prompt === 'string') return { kind: 'text', texts: [prompt], addSpecialTokens, truncation, isProven }
  if (!Array.isArray(prompt) || prompt.length === 0)
    return malformed('prompt is a text, token ids, or a list of either')
  const items = prompt as readonly Value[]
  if (typeof wholeOf(items[0]) === 'number') return { kind: 'ids', ids: [toIds(items)], truncation, isProven }
  if (items.every((item) => typeof item === 'string')) {
    return { kind: 'text', texts: items, addSpecialTokens, truncation, isProven }
  }
  if (items.every((item) => Array.isArray(item))) return { kind: 'ids', ids: items.map(toIds), truncation, isProven }
  return malformed('prompt mixes texts and token ids')
}

/** Around the text of a completion. SGLang always does, and passes over what the request says. */
export function addsSpecialTokens(body: Body, dialect: Dialect): boolean {
  if (dialect === 'sglang') return body['is_rendered'] !== true
  return asSwitch(body['add_special_tokens'], 'add_special_tokens') !== false
}

export function toIds(value: Value): Uint32Array {
  const items = value as readonly Value[]
  const ids = new Uint32Array(items.length)
  for (let index = 0; index < ids.length; index++) {
    const item = wholeOf(items[index])
    if (typeof item !== 'number' || !Number.isInteger(item) || item < 0 || item > 0xffff_ffff) {
      malformed('a token id is an unsigned 32-bit integer')
    }
    ids[index] = item
  }
  return ids
}

/** What is read by its names; in what a template prints the order of keys counts, and there a mapping stays what it is. */
export function asRecord(value: Value): Body | undefined {
  if (value instanceof Map) return unkept(value as ReadonlyMap<string, Value>)
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Body) : undefined
}

/** The other way round, for what a template prints or an engine is asked for. */
export function asValue(record: Body): Value {
  return fieldsBehind(record) ?? record
}

export function asList(value: Value, what: string): readonly Value[] {
  if (!Array.isArray(value)) malformed(`${what} is a list`)
  return value as readonly Value[]
}

/** The templates decide how messages are shaped, so building a chat takes the chosen one. */
export type ChooseTemplate = (hasTools: boolean, dialect: Dialect) => ChosenTemplate
