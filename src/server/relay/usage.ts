/** What an engine says it did: token counts at the end of an answer, in the spellings of every API we relay. */

export interface Usage {
  readonly promptTokens: number | undefined
  readonly outputTokens: number | undefined
  /** Prompt tokens that the engine found in its cache; undefined where it does not report them. */
  readonly cachedTokens: number | undefined
}

/** Reads the last `"usage":{…}` in a text; anything else in it is skipped. SGLang's `/generate` has `meta_info` instead. */
export function readUsage(text: string): Usage | undefined {
  const value = lastObject(text, '"usage"') ?? lastObject(text, '"meta_info"')
  if (value === undefined) return undefined
  const details = record(value['prompt_tokens_details']) ?? record(value['input_tokens_details'])
  return {
    promptTokens: count(value['prompt_tokens']) ?? count(value['input_tokens']),
    outputTokens: count(value['completion_tokens']) ?? count(value['output_tokens']),
    cachedTokens:
      count(details?.['cached_tokens']) ?? count(value['cache_read_input_tokens']) ?? count(value['cached_tokens']),
  }
}

/** The object behind the last occurrence of a key, found by its brackets and then parsed alone. */
function lastObject(text: string, key: string): Record<string, unknown> | undefined {
  for (let at = text.lastIndexOf(key); at >= 0; at = at === 0 ? -1 : text.lastIndexOf(key, at - 1)) {
    const rest = /^\s*:\s*\{/.exec(text.slice(at + key.length, at + key.length + 16))
    if (!rest) continue
    const start = at + key.length + rest[0].length - 1
    const end = endOfObject(text, start)
    if (end < 0) continue
    try {
      return record(JSON.parse(text.slice(start, end)))
    } catch {
      // a look-alike inside a string: go on to the one before
    }
  }
  return undefined
}

function endOfObject(text: string, start: number): number {
  let depth = 0
  let isInString = false
  for (let at = start; at < text.length && at - start < 16_384; at++) {
    const letter = text[at]
    if (isInString) {
      if (letter === '\\') at++
      else if (letter === '"') isInString = false
    } else if (letter === '"') isInString = true
    else if (letter === '{') depth++
    else if (letter === '}' && --depth === 0) return at + 1
  }
  return -1
}

function record(value: unknown): Record<string, unknown> | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : undefined
}

function count(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 ? value : undefined
}
