/**
 * What a request may not ask of an SGLang. Values of ordinary fields end its process, where its scheduler makes numbers of 32 bits of them or
 * looks in its vocabulary beyond the end. Seen on 0.5.23, one by one (docs/decisions/0259); what it refuses by itself is not here.
 */

export interface FatalValue {
  readonly param: string
  /** Completes "`param` …". */
  readonly reason: string
}

interface Range {
  readonly names: readonly string[]
  readonly min?: number
  /** `vocabulary`: as many as the model has ids. */
  readonly max?: number | 'vocabulary'
}

const ranges: readonly Range[] = [
  { names: ['logprobs', 'top_logprobs', 'top_logprobs_num'], max: 'vocabulary' },
  { names: ['top_k'], max: 2 ** 31 - 1 },
  { names: ['logprob_start_len'], min: -1 },
  { names: ['n'], max: 16_384 }, // vLLM's own limit; by a million it serves nobody for minutes, also after the client has left
]

/** Where nobody knows how many ids a model has: fewer than those in use have. */
const vocabularyUnknown = 20_000

/**
 * Fields of its own that no look at their value makes safe, unless it says nothing: `stop_regex` is searched with backtracking at every token,
 * on the one thread that serves everybody, `custom_logit_processor` is code that it runs, and the others are meant for its own processes:
 * places in a prompt, of whose tokens only the engine knows how many there are, and what has no form in JSON by which its scheduler does not end.
 */
const unboundedFields: Readonly<Record<string, (value: unknown) => boolean>> = {
  stop_regex: isNothing,
  custom_logit_processor: isNothing,
  token_indices_to_pool: isNull,
  positional_embed_overrides: isNull,
  query_embed_overrides: isNull,
  item_embed_overrides: isNull,
}

/** The first of them that a request has, unless it is allowed. */
export function unboundedField(body: Fields, allowed: ReadonlySet<string>): string | undefined {
  for (const name in unboundedFields) {
    if (allowed.has(name)) continue
    for (const fields of partsOf(body))
      if (Object.hasOwn(fields, name) && !unboundedFields[name]!(fields[name])) return name
  }
  return undefined
}

function isNull(value: unknown): boolean {
  return value === null
}

function isNothing(value: unknown): boolean {
  return value === null || value === '' || (Array.isArray(value) && value.every(isNothing))
}

type Fields = Readonly<Record<string, unknown>>

/** What is known of the tokenizer. */
export interface KnownVocabulary {
  /** The model's highest token id. */
  readonly idMax?: number | undefined
  /** Whether an empty text has tokens: those that stand around every text. */
  readonly fillsEmptyTexts?: boolean | undefined
}

/** Fields that were too long to be read are symbols. */
export function fatalValue(body: Fields, { idMax, fillsEmptyTexts }: KnownVocabulary = {}): FatalValue | undefined {
  for (const fields of partsOf(body)) {
    const fatal = fatalIn(fields, idMax) ?? (fields === body ? undefined : fatalStop(fields, idMax))
    if (fatal) return fatal
  }
  return fatalList(body) ?? (fillsEmptyTexts ? undefined : emptyText(body))
}

/** Fields that may hold many prompts as texts. */
export const textLists = ['prompt', 'text', 'items'] as const

/** A prompt of no tokens at all; of a tokenizer that nobody knows it may be one. */
function emptyText(body: Fields): FatalValue | undefined {
  const isEmpty = (value: unknown): boolean => value === '' || (Array.isArray(value) && value.includes(''))
  const isScored = (body['query'] ?? '') === '' && Array.isArray(body['items']) && isEmpty(body['items']) // what is scored is both, joined
  const param = isScored ? 'items' : ['prompt', 'text'].find((name) => isEmpty(body[name]))
  return param === undefined
    ? undefined
    : { param, reason: 'holds an empty text, which is not known to have tokens with this model' }
}

/** What a batch may say of each of its prompts. Of a single one a list is handed on as it is, and compared with a number. */
const listedFields = ['top_logprobs_num', 'logprob_start_len'] as const

function fatalList(body: Fields): FatalValue | undefined {
  const param = listedFields.find((name) => Array.isArray(body[name]))
  if (param === undefined || isBatch(body['text']) || isBatchOfIds(body['input_ids'])) return undefined
  return { param, reason: 'has to be one number, as there is one prompt' }
}

function isBatch(value: unknown): value is readonly unknown[] {
  return Array.isArray(value)
}

function isBatchOfIds(value: unknown): boolean {
  return isBatch(value) && typeof value[0] === 'object' // a list, or ids that were read
}

/** Its own route has sampling fields in an object, or in one for each prompt. */
function partsOf(body: Fields): readonly Fields[] {
  const nested: unknown = body['sampling_params']
  if (nested === undefined || nested === null) return [body]
  const isObject = (it: unknown): it is Fields => typeof it === 'object' && it !== null
  return [body, ...(Array.isArray(nested) ? (nested as unknown[]) : [nested]).filter(isObject)]
}

function fatalIn(fields: Fields, idMax: number | undefined): FatalValue | undefined {
  for (const { names, min = -Infinity, max = Infinity } of ranges) {
    const most = max === 'vocabulary' ? (idMax === undefined ? vocabularyUnknown : idMax + 1) : max
    for (const param of names) {
      const value = Object.hasOwn(fields, param) ? fields[param] : undefined
      if (value === undefined || value === null || typeof value === 'boolean') continue
      if (typeof value === 'symbol') return { param, reason: 'is too long' }
      for (const item of (Array.isArray(value) ? value : [value]) as readonly unknown[])
        if (isOutside(item, min, most)) return { param, reason: reasonOf(min, most) }
    }
  }
  return undefined
}

/** What ends a text there; those beside the prompt are among `idFields`. One beyond the vocabulary ends the engine once a request of its batch has `min_new_tokens`. */
function fatalStop(fields: Fields, idMax = 2 ** 31 - 1): FatalValue | undefined {
  const ids = fields['stop_token_ids']
  const isFatal = Array.isArray(ids) && ids.some((id) => id !== null && isOutside(id, 0, idMax))
  return isFatal ? { param: 'stop_token_ids', reason: reasonOf(0, idMax) } : undefined
}

/** A text of digits is a number there. */
function isOutside(item: unknown, min: number, max: number): boolean {
  const number = typeof item === 'string' ? Number(item.replaceAll('_', '')) : item
  return typeof number === 'number' && (number < min || number > max)
}

function reasonOf(min: number, max: number): string {
  const least = min === -Infinity ? [] : [`at least ${min}`]
  const most = max === Infinity ? [] : [`at most ${max}`]
  return `has to be ${[...least, ...most].join(' and ')}`
}
