/**
 * What a vLLM server tells of its tokenizer (`GET /tokenizer_info`, behind `--enable-tokenizer-info-endpoint`): its configuration
 * with the chat template that it uses. Added tokens come by their text alone, without the flags that say how they are matched.
 */
import type { ParsedTemplate } from '../chat/chat-template.js'
import { asRecord } from '../chat/request.js'
import type { Value } from '../template/values.js'
import { specialTokenText } from '../vocabulary/tokenizer-file.js'

export interface ToldToken {
  readonly id: number
  readonly text: string
}

export interface ToldTokenizer {
  readonly added: readonly ToldToken[]
  readonly templates: readonly Omit<ParsedTemplate, 'parsed'>[]
  /** `bos_token` and its kin, for templates. */
  readonly specials: Readonly<Record<string, string>>
}

/** Undefined for an answer that tells no added tokens: then nothing can be cut. */
export function readTokenizerInfo(value: unknown): ToldTokenizer | undefined {
  const info = asRecord(value as Value)
  const added = readAdded(info?.['added_tokens_decoder'])
  if (!info || added.length === 0) return undefined
  return { added, templates: readTemplates(info['chat_template']), specials: readSpecials(info) }
}

function readAdded(value: Value): ToldToken[] {
  return Object.entries(asRecord(value) ?? {}).flatMap(([key, entry]) => {
    const text = specialTokenText(entry)
    return /^\d{1,9}$/.test(key) && text ? [{ id: Number(key), text }] : []
  })
}

/** One template, or several by name: as an object, or as the list that files have. */
function readTemplates(value: Value): ToldTokenizer['templates'] {
  if (typeof value === 'string') return [{ name: 'default', source: value }]
  const named: (readonly [Value, Value])[] = Array.isArray(value)
    ? (value as readonly Value[]).map((it) => [asRecord(it)?.['name'], asRecord(it)?.['template']])
    : Object.entries(asRecord(value) ?? {})
  return named.flatMap(([name, source]) =>
    typeof name === 'string' && typeof source === 'string' ? [{ name, source }] : [],
  )
}

function readSpecials(info: Readonly<Record<string, Value>>): Record<string, string> {
  const specials: Record<string, string> = {}
  for (const [name, entry] of Object.entries(info)) {
    const text = name.endsWith('_token') ? specialTokenText(entry) : undefined
    if (text !== undefined) specials[name] = text
  }
  return specials
}
