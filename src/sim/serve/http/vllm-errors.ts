/** vLLM's error bodies and the checks that lead to them, worded as recorded from 0.32.0. */
import type { SimServer } from '../sim-engine.js'
import { isTokens } from './body.js'
import type { Exchange, Json } from './exchange.js'
import { header, Refusal } from './exchange.js'

export function vllmError(message: string, type: string, param: string | null, code: number): Json {
  return { error: { message, type, param, code } }
}

export function badRequest(message: string, param: string | null = null): Refusal {
  return new Refusal(400, vllmError(message, 'BadRequestError', param, 400))
}

/** Parses a JSON body as vLLM does, with its words for what is wrong. */
export async function vllmBody(exchange: Exchange): Promise<Json> {
  const type = header(exchange, 'content-type') ?? ''
  if (!/^application\/json\b/.test(type))
    throw invalid("Unsupported Media Type: Only 'application/json' is allowed", null)
  const text = await exchange.text()
  try {
    const json: unknown = JSON.parse(text)
    if (typeof json === 'object' && json !== null && !Array.isArray(json)) return json as Json
  } catch (error) {
    const at = /position (\d+)/.exec(error instanceof Error ? error.message : '')?.[1] ?? String(text.length)
    throw invalid(
      `{'type': 'json_invalid', 'loc': 'body.${at}', 'msg': 'JSON decode error', 'input': '<dict of 0 items>', 'ctx': {'error': 'Expecting value'}}`,
      `body.${at}`,
    )
  }
  throw invalid("{'type': 'model_attributes_type', 'loc': 'body', 'msg': 'Input should be a valid dictionary'}", 'body')
}

export function invalid(detail: string, param: string | null): Refusal {
  return new Refusal(400, vllmError(`1 validation error:\n  ${detail}`, 'Bad Request', param, 400))
}

/** The name to answer with, and the adapter if the request named one. */
export function vllmModel(
  server: SimServer,
  body: Json,
): { readonly name: string; readonly adapter: string | undefined } {
  const { models, adapters } = server.options
  const asked = body['model']
  if (asked === undefined || asked === null || asked === '') return { name: models[0]!, adapter: undefined }
  if (typeof asked === 'string' && adapters.includes(asked)) return { name: asked, adapter: asked }
  if (typeof asked === 'string' && models.includes(asked)) return { name: models[0]!, adapter: undefined }
  const message = `The model \`${typeof asked === 'string' ? asked : JSON.stringify(asked)}\` does not exist. Valid aliases: ${[...models, ...adapters].join(', ')}.`
  throw new Refusal(404, vllmError(message, 'NotFoundError', 'model', 404))
}

/** The rank that the header pins; anything that is no integer is ignored. */
export function vllmRank(exchange: Exchange): number {
  const { server } = exchange
  const text = header(exchange, 'x-data-parallel-rank')
  if (text === undefined || !/^\s*[+-]?\d+\s*$/.test(text)) return server.pickRank()
  const rank = Number(text)
  if (rank >= 0 && rank < server.ranks.length) return rank
  throw badRequest(`data_parallel_rank ${rank} is out of range [0, ${server.ranks.length}).`)
}

export function checkSampling(body: Json): void {
  const temperature = body['temperature']
  if (typeof temperature === 'number' && temperature < 0)
    throw badRequest(
      `temperature must be non-negative, got ${pythonFloat(temperature)}. (parameter=temperature, value=${pythonFloat(temperature)})`,
      'temperature',
    )
}

/** How many tokens may be generated after `promptTokens`; undefined when the client set no limit. */
export function outputLimit(server: SimServer, asked: number | undefined, promptTokens: number): number | undefined {
  const { modelTokensMax } = server.options
  if (promptTokens > modelTokensMax)
    throw badRequest(
      `This model's maximum context length is ${modelTokensMax} tokens. However, your prompt contains at least ${modelTokensMax + 1} input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=${modelTokensMax + 1})`,
      'input_tokens',
    )
  if (asked !== undefined && asked > modelTokensMax)
    throw badRequest(
      `max_tokens=${asked} cannot be greater than max_model_len=${modelTokensMax}. Please request fewer output tokens. (parameter=max_tokens, value=${asked})`,
      'max_tokens',
    )
  const limit = asked === undefined ? undefined : Math.min(asked, modelTokensMax - promptTokens)
  if ((limit ?? modelTokensMax - promptTokens) < 1)
    throw badRequest(
      `max_tokens must be at least 1, got ${limit ?? 0}. (parameter=max_tokens, value=${limit ?? 0})`,
      'max_tokens',
    )
  return limit
}

export function checkTokens(server: SimServer, tokens: readonly number[]): void {
  const { vocabularySize } = server.options.tokenizer
  const foreign = tokens.find((token) => token >= vocabularySize)
  if (foreign !== undefined) throw badRequest(`Token id ${foreign} is out of vocabulary`)
}

/** Prompts of a completion: text, texts, ids, or lists of ids. */
export function promptsOf(server: SimServer, body: Json): number[][] {
  const prompt = body['prompt']
  const { tokenizer } = server.options
  const isBosAdded = body['add_special_tokens'] !== false
  const encode = (text: string): number[] => tokenizer.encode(text, { isBosAdded })
  if (typeof prompt === 'string') return [encode(prompt)]
  if (!Array.isArray(prompt) || prompt.length === 0) throw badRequest('You must pass at least one prompt')
  const prompts = isTokens(prompt) ? [prompt] : prompt.map((it: unknown) => (typeof it === 'string' ? encode(it) : it))
  for (const tokens of prompts) {
    if (!isTokens(tokens))
      throw invalid("{'type': 'list_type', 'loc': 'body.prompt', 'msg': 'Input should be a valid list'}", 'body.prompt')
    checkTokens(server, tokens)
  }
  return prompts as number[][]
}

function pythonFloat(value: number): string {
  return Number.isInteger(value) ? value.toFixed(1) : String(value)
}
