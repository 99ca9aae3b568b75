/**
 * `POST /v1/responses` of vLLM, whole, streamed and in the background, for plain text in and out. Its prompt begins with BOS
 * twice, as recorded.
 */
import type { Choice, GenerationSink, GenerationSpec } from '../generation.js'
import type { KeptResponse } from '../kept-response.js'
import { EventLog } from '../kept-response.js'
import { isSet, numberOf, textOf } from './body.js'
import { chatOf } from './converted-chat.js'
import { EventStream } from './event-stream.js'
import type { Exchange, Json } from './exchange.js'
import { Refusal, sendJson } from './exchange.js'
import type { ResponseHead } from './responses-parts.js'
import { textPart } from './responses-parts.js'
import { runGeneration } from './run-generation.js'
import { badRequest, checkSampling, invalid, outputLimit, vllmBody, vllmError, vllmModel } from './vllm-errors.js'
import { chatPrompt, toSpec } from './vllm-spec.js'
import { keptResponse, tellEvents } from './vllm-stored.js'

export async function vllmResponses(exchange: Exchange): Promise<void> {
  const { server } = exchange
  const body = await vllmBody(exchange)
  const { name, adapter } = vllmModel(server, body)
  const isBackground = isSet(body, 'background')
  if (isBackground) requireStore(exchange, body)
  const conversation = conversationOf(exchange, body)
  const prompt = responsesPrompt(exchange, conversation)
  checkSampling(body)
  const limit = outputLimit(server, numberOf(body, 'max_output_tokens'), prompt.length)
  const head: ResponseHead = {
    id: `resp_${server.newId()}`,
    messageId: `msg_${server.newId()}`,
    created: Math.floor(server.unixSeconds()),
    model: name,
  }
  const spec = { ...toSpec(exchange, body, [prompt], { outputTokensMax: limit, adapter }), choices: 1, id: head.id }
  const rank = server.pickRank() // this route ignores the header
  const keep = (choice: Choice): void =>
    keepResponse(exchange, conversation, head, response(body, head, choice), choice)
  if (isBackground) return inBackground(exchange, body, head, { rank, spec, keep, conversation })
  if (isSet(body, 'stream')) {
    const stream = new EventStream(server, exchange.response)
    stream.open()
    return void runGeneration(exchange, rank, spec, eventSink(body, head, keep, stream))
  }
  runGeneration(exchange, rank, spec, {
    token() {},
    end: ([choice]) => {
      keep(choice!)
      sendJson(exchange, 200, response(body, head, choice))
    },
  })
}

/** The client has its answer at once, or listens; the work goes on without it. */
function inBackground(exchange: Exchange, body: Json, head: ResponseHead, work: Work): void {
  const { server } = exchange
  const { rank, spec, keep, conversation } = work
  const log = isSet(body, 'stream') ? new EventLog() : undefined
  const answer = { ...response(body, head, undefined), status: 'queued' }
  const kept: KeptResponse = { answer, conversation: itemsOf(conversation['input']), events: log }
  server.responses.set(head.id, kept)
  const sink = log
    ? eventSink(body, head, keep, { named: (type, json) => log.add(type, json), end() {} })
    : { token() {}, end: ([choice]: readonly Choice[]) => keep(choice!) }
  kept.generation = runGeneration(exchange, rank, spec, sink, 'outlives its client')
  if (log) tellEvents(exchange, log, 0)
  else sendJson(exchange, 200, answer)
}

interface Work {
  readonly rank: number
  readonly spec: GenerationSpec
  readonly keep: (choice: Choice) => void
  readonly conversation: Json
}

function requireStore({ server }: Exchange, body: Json): void {
  if (body['store'] === false)
    throw badRequest('background can only be used when `store` is true (parameter=background)', 'background')
  if (server.options.isResponseStore) return
  const message =
    'This vLLM engine does not support `store=True` and therefore does not support the background mode. To enable these features, set the environment variable `VLLM_ENABLE_RESPONSES_API_STORE=1` when launching the vLLM server.'
  throw new Refusal(400, vllmError(message, 'invalid_request_error', 'background', 400))
}

/** The body with all of the conversation in it. */
function conversationOf(exchange: Exchange, body: Json): Json {
  const id = textOf(body, 'previous_response_id')
  if (id === undefined) return body
  const { conversation } = keptResponse(exchange, id)
  return { ...body, previous_response_id: undefined, input: [...conversation, ...itemsOf(body['input'])] }
}

/** What was cancelled stays so. */
function keepResponse({ server }: Exchange, body: Json, { id }: ResponseHead, answer: Json, { text }: Choice): void {
  if (!server.options.isResponseStore || body['store'] === false) return
  const kept = server.responses.get(id)
  if (kept?.answer['status'] === 'cancelled') return
  const conversation = [...itemsOf(body['input']), { role: 'assistant', content: text }]
  server.responses.set(id, { answer, conversation, events: kept?.events })
}

function itemsOf(input: unknown): readonly unknown[] {
  return Array.isArray(input) ? input : [{ role: 'user', content: input }]
}

/** Tokens of an `input`: text, or messages, after the instructions. */
export function responsesPrompt(exchange: Exchange, body: Json): number[] {
  const { tokenizer } = exchange.server.options
  const input = body['input']
  if (typeof input !== 'string' && !Array.isArray(input))
    throw invalid("{'type': 'string_type', 'loc': 'body.input', 'msg': 'Input should be a valid string'}", 'body.input')
  const tokens = chatPrompt(exchange, chatOf('responses', body, 'vllm', badRequest))
  const bos = tokenizer.encode('', { isBosAdded: true })
  return [...bos, ...tokens]
}

function eventSink(body: Json, head: ResponseHead, keep: (choice: Choice) => void, stream: EventTaker): GenerationSink {
  let sequence = 0
  const say = (type: string, fields: Json): void =>
    stream.named(type, JSON.stringify({ ...fields, sequence_number: sequence++, type }))
  const place = { content_index: 0 }
  const item = { item_id: head.messageId }
  return {
    token(choice: Choice, _: number, text: string): void {
      if (choice.tokens.length === 1) {
        say('response.created', { response: response(body, head, undefined) })
        say('response.in_progress', { response: response(body, head, undefined) })
        say('response.output_item.added', { item: message(head, []), output_index: 0 })
        const part = { annotations: [], text: '', type: 'output_text', logprobs: [] }
        say('response.content_part.added', { ...place, ...item, output_index: 0, part })
      }
      if (text !== '')
        say('response.output_text.delta', { ...place, delta: text, ...item, logprobs: [], output_index: 0 })
    },
    end([choice]: readonly Choice[]): void {
      const { text } = choice!
      keep(choice!)
      stream.named(
        'response.output_text.done',
        JSON.stringify({
          ...place,
          ...item,
          logprobs: [],
          output_index: 0,
          sequence_number: sequence++,
          text,
          type: 'response.output_text.done',
        }),
      )
      say('response.content_part.done', { ...place, ...item, output_index: 0, part: textPart(text) })
      say('response.output_item.done', { item: message(head, [textPart(text)]), output_index: 0 })
      say('response.completed', { response: response(body, head, choice) })
      stream.end()
    },
  }
}

/** Who hears what is said of a response. */
type EventTaker = Pick<EventStream, 'named' | 'end'>

function message(head: ResponseHead, content: readonly Json[]): Json {
  const status = content.length === 0 ? 'in_progress' : 'completed'
  return { id: head.messageId, content, role: 'assistant', status, type: 'message', phase: null }
}

/** The response object; `choice` is there once the answer is complete. */
function response(body: Json, head: ResponseHead, choice: Choice | undefined): Json {
  const isCut = choice?.reason === 'length'
  return {
    id: head.id,
    created_at: head.created,
    incomplete_details: isCut ? { reason: 'max_output_tokens' } : null,
    instructions: textOf(body, 'instructions') ?? null,
    metadata: null,
    model: head.model,
    object: 'response',
    output: choice ? [message(head, [textPart(choice.text)])] : [],
    parallel_tool_calls: true,
    temperature: numberOf(body, 'temperature') ?? 1,
    tool_choice: 'none',
    tools: [],
    top_p: numberOf(body, 'top_p') ?? 1,
    background: isSet(body, 'background'),
    max_output_tokens: numberOf(body, 'max_output_tokens') ?? null,
    max_tool_calls: null,
    previous_response_id: textOf(body, 'previous_response_id') ?? null,
    prompt: null,
    reasoning: null,
    service_tier: 'auto',
    status: choice ? (isCut ? 'incomplete' : 'completed') : 'in_progress',
    text: null,
    top_logprobs: null,
    truncation: 'disabled',
    usage: choice ? usage(choice) : null,
    user: null,
    presence_penalty: 0,
    frequency_penalty: 0,
    kv_transfer_params: null,
    ec_transfer_params: null,
    input_messages: null,
    output_messages: null,
  }
}

function usage({ prompt, tokens, cachedTokens }: Choice): Json {
  return {
    input_tokens: prompt.length,
    input_tokens_details: {
      cached_tokens: cachedTokens,
      cache_write_tokens: 0,
      input_tokens_per_turn: [],
      cached_tokens_per_turn: [],
    },
    output_tokens: tokens.length,
    output_tokens_details: {
      reasoning_tokens: 0,
      tool_output_tokens: 0,
      output_tokens_per_turn: [],
      tool_output_tokens_per_turn: [],
    },
    total_tokens: prompt.length + tokens.length,
  }
}
