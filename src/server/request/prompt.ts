/**
 * What routing knows of a prompt: the engine's tokens where they can be known, otherwise its bytes. Four bytes stand for
 * one token, which is near the truth for most text: equal beginnings stay equal, and the length is a fair estimate of
 * the work. Such a prompt is only ever compared with our own earlier decisions, never with what engines report.
 */
import type { BlockHasher, BlockHashes, HashScheme } from '../../core/hashing/index.js'
import type { MmExtraInfo } from '../../core/protocol/index.js'
import type { BufferPool } from '../http/buffer-pool.js'
import type { FieldSpan } from '../splice-body.js'
import type { EndpointRow } from './endpoints.js'

export interface PromptRequest {
  readonly row: EndpointRow
  readonly model: string
  readonly blockSize: number
  readonly body: Readonly<Record<string, unknown>>
  readonly bytes: Uint8Array
  readonly signal: AbortSignal
}

export interface PromptTokens {
  readonly tokens: Uint32Array
  /** False: engines cannot have the same tokens, so only predictions may match. */
  readonly isExact: boolean
  /** Tokens of all prompts of a batch; `tokens` are those of the first. */
  readonly totalTokens?: number | undefined
  /** Block hashes, where the source of the tokens can make them cheaper than anew. */
  readonly hash?: ((scheme: HashScheme, hasher: BlockHasher) => BlockHashes) | undefined
  /** Makes what `hash` gives in slices, where doing it at once would hold the loop. */
  readonly hashAhead?: ((scheme: HashScheme, hasher: BlockHasher) => Promise<void>) | undefined
  /** Tells whoever made the tokens how many the engine counted in all prompts; absent where that would prove nothing. */
  readonly counted?: ((engines: number) => void) | undefined
  readonly blockMmInfos?: readonly (MmExtraInfo | null)[] | undefined
  /** Milliseconds, for the metrics. */
  readonly templateMs?: number | undefined
  readonly tokenizeMs?: number | undefined
}

/** Finds the tokens that the engine will see. `undefined`: they cannot be known, and the bytes are used. */
export interface PromptTokenizer {
  tokenize(request: PromptRequest): Promise<PromptTokens | undefined> | PromptTokens | undefined
}

/** Token ids that the request itself carries; these need no tokenizer. */
export function carriedTokens(row: EndpointRow, body: Readonly<Record<string, unknown>>): PromptTokens | undefined {
  const name = row.endpoint === 'completions' ? 'prompt' : row.endpoint === 'generate' ? 'input_ids' : undefined
  const value = name === undefined || hasMedia(body) ? undefined : body[name]
  if (!Array.isArray(value) || value.length === 0) return undefined
  if (typeof value[0] === 'number') {
    const tokens = toTokens(value)
    return tokens && { tokens, isExact: true }
  }
  if (!Array.isArray(value[0])) return undefined
  const first = toTokens(value[0] as unknown[])
  if (!first) return undefined
  let totalTokens = 0
  for (const prompt of value) totalTokens += Array.isArray(prompt) ? prompt.length : 0
  return { tokens: first, isExact: true, totalTokens }
}

/** Beside media the ids are not those that the engine computes: it puts values of its own in their places. */
function hasMedia(body: Readonly<Record<string, unknown>>): boolean {
  return mediaFields.some((name) => body[name] !== undefined && body[name] !== null)
}

const mediaFields = ['image_data', 'audio_data', 'video_data']

function toTokens(values: readonly unknown[]): Uint32Array | undefined {
  const tokens = new Uint32Array(values.length)
  for (let at = 0; at < values.length; at++) {
    const value = values[at]
    if (typeof value !== 'number' || !Number.isInteger(value) || value < 0 || value > 0xffff_ffff) return undefined
    tokens[at] = value
  }
  return tokens
}

/** The bytes of the prompt's fields as stand-ins for tokens, in memory that is lent until the request ends. */
export function byteTokens(
  row: EndpointRow,
  bytes: Uint8Array,
  fields: readonly FieldSpan[],
  buffers: BufferPool,
): PromptTokens | undefined {
  let size = 0
  const spans: FieldSpan[] = []
  for (const name of row.promptFields) {
    const span = fields.findLast((field) => field.name === name)
    if (!span) continue
    spans.push(span)
    size += span.valueEnd - span.valueStart
  }
  if (size === 0) return undefined
  const copy = buffers.take(size & ~3)
  let at = 0
  for (const span of spans) {
    const take = Math.min(span.valueEnd - span.valueStart, copy.length - at)
    copy.set(bytes.subarray(span.valueStart, span.valueStart + take), at)
    at += take
  }
  return { tokens: new Uint32Array(copy.buffer, copy.byteOffset, copy.length >>> 2), isExact: false }
}
