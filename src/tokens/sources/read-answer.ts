/** The tokens in an engine's answer, of a render or a tokenize endpoint. A long one is read in a thread, where this holds nobody. */
import type { Body } from '../chat/request.js'
import type { Value } from '../template/values.js'

export interface TokensAnswer {
  /** Undefined where there are none, what stands there are no ids, or not as many as the engine says. */
  readonly ids: Uint32Array | undefined
  /** Where media lie, as the engine says it. */
  readonly features: Value
}

const nothing: TokensAnswer = { ids: undefined, features: undefined }

/** Of several prompts the first. */
export function readAnswer(bytes: Uint8Array): TokensAnswer {
  let value: Value
  try {
    value = JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('utf8')) as Value
  } catch {
    return nothing
  }
  const first = (Array.isArray(value) ? (value as readonly Value[])[0] : value) as Body | null | undefined
  const { token_ids: rendered, tokens, count, features } = first ?? {}
  const said = rendered ?? tokens
  const ids = idsOf(Array.isArray(said) && Array.isArray(said[0]) ? (said[0] as Value) : said)
  const isCounted = typeof count !== 'number' || count === ids?.length // of several texts it is a list
  return { ids: isCounted ? ids : undefined, features }
}

/** How many tokens an engine counted. Undefined where it says none. */
export function readCount(bytes: Uint8Array): number | undefined {
  const count = /"input_tokens"\s*:\s*(\d{1,9})\b/.exec(Buffer.from(bytes).toString('latin1'))?.[1]
  return count === undefined ? undefined : Number(count)
}

function idsOf(value: Value): Uint32Array | undefined {
  if (!Array.isArray(value) || value.length === 0) return undefined
  const items = value as readonly Value[]
  const ids = new Uint32Array(items.length)
  for (let index = 0; index < ids.length; index++) {
    const id = items[index]
    if (typeof id !== 'number' || !Number.isInteger(id) || id < 0 || id > 0xffff_ffff) return undefined
    ids[index] = id
  }
  return ids
}
