/**
 * What routing knows of a prompt: the engine's tokens where they can be known, otherwise its bytes. Four bytes stand for
 * one token, which is near the truth for most text: equal beginnings stay equal, and the length is a fair estimate of
 * the work. Such a prompt is only ever compared with our own earlier decisions, never with what engines report.
 */
import type { BlockHasher, BlockHashes, HashScheme } from '../../core/hashing/index.js'
import type { MmExtraInfo } from '../../core/protocol/index.js'
import type { EngineKind } from '../../engines/index.js'
import type { PromptEncoding } from '../../routing/index.js'
import type { LoadOnly, LoadOnlyReason } from '../../tokens/index.js'
import { Tokens, truncate, truncationOf } from '../../tokens/index.js'
import type { BufferPool } from '../http/buffer-pool.js'
import type { FieldSpan } from '../scan-fields.js'
import type { EndpointRow } from './endpoints.js'
import { idsMax } from './read-ids.js'

export interface PromptRequest {
  readonly row: EndpointRow
  readonly model: string
  readonly blockSize: number
  /** Undefined where parsing it would hold the loop; `bytes` has it, and where SGLang's own route has a text, as a completion of it. */
  readonly body: Readonly<Record<string, unknown>> | undefined
  readonly bytes: Uint8Array
  readonly signal: AbortSignal
}

/** How the tokens of a prompt are known, or why they are not. */
export type HowKnown = Pick<Tokens, 'source' | 'exactness'> | LoadOnly

export interface PromptTokens {
  readonly tokens: Uint32Array
  /** False: engines cannot have the same tokens, so only predictions may match. */
  readonly isExact: boolean
  readonly howKnown?: HowKnown | undefined
  /** Where engines of several kinds serve the model: how those of the other kinds are known. */
  readonly howOthersKnown?: readonly HowSomeKnown[] | undefined
  /** Tokens of all prompts of a batch; `tokens` are those of the first. */
  readonly totalTokens?: number | undefined
  /** Block hashes, where the source of the tokens can make them cheaper than anew. */
  readonly hash?: ((scheme: HashScheme, hasher: BlockHasher) => BlockHashes) | undefined
  /** Makes what `hash` gives in slices, where doing it at once would hold the loop. */
  readonly hashAhead?: ((scheme: HashScheme, hasher: BlockHasher) => Promise<void>) | undefined
  /** Tells whoever made the tokens how many this worker counted in all prompts; absent where that would prove nothing. */
  readonly counted?: ((engines: number, workerId: bigint) => void) | undefined
  readonly blockMmInfos?: readonly (MmExtraInfo | null)[] | undefined
  /** Where some of the model's engines make other tokens of the same request. */
  readonly encodings?: readonly EncodedPrompt[] | undefined
  /** Milliseconds, for the metrics. */
  readonly templateMs?: number | undefined
  readonly tokenizeMs?: number | undefined
}

/** A prompt as some of the model's workers encode it. */
export interface EncodedPrompt extends PromptEncoding {
  /** Undefined: nobody knows. */
  readonly prompt: PromptTokens | undefined
}

export interface HowSomeKnown {
  readonly workerIds: ReadonlySet<bigint>
  readonly howKnown: HowKnown
}

/** What the workers make of a request is not known, but for some perhaps. */
export interface NotKnown extends Pick<PromptTokens, 'howKnown' | 'howOthersKnown' | 'encodings'> {
  readonly tokens?: undefined
}

export type TokenizerAnswer = PromptTokens | NotKnown | undefined

/** Finds the tokens that the engine will see. `undefined`: they cannot be known, and the bytes are used. */
export interface PromptTokenizer {
  /** The highest token id that the model has, where that is known. */
  readonly idMax?: number | undefined
  /** Whether an empty text has tokens, where that is known. */
  readonly fillsEmptyTexts?: boolean | undefined
  tokenize(request: PromptRequest): Promise<TokenizerAnswer> | TokenizerAnswer
}

/** Of all prompts of a batch. */
export function totalTokensOf({ tokens, totalTokens }: PromptTokens): number {
  return totalTokens ?? tokens.length
}

/** The prompt as this worker computes it. */
export function promptOn(prompt: PromptTokens | undefined, workerId: bigint): PromptTokens | undefined {
  const other = prompt?.encodings?.find(({ workerIds }) => workerIds.has(workerId))
  return other ? other.prompt : prompt
}

export function howKnownOn(
  { howKnown, howOthersKnown }: Pick<PromptTokens, 'howKnown' | 'howOthersKnown'>,
  workerId: bigint,
): HowKnown | undefined {
  return howOthersKnown?.find(({ workerIds }) => workerIds.has(workerId))?.howKnown ?? howKnown
}

/** The same in words, for lines that people read. What was thrown is not among them: a template may quote the prompt. */
export function howKnownWords(howKnown: HowKnown | undefined): {
  readonly tokens?: string
  readonly load_only?: string
} {
  if (!howKnown) return {}
  if ('loadOnly' in howKnown) return { load_only: howKnown.loadOnly }
  return { tokens: `${howKnown.source}/${howKnown.exactness}` }
}

/** The client's own word. */
export const carried: HowKnown = { source: 'request', exactness: 'proven' }

/** Who serves a model. */
export interface ModelEngines {
  hasEngine(kind: EngineKind): boolean
  workers(): Iterable<{ readonly id: bigint; readonly spec: { readonly engine: EngineKind } }>
}

/** Token ids that the request itself carries; these need no tokenizer. */
export function carriedTokens(
  row: EndpointRow,
  engines: ModelEngines,
  body: Readonly<Record<string, unknown>>,
): PromptTokens | undefined {
  const name = row.endpoint === 'completions' ? 'prompt' : row.endpoint === 'generate' ? 'input_ids' : undefined
  const value = name === undefined || hasMedia(body) ? undefined : body[name]
  const truncation = row.endpoint === 'completions' ? truncationOf(body) : undefined
  const cut = keptOf(value, truncation)
  if (!cut || !truncation || !engines.hasEngine('sglang')) return cut
  // It has no such field, and passes over it.
  const whole = keptOf(value, undefined)
  const workerIds = new Set<bigint>()
  let isAll = true
  for (const { id, spec } of engines.workers())
    if (spec.engine === 'sglang') workerIds.add(id)
    else isAll = false
  return isAll ? whole : { ...cut, encodings: [{ workerIds, prompt: whole && withHash(whole) }] }
}

function keptOf(value: unknown, truncation: ReturnType<typeof truncationOf>): PromptTokens | undefined {
  const first = asTokens(value)
  if (first) return { tokens: truncate(first, truncation), isExact: true, howKnown: carried }
  if (!Array.isArray(value)) return undefined
  const tokens = asTokens(value[0])
  if (!tokens) return undefined
  let totalTokens = 0
  for (const prompt of value as readonly unknown[])
    totalTokens += isList(prompt) ? Math.min(prompt.length, truncation?.tokens ?? Infinity) : 0
  return { tokens: truncate(tokens, truncation), isExact: true, howKnown: carried, totalTokens }
}

/** A router hashes the usual tokens by itself, and takes those of other engines by their hashes alone. */
function withHash(prompt: PromptTokens): PromptTokens {
  const it = new Tokens({ ids: prompt.tokens, source: 'request', exactness: 'proven' })
  return {
    ...prompt,
    hash: (scheme, hasher) => it.blockHashes(scheme, hasher),
    hashAhead: it.isLong ? (scheme, hasher) => it.hashAhead(scheme, hasher) : undefined,
  }
}

/** Beside media the ids are not those that the engine computes: it puts values of its own in their places. */
export function hasMedia(body: Readonly<Record<string, unknown>>): boolean {
  return whyMedia(body) !== undefined
}

/**
 * Why the tokens of a request on SGLang's own route are not those of its text alone: media, or a session that the client opened itself,
 * where earlier turns stand before the text.
 */
export function whyMoreThanText(body: Readonly<Record<string, unknown>>): LoadOnly | undefined {
  const media = whyMedia(body)
  if (media) return { loadOnly: media, detail: 'media beside a text' }
  if ((body['session_params'] ?? null) !== null)
    return { loadOnly: 'stored-response', detail: 'earlier turns of its session stand before the text' }
  if (body['text'] !== undefined) return undefined
  if (body['input_embeds'] !== undefined) return { loadOnly: 'embeddings', detail: 'input_embeds' }
  return { loadOnly: 'malformed', detail: 'neither a text nor ids' }
}

function whyMedia(body: Readonly<Record<string, unknown>>): LoadOnlyReason | undefined {
  return mediaFields.find(([name]) => body[name] !== undefined && body[name] !== null)?.[1]
}

const mediaFields: readonly (readonly [name: string, LoadOnlyReason])[] = [
  ['image_data', 'media-image'],
  ['audio_data', 'media-audio'],
  ['video_data', 'media-video'],
]

/** A list of ids, which `parseBody` has read already where it is long. */
function asTokens(value: unknown): Uint32Array | undefined {
  if (value instanceof Uint32Array) return value
  if (!Array.isArray(value) || value.length === 0) return undefined
  const tokens = new Uint32Array(value.length)
  for (let at = 0; at < value.length; at++) {
    const id: unknown = value[at]
    if (typeof id !== 'number' || !Number.isInteger(id) || id < 0 || id > 0xffff_ffff) return undefined
    tokens[at] = id
  }
  return tokens
}

function isList(value: unknown): value is ArrayLike<unknown> {
  return value instanceof Uint32Array || Array.isArray(value)
}

/**
 * The bytes of the prompt's fields as stand-ins for tokens, in memory that is lent until the request ends. Of very many only the first
 * are compared: hashing and booking all of 45 MB would hold the loop.
 */
export function byteTokens(
  row: EndpointRow,
  bytes: Uint8Array,
  fields: readonly FieldSpan[],
  buffers: BufferPool,
): PromptTokens {
  let size = 0
  const spans: FieldSpan[] = []
  for (const name of row.promptFields) {
    const span = fields.findLast((field) => field.name === name)
    if (!span) continue
    spans.push(span)
    size += span.valueEnd - span.valueStart
  }
  if (size === 0) return noBytes
  const copy = buffers.take(Math.min(size, comparedBytesMax) & ~3)
  let at = 0
  for (const span of spans) {
    const take = Math.min(span.valueEnd - span.valueStart, copy.length - at)
    copy.set(bytes.subarray(span.valueStart, span.valueStart + take), at)
    at += take
  }
  const tokens = new Uint32Array(copy.buffer, copy.byteOffset, copy.length >>> 2)
  return { tokens, isExact: false, totalTokens: size >>> 2 }
}

const noBytes: PromptTokens = { tokens: new Uint32Array(0), isExact: false }

/** 32,768 blocks of 16. */
const comparedBytesMax = 2 << 20

/** How long a prompt is of which nothing is known but its request; blocks are booked for it, so there is an end to it. */
export function guessedTokens(bytes: Uint8Array): number {
  return Math.min(idsMax, Math.ceil(bytes.length / 4))
}
