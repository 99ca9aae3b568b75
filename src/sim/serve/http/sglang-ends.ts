/**
 * What ends a real SGLang (0.5.23 on CPU, docs/decisions/0259), for a server that is `isFragile`: its scheduler fails, and takes the
 * server along without an answer. Written from what was seen, and not from what the router looks for.
 */
import type { SimServer } from '../sim-engine.js'
import { isSet, objectOf, textOf } from './body.js'

import type { Handler, Json, Routes } from './exchange.js'
import { sglangBody } from './sglang-errors.js'

/** Every route that reads a body ends the server by it, where the real one would. */
export function fragile(routes: Routes): Routes {
  return Object.fromEntries(
    Object.entries(routes).map(([route, handler]) => [route, route.startsWith('POST ') ? endingBy(handler) : handler]),
  )
}

function endingBy(handler: Handler): Handler {
  return async (exchange) => {
    const text = await exchange.text()
    const again = { ...exchange, text: () => Promise.resolve(text) }
    const body = await sglangBody(again).catch(() => undefined)
    if (body && isFatal(exchange.server, body)) return exchange.server.crash()
    return handler(again)
  }
}

const idNames = ['prompt', 'input_ids', 'input', 'query', 'items'] as const

function isFatal({ options }: SimServer, body: Json): boolean {
  const { vocabularySize } = options.tokenizer
  const isMissing = (id: number): boolean => !(id >= 0 && id < vocabularySize)
  const mayBeTexts = (name: string): boolean => name !== 'input_ids' && name !== 'query'
  if (idNames.some((name) => idsOf(body[name], mayBeTexts(name)).some(isMissing))) return true
  const ids = body['input_ids']
  if (Array.isArray(ids) && ids.some((it) => Array.isArray(it) && it.length === 0)) return true
  const sampling = { ...body, ...objectOf(body, 'sampling_params') }
  const isBehind = (place: number): boolean => place >= (textOf(body, 'text') ?? '').length // of its tokens there are fewer
  const isTooMuch = (name: string, most: number): boolean => Number(sampling[name] ?? 0) > most
  return (
    ['logprobs', 'top_logprobs', 'top_logprobs_num'].some((name) => isTooMuch(name, vocabularySize)) ||
    isTooMuch('top_k', 2 ** 31 - 1) ||
    (Array.isArray(body['top_logprobs_num']) && textOf(body, 'text') !== undefined) ||
    (body['positional_embed_overrides'] ?? null) !== null ||
    (sampling['max_new_tokens'] === 0 && idsOf(body['token_indices_to_pool'], false).some(isBehind)) ||
    (isSet(body, 'return_logprob') && Number(body['logprob_start_len'] ?? 0) < -1) ||
    ((isTooMuch('min_tokens', 0) || isTooMuch('min_new_tokens', 0)) &&
      idsOf(sampling['stop_token_ids'], false).some(isMissing))
  )
}

/** As its types read a list: where texts do not fit, a text of digits is a number. */
function idsOf(value: unknown, mayBeText: boolean): number[] {
  if (!Array.isArray(value) || (mayBeText && value.every((it) => typeof it === 'string'))) return []
  const lists = value.every(Array.isArray) ? (value as unknown[][]) : [value as unknown[]]
  const ids = lists.flat().map((it) => (typeof it === 'string' && it.trim() !== '' ? Number(it) : it))
  return ids.every((id): id is number => Number.isInteger(id)) ? ids : []
}
