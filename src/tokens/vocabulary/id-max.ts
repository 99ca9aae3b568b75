/**
 * The highest token id that a model has: the tokenizer's own, or what its embedding has rows for where that is more. vLLM refuses ids by
 * the same rule.
 */
import { numberAddedTokens } from './added-ids.js'
import type { TokenizerConfigFile, TokenizerFile } from './tokenizer-file.js'

/** `modelConfig`: the model's `config.json`, where there is one. Undefined: nothing tells. */
export function idMaxOf(file: TokenizerFile, config: TokenizerConfigFile, modelConfig: unknown): number | undefined {
  let max = -1
  const vocab: unknown = file.model.vocab
  // A unigram model has a list of pieces, whose places are their ids.
  if (Array.isArray(vocab)) max = vocab.length - 1
  else for (const id of Object.values(file.model.vocab)) if (id > max) max = id
  for (const { id } of [...(file.added_tokens ?? []), ...numberAddedTokens(file, config)]) if (id > max) max = id
  for (const shape of [modelConfig, nested(modelConfig, 'text_config')]) {
    const size = nested(shape, 'vocab_size')
    if (typeof size === 'number' && Number.isSafeInteger(size)) max = Math.max(max, size - 1)
  }
  return max < 0 ? undefined : max
}

function nested(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
  return (value as Readonly<Record<string, unknown>>)[name]
}
