/** The parts of `tokenizer.json` and `tokenizer_config.json` that we read. What is not listed here does not change the ids. */
export interface TokenizerFile {
  readonly added_tokens?: readonly AddedTokenEntry[]
  readonly normalizer: Step | null
  readonly pre_tokenizer: Step | null
  readonly post_processor: Step | null
  readonly model: ModelEntry
}

export interface AddedTokenEntry {
  readonly id: number
  readonly content: string
  readonly single_word: boolean
  readonly lstrip: boolean
  readonly rstrip: boolean
  readonly normalized: boolean
  readonly special: boolean
}

export interface Step {
  readonly type: string
  readonly [key: string]: unknown
}

export interface ModelEntry {
  readonly type?: string
  readonly vocab: Readonly<Record<string, number>>
  readonly merges?: readonly (string | readonly [string, string])[]
  readonly dropout?: number | null
  readonly unk_token?: string | null
  readonly continuing_subword_prefix?: string | null
  readonly end_of_word_suffix?: string | null
  readonly fuse_unk?: boolean
  readonly byte_fallback?: boolean
  readonly ignore_merges?: boolean
}

export interface TokenizerConfigFile {
  readonly tokenizer_class?: string
  readonly legacy?: boolean | null
  readonly add_prefix_space?: boolean | null
  readonly add_bos_token?: boolean | null
  readonly add_eos_token?: boolean | null
  readonly chat_template?: string | readonly { readonly name: string; readonly template: string }[] | null
  readonly [key: string]: unknown
}

/** The text of a special token, which a configuration writes bare or as an object. */
export function specialTokenText(entry: unknown): string | undefined {
  if (typeof entry === 'string') return entry
  if (typeof entry === 'object' && entry !== null && 'content' in entry && typeof entry.content === 'string') {
    return entry.content
  }
  return undefined
}

/** Of others the library makes what they look like to it. */
const modelTypes: ReadonlySet<string> = new Set(['BPE', 'WordPiece', 'WordLevel', 'Unigram'])

/** A file that cannot be a tokenizer is refused here, once, so that the rest may trust its shape. */
export function whatIsWrongWith(file: unknown): string | undefined {
  if (typeof file !== 'object' || file === null) return 'it is not an object'
  const { model, added_tokens: added } = file as Partial<TokenizerFile>
  if (typeof model !== 'object' || model === null) return 'it has no model'
  if (model.type !== undefined && !modelTypes.has(model.type)) return `no model is a ${String(model.type)}`
  if (typeof model.vocab !== 'object' || model.vocab === null) return 'its model has no vocabulary'
  if (added !== undefined && !Array.isArray(added)) return 'added_tokens is not a list'
  for (const token of added ?? []) {
    if (typeof token?.content !== 'string' || !Number.isInteger(token.id)) return 'an added token has no content or id'
  }
  return undefined
}
