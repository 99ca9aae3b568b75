/** Every route of a simulated SGLang. */
import type { Choice } from '../generation.js'
import type { SimServer } from '../sim-engine.js'
import { answerMessages, sglangMessages } from './anthropic-messages.js'
import { chatOf } from './converted-chat.js'
import { isSet, isTokens, numberOf, objectOf, textOf } from './body.js'
import { EventStream } from './event-stream.js'
import type { Exchange, Json, Routes } from './exchange.js'
import { header, Refusal, sendJson, sendText } from './exchange.js'
import { fragile } from './sglang-ends.js'
import { checkLength, checkQueue, plainRefusal, sglangBody, sglangRank, sglangRefusal } from './sglang-errors.js'
import { preparePair, runLeg } from './sglang-pair.js'
import { sglangMetrics } from './sglang-metrics.js'
import { chatTokens, sglangChat, sglangCompletions, sglangSpec } from './sglang-openai.js'
import { generating, sglangPoolingRoutes } from './sglang-pooling.js'
import { refuseStored, sglangResponses } from './sglang-responses.js'
import { loads, metaInfo, pairMode, serverInfo } from './sglang-shapes.js'

export function sglangRoutes(server: SimServer): Routes {
  const routes = allRoutes(server)
  return server.options.isFragile ? fragile(routes) : routes
}

function allRoutes(server: SimServer): Routes {
  const info = (exchange: Exchange): void => sendJson(exchange, 200, serverInfo(server))
  return {
    'GET /': (exchange) => sendJson(exchange, 200, 'SGLang is running'),
    'GET /health': health,
    'GET /health_generate': health,
    'GET /ping': (exchange) => sendText(exchange, 200, ''),
    'GET /server_info': info,
    'GET /get_server_info': info,
    'GET /model_info': (exchange) => sendJson(exchange, 200, modelInfo(server)),
    'GET /v1/models': (exchange) => sendJson(exchange, 200, modelCards(server)),
    'GET /v1/loads': (exchange) => sendJson(exchange, 200, loads(server)),
    'GET /metrics': (exchange) =>
      sendText(exchange, 200, sglangMetrics(server), { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' }),
    'POST /tokenize': tokenize,
    'POST /v1/tokenize': tokenize,
    'POST /detokenize': detokenize,
    'POST /v1/detokenize': detokenize,
    'POST /generate': generating(generate),
    'POST /v1/completions': generating(sglangCompletions),
    'POST /v1/chat/completions': generating(sglangChat),
    'POST /v1/responses': generating(sglangResponses),
    'GET /v1/responses/{id}': refuseStored,
    'POST /v1/responses/{id}/cancel': refuseStored,
    'POST /v1/messages': generating(messages),
    'POST /v1/messages/count_tokens': countTokens,
    ...sglangPoolingRoutes,
    'POST /flush_cache': flush,
    'GET /flush_cache': flush,
    'POST /abort_request': abort,
    'POST /open_session': openSession,
    'POST /close_session': closeSession,
  }
}

/** Generates a token and looks for it once a second, so it never answers sooner. */
function health(exchange: Exchange): void {
  const { server } = exchange
  server.clock.at(server.clock.now() + server.options.healthMs, () => sendText(exchange, 200, ''))
}

function flush(exchange: Exchange): void {
  const { server } = exchange
  const isIdle = server.ranks.every((rank) => !rank.isBusy)
  const isDone = isIdle && server.ranks.map((rank) => rank.reset()).every(Boolean)
  const note =
    'Please check backend logs for more details. (When there are running or waiting requests, the operation will not be performed.)\n'
  sendText(exchange, isDone ? 200 : 400, isDone ? `Cache flushed.\n${note}` : `Flush cache failed.\n${note}`)
}

/** Ends one request by its `rid`, or all; one that is not there is no error. */
async function abort(exchange: Exchange): Promise<void> {
  const { live } = exchange.server
  const body = await sglangBody(exchange)
  const rid = body['rid']
  if (isSet(body, 'abort_all')) for (const generation of live.values()) generation.abort()
  else if (typeof rid === 'string') live.get(rid)?.abort()
  sendText(exchange, 200, '')
}

/** Answers with the id as bare JSON text. */
async function openSession(exchange: Exchange): Promise<void> {
  const { server } = exchange
  const body = await sglangBody(exchange)
  if (numberOf(body, 'capacity_of_str_len') === undefined)
    throw sglangRefusal("1 validation error:\n  {'type': 'missing', 'loc': ('body', 'capacity_of_str_len')}")
  if (isSet(body, 'streaming'))
    throw sglangRefusal('Streaming sessions are disabled. Please relaunch with --enable-streaming-session.')
  const id = textOf(body, 'session_id') ?? server.newId() + server.newId()
  if (!server.sessions.open(id, numberOf(body, 'timeout')))
    throw plainRefusal('Failed to open the session. Check if a session with the same id is still open.')
  sendJson(exchange, 200, id)
}

/** One that is not there is no error. */
async function closeSession(exchange: Exchange): Promise<void> {
  const id = textOf(await sglangBody(exchange), 'session_id')
  if (id !== undefined) exchange.server.sessions.close(id)
  sendText(exchange, 200, '')
}

/** Only this route runs inside a session; the OpenAI routes take the field and leave it. */
function joinSession(server: SimServer, body: Json): void {
  const params = objectOf(body, 'session_params')
  if (params && textOf(body, 'session_id') !== undefined)
    throw plainRefusal('session_id and session_params cannot both be set.')
  const id = textOf(params ?? {}, 'id')
  if (id !== undefined && !server.sessions.join(id))
    throw plainRefusal(`Invalid request: session id ${id} does not exist`)
}

async function generate(exchange: Exchange): Promise<void> {
  const { server } = exchange
  const body = await sglangBody(exchange)
  const sampling = objectOf(body, 'sampling_params') ?? {}
  const prompt = generatePrompt(server, body)
  checkLength(server, prompt, plainRefusal)
  joinSession(server, body)
  const leg = await preparePair(exchange, body, undefined) // this route ignores the header
  checkQueue(server, leg.rank)
  const fields = {
    id: typeof body['rid'] === 'string' ? body['rid'] : server.newId() + server.newId(),
    startedSeconds: server.unixSeconds(),
    rank: server.ranks.length > 1 ? leg.rank : null,
  }
  const spec = {
    ...sglangSpec(exchange, { ...body, ...sampling }, [prompt], numberOf(sampling, 'max_new_tokens') ?? 128),
    choices: 1,
    id: fields.id,
  }
  const reply = (choice: Choice): Json => ({
    text: choice.text,
    output_ids: choice.tokens,
    meta_info: metaInfo(choice, fields),
  })
  if (!isSet(body, 'stream'))
    return runLeg(exchange, leg, spec, {
      token() {},
      end: ([choice]) => sendJson(exchange, 200, reply(choice!)),
    })
  const stream = new EventStream(server, exchange.response)
  runLeg(exchange, leg, spec, {
    token: (choice) => stream.data(JSON.stringify(reply(choice))),
    end() {
      stream.data('[DONE]')
      stream.end()
    },
  })
}

function generatePrompt(server: SimServer, body: Json): number[] {
  const ids = body['input_ids']
  if (isTokens(ids)) return ids
  const text = body['text']
  if (typeof text === 'string') return server.options.tokenizer.encode(text, { isBosAdded: true })
  throw plainRefusal('Either text, input_ids or input_embeds should be provided.')
}

async function tokenize(exchange: Exchange): Promise<void> {
  const { tokenizer, modelTokensMax } = exchange.server.options
  const body = await sglangBody(exchange)
  const prompt = body['prompt']
  const isBosAdded = body['add_special_tokens'] !== false
  const encode = (text: string): number[] => tokenizer.encode(text, { isBosAdded })
  const answer = (tokens: unknown, count: unknown): void =>
    sendJson(exchange, 200, { tokens, count, max_model_len: modelTokensMax })
  if (typeof prompt === 'string') {
    const tokens = encode(prompt)
    answer(tokens, tokens.length)
  } else if (Array.isArray(prompt)) {
    const lists = prompt.map((text) => encode(String(text)))
    answer(
      lists,
      lists.map(({ length }) => length),
    )
  } else {
    const tokens = chatTokens(exchange, body)
    answer(tokens, tokens.length)
  }
}

async function detokenize(exchange: Exchange): Promise<void> {
  const body = await sglangBody(exchange)
  const { tokenizer } = exchange.server.options
  const tokens = body['tokens']
  const decode = (ids: readonly number[]): string =>
    tokenizer.decode(body['skip_special_tokens'] === false ? ids : ids.filter((id) => id > 2))
  if (isTokens(tokens)) sendJson(exchange, 200, { text: decode(tokens) })
  else if (Array.isArray(tokens) && tokens.every(isTokens)) sendJson(exchange, 200, { text: tokens.map(decode) })
  else throw sglangRefusal('tokens must be a list of token ids')
}

async function messages(exchange: Exchange): Promise<void> {
  const { server } = exchange
  const body = await sglangBody(exchange)
  const prompt = messageTokens(exchange, body)
  const limit = numberOf(body, 'max_tokens')
  if (limit === undefined) throw anthropicRefusal('max_tokens: Field required')
  checkLength(server, prompt)
  const rank = sglangRank(server, {}, header(exchange, 'x-data-parallel-rank')) // this route ignores the body's fields
  checkQueue(server, rank)
  const spec = sglangSpec(exchange, body, [prompt], limit)
  const model = typeof body['model'] === 'string' ? body['model'] : server.options.models[0]!
  const head = { id: `msg_${server.newId()}${server.newId()}`, model, shapes: sglangMessages }
  answerMessages(exchange, body, head, rank, { ...spec, choices: 1 })
}

async function countTokens(exchange: Exchange): Promise<void> {
  sendJson(exchange, 200, { input_tokens: messageTokens(exchange, await sglangBody(exchange)).length })
}

function messageTokens(exchange: Exchange, body: Json): number[] {
  const messages = body['messages']
  if (!Array.isArray(messages)) throw anthropicRefusal('messages: Field required')
  if (messages.length === 0) throw anthropicRefusal('Messages cannot be empty.')
  const { reasoningParser } = exchange.server.options
  return chatTokens(exchange, chatOf('messages', body, 'sglang', anthropicRefusal, reasoningParser))
}

function anthropicRefusal(message: string): Refusal {
  return new Refusal(400, { type: 'error', error: { type: 'invalid_request_error', message } })
}

function modelInfo(server: SimServer): Json {
  const { root, models, task, reasoningParser } = server.options
  const isGeneration = task === 'generate'
  return {
    model_path: root,
    served_model_name: models[0],
    tokenizer_path: root,
    is_generation: isGeneration,
    preferred_sampling_params: null,
    weight_version: 'default',
    load_format: 'dummy',
    reasoning_parser: reasoningParser,
    tool_call_parser: null,
    disaggregation_mode: pairMode(server),
    has_image_understanding: false,
    has_audio_understanding: false,
    model_type: 'llama',
    architectures: [task === 'score' || task === 'classify' ? 'LlamaForSequenceClassification' : 'LlamaForCausalLM'],
  }
}

function modelCards(server: SimServer): Json {
  const { models, adapters, root, modelTokensMax } = server.options
  const created = Math.floor(server.unixSeconds())
  const card = (id: string, path: string, parent: string | null): Json => ({
    id,
    object: 'model',
    created,
    owned_by: 'sglang',
    root: path,
    parent,
    max_model_len: parent === null ? modelTokensMax : null,
  })
  return {
    object: 'list',
    data: [
      ...models.map((name) => card(name, root, null)),
      ...adapters.map((name) => card(name, `./adapters/${name}`, models[0]!)),
    ],
  }
}
