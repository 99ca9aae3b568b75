/** vLLM's routes for a model that pools: embeddings, pooling, scores, ranks and classes, as recorded from 0.32.0. */
import { base64Of, embeddingOf, labelOf, likelihoods, likeness, logitsOf } from '../pooled.js'
import type { SimServer } from '../sim-engine.js'
import { isTokens, numberOf, textOf } from './body.js'
import type { Exchange, Handler, Json, Routes } from './exchange.js'
import { Refusal, sendJson } from './exchange.js'
import { runPooling } from './run-pooling.js'
import { badRequest, invalid, vllmBody, vllmError } from './vllm-errors.js'
import { chatPrompt } from './vllm-spec.js'

/** What each kind of model offers; nobody who pools generates. */
export function vllmPoolingRoutes({ options: { task } }: SimServer): Routes {
  const scores: Routes = Object.fromEntries([
    ...['/score', '/v1/score'].map((path): [string, Handler] => [`POST ${path}`, score]),
    ...['/rerank', '/v1/rerank', '/v2/rerank'].map((path): [string, Handler] => [`POST ${path}`, rerank]),
  ])
  return {
    'POST /pooling': pooling,
    ...(task === 'embed' ? { 'POST /v1/embeddings': embeddings } : { 'POST /classify': classify }),
    ...(task === 'classify' ? {} : scores), // several labels are no score
  }
}

async function embeddings(exchange: Exchange): Promise<void> {
  const body = await vllmBody(exchange)
  const model = poolingModel(exchange, body)
  const format = body['encoding_format'] ?? 'float'
  if (format !== 'float' && format !== 'base64')
    throw invalid(
      `{'type': 'literal_error', 'loc': 'body.encoding_format', 'msg': "Input should be 'float', 'base64', 'bytes' or 'bytes_only'", 'input': '${textOf(body, 'encoding_format') ?? 'null'}', 'ctx': {'expected': "'float', 'base64', 'bytes' or 'bytes_only'"}}`,
      'body.encoding_format',
    )
  const dimensions = numberOf(body, 'dimensions')
  if (dimensions !== undefined)
    throw badRequest(
      `Model '${model}' does not support Matryoshka embeddings; dimensions must be unset (received dimensions=${dimensions}).`,
    )
  const prompts = inputsOf(exchange, body, ['input', 'messages', 'messages', 'messages', 'input', 'messages', 'input'])
  runPooling(exchange, exchange.server.pickRank(), prompts, () =>
    sendList(exchange, 'embd', model, prompts, (tokens, index) => {
      const numbers = embeddingOf(tokens)
      return { index, object: 'embedding', embedding: format === 'base64' ? base64Of(numbers) : numbers }
    }),
  )
}

async function pooling(exchange: Exchange): Promise<void> {
  const body = await vllmBody(exchange)
  const model = poolingModel(exchange, body)
  const { task } = exchange.server.options
  checkTask(body, task === 'embed' ? ['embed', 'token_embed'] : ['token_classify', 'classify'])
  const prompts = inputsOf(exchange, body)
  const numbersOf = (tokens: readonly number[]): number[] =>
    task === 'embed' ? embeddingOf(tokens) : likelihoods(logitsOf(tokens, task))
  runPooling(exchange, exchange.server.pickRank(), prompts, () =>
    sendList(exchange, 'pooling', model, prompts, (tokens, index) => ({
      index,
      object: 'pooling',
      data: numbersOf(tokens),
    })),
  )
}

async function classify(exchange: Exchange): Promise<void> {
  const body = await vllmBody(exchange)
  const model = poolingModel(exchange, body)
  const prompts = inputsOf(exchange, body)
  runPooling(exchange, exchange.server.pickRank(), prompts, () =>
    sendList(exchange, 'classify', model, prompts, (tokens, index) => {
      const probs = likelihoods(logitsOf(tokens, exchange.server.options.task))
      return { index, label: labelOf(probs), probs, num_classes: probs.length }
    }),
  )
}

async function score(exchange: Exchange): Promise<void> {
  const body = await vllmBody(exchange)
  const model = poolingModel(exchange, body)
  const [left, right] = sidesOf(body)
  runScores(exchange, left, right, (scores, prompts) =>
    sendJson(exchange, 200, {
      ...headOf(exchange, 'score', model),
      data: scores.map((value, index) => ({ index, object: 'score', score: value })),
      usage: usageOf(prompts),
    }),
  )
}

async function rerank(exchange: Exchange): Promise<void> {
  const body = await vllmBody(exchange)
  const model = poolingModel(exchange, body)
  const query = textOf(body, 'query')
  if (query === undefined) throw missing(body, ['query'])
  const documents = body['documents']
  if (!Array.isArray(documents)) throw missing(body, ['documents'])
  if (documents.length === 0) throw badRequest('At least one text_pair element must be given')
  const texts = documents.map(String)
  const kept = numberOf(body, 'top_n') || texts.length // 0 is no limit
  runScores(exchange, [query], texts, (scores, prompts) => {
    const { prompt_tokens, total_tokens } = usageOf(prompts)
    const results = scores.map((value, index) => ({
      index,
      document: { text: texts[index], multi_modal: null },
      relevance_score: value,
    }))
    sendJson(exchange, 200, {
      id: headOf(exchange, 'score', model)['id'],
      model,
      usage: { prompt_tokens, total_tokens },
      results: results.sort((a, b) => b.relevance_score - a.relevance_score).slice(0, kept),
    })
  })
}

/** Scores one text against each of several, or pair by pair. A classifier reads both in one prompt, an embedder each alone. */
function runScores(
  exchange: Exchange,
  left: readonly string[],
  right: readonly string[],
  end: (scores: readonly number[], prompts: readonly (readonly number[])[]) => void,
): void {
  const { server } = exchange
  const { tokenizer, task } = server.options
  const count = right.length
  if (left.length !== 1 && left.length !== count) throw badRequest('Input lengths must be either 1:1, 1:N or N:N')
  const encode = (text: string): number[] => tokenizer.encode(text, { isBosAdded: true })
  const prompts =
    task === 'embed'
      ? [...left.map(encode), ...right.map(encode)]
      : right.map((text, at) => encode(`${left[left.length === 1 ? 0 : at]!}${text}`))
  for (const tokens of prompts) checkLength(server, tokens)
  runPooling(exchange, server.pickRank(), prompts, () => {
    const scores = right.map((_, at) => {
      if (task !== 'embed') return likelihoods(logitsOf(prompts[at]!, task))[0]!
      const other = prompts[left.length === 1 ? 0 : at]!
      return likeness(embeddingOf(other), embeddingOf(prompts[left.length + at]!))
    })
    end(scores, prompts)
  })
}

/** The two sides under any of their names. */
function sidesOf(body: Json): [readonly string[], readonly string[]] {
  const names = [
    ['queries', 'documents'],
    ['data_1', 'data_2'],
    ['text_1', 'text_2'],
  ] as const
  for (const [first, second] of names) {
    const sides = [body[first], body[second]].map((side) => (typeof side === 'string' ? [side] : side))
    if (sides.every((side) => Array.isArray(side))) return sides.map((side) => side.map(String)) as [string[], string[]]
  }
  // The body of each variant is tried, one that scores `items` with the same query among them.
  const items = body['items'] === undefined ? ['items'] : []
  throw missing(body, ['queries', 'documents', 'queries', ...items, 'data_1', 'data_2', 'text_1', 'text_2'])
}

/** Prompts of an `input`, or one made of `messages`; without either, each variant of the body misses its own. */
function inputsOf(exchange: Exchange, body: Json, missed: readonly string[] = ['input', 'messages']): number[][] {
  const { server } = exchange
  const { tokenizer } = server.options
  const input = body['input']
  if (input === undefined && Array.isArray(body['messages'])) {
    const prompts = [chatPrompt(exchange, body)]
    checkLength(server, prompts[0]!)
    return prompts
  }
  if (input === undefined) throw missing(body, missed)
  const items: unknown[] = typeof input === 'string' || isTokens(input) ? [input] : Array.isArray(input) ? input : []
  if (items.length === 0) throw badRequest('You must pass at least one prompt')
  return items.map((item) => {
    const tokens = typeof item === 'string' ? tokenizer.encode(item, { isBosAdded: true }) : item
    if (!isTokens(tokens))
      throw invalid("{'type': 'list_type', 'loc': 'body.input', 'msg': 'Input should be a valid list'}", 'body.input')
    checkLength(server, tokens)
    return tokens
  })
}

/** These routes say of an unknown model less than chat does. */
function poolingModel({ server }: Exchange, body: Json): string {
  const { models } = server.options
  const asked = body['model']
  if (asked === undefined || asked === null || asked === '' || models.includes(asked as string)) return models[0]!
  const name = typeof asked === 'string' ? asked : JSON.stringify(asked)
  throw new Refusal(404, vllmError(`The model \`${name}\` does not exist.`, 'NotFoundError', null, 404))
}

/** A model has one task; the one per token needs another start. */
function checkTask(body: Json, supported: readonly string[]): void {
  const task = textOf(body, 'task')
  if (task === undefined) return
  if (!supported.includes(task)) {
    const names = supported.map((name) => `'${name}'`).join(', ')
    throw badRequest(`Unsupported task: '${task}' Supported tasks: [${names}] (parameter=task)`, 'task')
  }
  if (task.startsWith('token_'))
    throw badRequest(
      `Try switching the model's pooling_task via --pooler-config.task ${task}. (parameter=task)`,
      'task',
    )
}

function checkLength({ options: { modelTokensMax } }: SimServer, { length }: readonly number[]): void {
  if (length > modelTokensMax)
    throw badRequest(
      `This model's maximum context length is ${modelTokensMax} tokens. However, your prompt contains ${length} input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=${length})`,
      'input_tokens',
    )
}

function missing(body: Json, names: readonly string[]): Refusal {
  const count = `<dict of ${Object.keys(body).length} items>`
  const lines = names.map(
    (name) => `{'type': 'missing', 'loc': 'body.${name}', 'msg': 'Field required', 'input': '${count}'}`,
  )
  const title = lines.length === 1 ? '1 validation error' : `${lines.length} validation errors`
  return new Refusal(400, vllmError(`${title}:\n  ${lines.join('\n  ')}`, 'Bad Request', `body.${names[0]!}`, 400))
}

function sendList(
  exchange: Exchange,
  prefix: string,
  model: string,
  prompts: readonly (readonly number[])[],
  item: (tokens: readonly number[], index: number) => Json,
): void {
  sendJson(exchange, 200, { ...headOf(exchange, prefix, model), data: prompts.map(item), usage: usageOf(prompts) })
}

function headOf({ server }: Exchange, prefix: string, model: string): Json {
  return {
    id: `${prefix}-${server.newId()}`,
    object: 'list',
    created: Math.floor(server.unixSeconds()),
    model,
  }
}

function usageOf(prompts: readonly (readonly number[])[]) {
  const count = prompts.reduce((sum, { length }) => sum + length, 0)
  return {
    prompt_tokens: count,
    total_tokens: count,
    completion_tokens: 0,
    prompt_tokens_details: null,
    completion_tokens_details: null,
  }
}
