/** SGLang's routes for models that pool, as recorded from 0.5.23. They are there on every server; one that generates refuses. */
import { base64Of, embeddingOf, labelOf, logitsOf, softmax } from '../pooled.js'
import type { SimServer } from '../sim-engine.js'
import { isSet, isTokens, numberOf, textOf } from './body.js'
import type { Exchange, Handler, Json, Routes } from './exchange.js'
import { Refusal, sendJson } from './exchange.js'
import { runPooling } from './run-pooling.js'
import { checkLength, checkQueue, plainRefusal, sglangBody, sglangRefusal } from './sglang-errors.js'

const notEmbedding =
  'This model does not appear to be an embedding model by default. Please add `--is-embedding` when launching the server or try another model.'

export const sglangPoolingRoutes: Routes = {
  'POST /v1/embeddings': embeddings,
  'POST /v1/classify': classify,
  'POST /v1/rerank': rerank,
  'POST /v1/score': score,
  'POST /classify': encode,
  'POST /encode': encode,
}

/** A request for text ends an SGLang that pools: its scheduler fails, and takes the server along. */
export function generating(handler: Handler): Handler {
  return (exchange) => (exchange.server.options.task === 'generate' ? handler(exchange) : void exchange.server.crash())
}

async function embeddings(exchange: Exchange): Promise<void> {
  const { server } = exchange
  const body = await sglangBody(exchange)
  const format = body['encoding_format'] ?? 'float'
  if (format !== 'float' && format !== 'base64')
    throw sglangRefusal(
      `encoding_format must be either 'float' or 'base64', got '${textOf(body, 'encoding_format') ?? 'null'}'`,
    )
  const prompts = inputsOf(exchange, body)
  const { root } = server.options
  if (numberOf(body, 'dimensions') !== undefined)
    throw sglangRefusal(
      `Model '${root}' does not support matryoshka representation, changing output dimensions will lead to poor results.`,
    )
  pool(exchange, prompts, (rows) =>
    sendJson(exchange, 200, {
      data: rows.map((row, index) => ({
        embedding: format === 'base64' ? base64Of(row) : row,
        index,
        object: 'embedding',
      })),
      model: root,
      object: 'list',
      usage: usageOf(prompts),
    }),
  )
}

async function classify(exchange: Exchange): Promise<void> {
  const { server } = exchange
  const { models, task } = server.options
  const prompts = inputsOf(exchange, await sglangBody(exchange))
  pool(exchange, prompts, (rows) =>
    sendJson(exchange, 200, {
      id: `classify-${server.newId()}${server.newId()}`,
      object: 'list',
      created: Math.floor(server.unixSeconds()),
      model: models[0],
      data: rows.map((row, index) => {
        // An embedding has more numbers than the model has labels.
        const probs = task === 'embed' ? [1] : softmax(row)
        return { index, label: task === 'embed' ? 'Default' : labelOf(probs), probs, num_classes: probs.length }
      }),
      usage: usageOf(prompts),
    }),
  )
}

/** SGLang's own spelling of both routes: `text` or `input_ids`, one or several. */
async function encode(exchange: Exchange): Promise<void> {
  const { server } = exchange
  const body = await sglangBody(exchange)
  const given = body['text'] ?? body['input_ids']
  if (given === undefined || given === null)
    throw plainRefusal('At least one of text, input_ids, image, video, or audio should be provided')
  const isSeveral = Array.isArray(given) && !isTokens(given)
  const prompts = encodeAll(server, isSeveral ? given : [given])
  if (server.options.task === 'generate') throw plainRefusal(notEmbedding)
  const startedSeconds = server.unixSeconds()
  pool(exchange, prompts, (rows) => {
    const answers = rows.map((embedding, at) => ({
      embedding,
      meta_info: metaOf(server, prompts[at]!.length, startedSeconds),
    }))
    sendJson(exchange, 200, isSeveral ? answers : answers[0])
  })
}

async function rerank(exchange: Exchange): Promise<void> {
  const { server } = exchange
  const body = await sglangBody(exchange)
  const query = textOf(body, 'query')
  const documents = body['documents']
  if (query === undefined) throw missing('query')
  if (!Array.isArray(documents)) throw missing('documents')
  if (query === '') throw sglangRefusal('Query cannot be empty')
  if (documents.length === 0) throw sglangRefusal('Documents cannot be empty')
  const kept = numberOf(body, 'top_n') ?? documents.length
  if (kept < 1)
    throw badRequest(
      "1 validation error:\n  {'type': 'value_error', 'loc': ('body', 'top_n'), 'msg': 'Value error, Value error, parameter top_n should be larger than 0.'}",
    )
  const prompts = encodeAll(
    server,
    documents.map((text) => `${query}${String(text)}`),
  )
  requirePooling(server)
  const startedSeconds = server.unixSeconds()
  pool(exchange, prompts, (rows) => {
    const ranked = rows.map((row, index) => ({
      score: row[0]!,
      ...(body['return_documents'] === false ? {} : { document: String(documents[index]) }),
      index,
      meta_info: metaOf(server, prompts[index]!.length, startedSeconds),
    }))
    sendJson(exchange, 200, ranked.sort((a, b) => b.score - a.score).slice(0, kept))
  })
}

/** A model that generates is asked how likely each of some tokens comes next; one that pools says what it pools. */
async function score(exchange: Exchange): Promise<void> {
  const { server } = exchange
  const { tokenizer, task, models } = server.options
  const body = await sglangBody(exchange)
  const labels = body['label_token_ids']
  if (task === 'generate' && !isTokens(labels))
    throw sglangRefusal('label_token_ids is required for generation (CausalLM) models.')
  const items = typeof body['items'] === 'string' ? [body['items']] : body['items']
  if (!Array.isArray(items) || items.length === 0) throw sglangRefusal('items must be provided')
  const query = textOf(body, 'query') ?? ''
  const prompts = encodeAll(
    server,
    items.map((item) => `${query}${String(item)}`),
  )
  pool(exchange, prompts, (rows) => {
    const raw =
      task === 'generate' ? rows.map((row) => (labels as number[]).map((label) => row[label % row.length]!)) : rows
    const spread = (row: readonly number[]): readonly number[] =>
      isSet(body, 'apply_softmax')
        ? softmax(row)
        : task === 'generate'
          ? likelyTokens(row, tokenizer.vocabularySize)
          : row
    sendJson(exchange, 200, {
      scores: raw.map(spread),
      pooled_hidden_states: null,
      token_logprobs: null,
      model: models[0],
      usage: usageOf(prompts),
      object: 'scoring',
    })
  })
}

/** The likelihood of single tokens among all of a vocabulary, where hardly any stands out. */
function likelyTokens(row: readonly number[], vocabularySize: number): number[] {
  return row.map((logit) => Math.exp(logit) / vocabularySize)
}

/** Each prompt's numbers: an embedding, or a classifier's raw ones. */
function pool(
  exchange: Exchange,
  prompts: readonly (readonly number[])[],
  end: (rows: readonly (readonly number[])[]) => void,
): void {
  const { server } = exchange
  const { task } = server.options
  const rank = server.pickRank()
  checkQueue(server, rank)
  const isClassifier = task === 'score' || task === 'classify'
  runPooling(exchange, rank, prompts, () =>
    end(prompts.map((tokens) => (isClassifier ? logitsOf(tokens, task) : embeddingOf(tokens)))),
  )
}

function inputsOf({ server }: Exchange, body: Json): number[][] {
  const input = body['input']
  if (input === undefined) throw missing('input')
  if (input === '' || input === null || (Array.isArray(input) && input.length === 0))
    throw sglangRefusal('Input cannot be empty')
  if (typeof input === 'string' && input.trim() === '') throw sglangRefusal('Input cannot be empty or whitespace only')
  const prompts = encodeAll(server, Array.isArray(input) && !isTokens(input) ? input : [input])
  requirePooling(server)
  return prompts
}

function encodeAll(server: SimServer, items: readonly unknown[]): number[][] {
  const { tokenizer } = server.options
  return items.map((item) => {
    const tokens = typeof item === 'string' ? tokenizer.encode(item, { isBosAdded: true }) : item
    if (!isTokens(tokens)) throw sglangRefusal('All items in input list must be strings')
    checkLength(server, tokens)
    return tokens
  })
}

function requirePooling({ options }: SimServer): void {
  if (options.task === 'generate') throw sglangRefusal(notEmbedding)
}

function badRequest(message: string): Refusal {
  return new Refusal(400, { object: 'error', message, type: 'Bad Request', param: null, code: 400 })
}

function missing(name: string): Refusal {
  return badRequest(`1 validation error:\n  {'type': 'missing', 'loc': ('body', '${name}'), 'msg': 'Field required'}`)
}

function metaOf(server: SimServer, promptTokens: number, startedSeconds: number): Json {
  const now = server.unixSeconds()
  return {
    id: server.newId() + server.newId(),
    finish_reason: { type: 'length', length: 0 },
    prompt_tokens: promptTokens,
    weight_version: 'default',
    num_retractions: 0,
    queue_time: 0,
    e2e_latency: now - startedSeconds,
    request_received_ts: startedSeconds,
    first_token_latency: now - startedSeconds,
    api_server_dispatch_finish_ts: startedSeconds,
    request_finished_ts: now,
    response_sent_to_client_ts: now,
  }
}

function usageOf(prompts: readonly (readonly number[])[]): Json {
  const count = prompts.reduce((sum, { length }) => sum + length, 0)
  return {
    prompt_tokens: count,
    total_tokens: count,
    completion_tokens: 0,
    prompt_tokens_details: null,
    reasoning_tokens: 0,
    completion_tokens_details: null,
  }
}
