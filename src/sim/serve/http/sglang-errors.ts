/** SGLang's flat error bodies and the checks that lead to them, worded as recorded from 0.5.23. */
import type { SimServer } from '../sim-engine.js'
import { isTokens, numberOf } from './body.js'
import type { Exchange, Json } from './exchange.js'
import { header, Refusal } from './exchange.js'

export function sglangError(message: string, type: string, code: number): Json {
  return { object: 'error', message, type, param: null, code }
}

export function sglangRefusal(message: string, status = 400): Refusal {
  return new Refusal(
    status,
    sglangError(message, status === 503 ? 'ServiceUnavailableError' : 'BadRequestError', status),
  )
}

/** How the server's own routes refuse, `/generate` among them. */
export function plainRefusal(message: string): Refusal {
  return new Refusal(400, { error: { message } })
}

export async function sglangBody(exchange: Exchange): Promise<Json> {
  const type = header(exchange, 'content-type') ?? ''
  if (!/^application\/json\b/.test(type))
    throw new Refusal(
      400,
      sglangError("Unsupported Media Type: Only 'application/json' is allowed", 'Bad Request', 400),
    )
  const text = await exchange.text()
  try {
    const json: unknown = JSON.parse(text)
    if (typeof json === 'object' && json !== null && !Array.isArray(json)) return json as Json
  } catch (error) {
    const at = /position (\d+)/.exec(error instanceof Error ? error.message : '')?.[1] ?? String(text.length)
    const detail = `{'type': 'json_invalid', 'loc': ('body', ${at}), 'msg': 'JSON decode error', 'input': {}, 'ctx': {'error': 'unexpected end of data'}}`
    throw new Refusal(400, sglangError(`1 validation error:\n  ${detail}`, 'Bad Request', 400))
  }
  throw new Refusal(400, sglangError('1 validation error', 'Bad Request', 400))
}

/** `pinned` is the header `X-Data-Parallel-Rank`: it wins over `routed_dp_rank`, which replaced `data_parallel_rank`. */
export function sglangRank(server: SimServer, body: Json, pinned: string | undefined): number {
  const named = pinned !== undefined && /^\s*-?\d+\s*$/.test(pinned) ? Number(pinned) : undefined
  const rank = named ?? numberOf(body, 'routed_dp_rank') ?? numberOf(body, 'data_parallel_rank')
  if (rank === undefined) return server.pickRank()
  if (rank >= 0 && rank < server.ranks.length) return rank
  throw sglangRefusal(`routed_dp_rank=${rank} out of range [0, ${server.ranks.length})`)
}

export function checkLength(server: SimServer, tokens: readonly number[], refusal = sglangRefusal): void {
  const limit = inputTokensMax(server)
  if (tokens.length > limit)
    throw refusal(
      `Input length (${tokens.length} tokens) exceeds the maximum allowed length (${limit} tokens). Use a shorter input or enable --allow-auto-truncate.`,
    )
}

/** A few tokens less than the pool holds, and no more than the model reads. */
export function inputTokensMax(server: SimServer): number {
  const { blocks, blockTokens, modelTokensMax } = server.options
  return Math.min(modelTokensMax - 1, blocks * blockTokens - 6)
}

export function checkQueue(server: SimServer, rank: number): void {
  if (server.ranks[rank]!.engine.scheduler.waitingCount >= server.options.queuedMax)
    throw sglangRefusal('The request queue is full.', 503)
}

export function sglangPrompts(server: SimServer, body: Json): number[][] {
  const prompt = body['prompt']
  const { tokenizer } = server.options
  const encode = (text: string): number[] => tokenizer.encode(text, { isBosAdded: true })
  const prompts =
    typeof prompt === 'string'
      ? [encode(prompt)]
      : isTokens(prompt)
        ? [prompt]
        : Array.isArray(prompt) && prompt.length > 0
          ? prompt.map((it: unknown) => (typeof it === 'string' ? encode(it) : it))
          : undefined
  if (!prompts) throw sglangRefusal('Prompt cannot be empty')
  for (const tokens of prompts) {
    if (!isTokens(tokens)) throw sglangRefusal('Prompt must be a string or a list of token ids')
    checkLength(server, tokens)
  }
  return prompts as number[][]
}
