/** `POST /v1/responses` of SGLang, whole and streamed, for plain text in and out, as recorded from 0.5.23. */
import type { Choice } from '../generation.js'
import { isSet, numberOf, objectOf, textOf } from './body.js'
import { chatOf } from './converted-chat.js'
import { EventStream } from './event-stream.js'
import type { Exchange, Json } from './exchange.js'
import { Refusal, sendJson } from './exchange.js'
import type { ResponseHead } from './responses-parts.js'
import { textPart } from './responses-parts.js'
import { runGeneration } from './run-generation.js'
import { checkQueue, sglangBody } from './sglang-errors.js'
import { chatTokens, sglangSpec } from './sglang-openai.js'

export async function sglangResponses(exchange: Exchange): Promise<void> {
  const { server } = exchange
  const body = await sglangBody(exchange)
  const head = headOf(exchange, body)
  const prompt = chatTokens(exchange, chatOfResponse(body))
  const { modelTokensMax } = server.options
  if (prompt.length > modelTokensMax)
    throw refused(
      `The input (${prompt.length} tokens) is longer than the model's context length (${modelTokensMax} tokens).`,
      null,
    )
  const rank = server.pickRank() // this route reads no rank, neither header nor field
  checkQueue(server, rank)
  const asked = numberOf(body, 'max_output_tokens')
  // The server itself keeps two of the tokens that were asked for.
  const limit = asked === undefined ? undefined : asked - 2
  const spec = { ...sglangSpec(exchange, body, [prompt], limit), choices: 1, id: head.id }
  if (isSet(body, 'stream')) return void runGeneration(exchange, rank, spec, streamSink(exchange, body, head))
  runGeneration(exchange, rank, spec, {
    token() {},
    end: ([choice]) => sendJson(exchange, 200, response(body, head, choice)),
  })
}

/** This route alone checks the name of the model. */
function headOf({ server }: Exchange, body: Json): ResponseHead {
  const { models } = server.options
  const model = textOf(body, 'model') ?? models[0]!
  if (!models.includes(model)) throw refused(`The model '${model}' does not exist`, 'model', 404)
  if (textOf(body, 'previous_response_id') !== undefined) throw storeDisabled('previous_response_id')
  const id = (): string => server.newId() + server.newId()
  return { id: `resp_${id()}`, messageId: `msg_${id()}`, created: Math.floor(server.unixSeconds()), model }
}

/** This one keeps no responses. */
export function refuseStored(): never {
  throw storeDisabled('response_id')
}

function storeDisabled(param: string): Refusal {
  return refused(
    'Response store is disabled. Stateful Responses require --enable-response-store on a standalone server; response storage is unavailable in PD mode.',
    param,
  )
}

function chatOfResponse(body: Json): Json {
  const input = body['input']
  if (typeof input !== 'string' && !Array.isArray(input))
    throw new Refusal(400, {
      error: {
        message: "1 validation error:\n  {'type': 'missing', 'loc': ('body', 'input'), 'msg': 'Field required'}",
        type: 'Bad Request',
        param: null,
        code: 400,
      },
    })
  return chatOf('responses', body, 'sglang', (message) => refused(message, null))
}

/** Nested here, flat on SGLang's other routes. */
function refused(message: string, param: string | null, code = 400): Refusal {
  return new Refusal(code, { error: { message, type: 'invalid_request_error', param, code } })
}

function streamSink(exchange: Exchange, body: Json, head: ResponseHead) {
  const stream = new EventStream(exchange.server, exchange.response)
  let sequence = 0
  const state = (type: string, choice: Choice | undefined): void =>
    stream.named(type, JSON.stringify({ type, response: response(body, head, choice), sequence_number: sequence++ }))
  const say = (type: string, fields: Json): void =>
    stream.named(type, JSON.stringify({ ...fields, sequence_number: sequence++, type }))
  const place = { item_id: head.messageId, output_index: 0 }
  return {
    token(choice: Choice, _: number, text: string): void {
      if (choice.tokens.length === 1) {
        state('response.created', undefined)
        state('response.in_progress', undefined)
        say('response.output_item.added', { item: message(head, undefined), output_index: 0 })
        say('response.content_part.added', { content_index: 0, ...place, part: textPart('') })
      }
      if (text !== '')
        say('response.output_text.delta', {
          content_index: 0,
          delta: text,
          item_id: head.messageId,
          logprobs: [],
          output_index: 0,
        })
    },
    end([choice]: readonly Choice[]): void {
      const { text, reason } = choice!
      stream.named(
        'response.output_text.done',
        JSON.stringify({
          content_index: 0,
          item_id: head.messageId,
          logprobs: [],
          output_index: 0,
          sequence_number: sequence++,
          text,
          type: 'response.output_text.done',
        }),
      )
      say('response.content_part.done', { content_index: 0, ...place, part: textPart(text) })
      say('response.output_item.done', { item: message(head, text), output_index: 0 })
      state(reason === 'length' ? 'response.incomplete' : 'response.completed', choice)
      stream.end()
    },
  }
}

function message(head: ResponseHead, text: string | undefined): Json {
  return {
    id: head.messageId,
    content: text === undefined ? [] : [textPart(text)],
    role: 'assistant',
    status: text === undefined ? 'in_progress' : 'completed',
    type: 'message',
    phase: 'final_answer',
  }
}

/** The response object; `choice` is there once the answer is complete. */
function response(body: Json, head: ResponseHead, choice: Choice | undefined): Json {
  const isCut = choice?.reason === 'length'
  return {
    id: head.id,
    object: 'response',
    created_at: head.created,
    model: head.model,
    output: choice ? [message(head, choice.text)] : [],
    status: choice ? (isCut ? 'incomplete' : 'completed') : 'in_progress',
    usage: choice ? usage(choice) : null,
    parallel_tool_calls: true,
    tool_choice: 'auto',
    tools: [],
    error: null,
    incomplete_details: isCut ? { reason: 'max_output_tokens' } : null,
    instructions: textOf(body, 'instructions') ?? null,
    max_output_tokens: numberOf(body, 'max_output_tokens') ?? null,
    previous_response_id: null,
    reasoning: { effort: null, summary: null },
    store: body['store'] !== false,
    temperature: numberOf(body, 'temperature') ?? null,
    text: choice ? { format: { type: 'text' } } : null,
    top_p: numberOf(body, 'top_p') ?? null,
    truncation: 'disabled',
    user: textOf(body, 'user') ?? null,
    metadata: objectOf(body, 'metadata') ?? {},
  }
}

function usage({ prompt, tokens, cachedTokens }: Choice): Json {
  return {
    input_tokens: prompt.length,
    input_tokens_details: { cached_tokens: cachedTokens, cache_write_tokens: 0 },
    output_tokens: tokens.length,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: prompt.length + tokens.length,
  }
}
