/** `POST /v1/messages`: Anthropic's shape over a chat, as each engine serves it. */
import type { Choice } from '../generation.js'
import type { GenerationSpec } from '../generation.js'
import { isSet } from './body.js'
import { EventStream } from './event-stream.js'
import type { Exchange, Json } from './exchange.js'
import { sendJson } from './exchange.js'
import { runGeneration } from './run-generation.js'

/** Where the engines differ: what stands in a usage, and which empty fields a stream has. */
export interface MessageShapes {
  /** Of a whole answer. */
  whole(choice: Choice): Json
  /** Of a stream's first event. */
  first(choice: Choice): Json
  /** Of its last. */
  last(choice: Choice): Json
  /** Fields of the first event that nobody knows yet. */
  readonly unknown: Json
  block(fields: Json): Json
  ended(reason: string): Json
}

/** The cache comes at the end. */
export const vllmMessages: MessageShapes = {
  whole: ({ prompt, tokens, cachedTokens }) => ({
    input_tokens: prompt.length - cachedTokens,
    output_tokens: tokens.length,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: cachedTokens,
  }),
  first: ({ prompt }) => ({ input_tokens: prompt.length, output_tokens: 0 }),
  last: ({ prompt, tokens, cachedTokens }) => ({
    input_tokens: prompt.length,
    output_tokens: tokens.length,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: cachedTokens,
  }),
  unknown: { stop_reason: null, stop_sequence: null },
  block: (fields) => ({ ...fields, index: 0 }),
  ended: (reason) => ({ stop_reason: reason, stop_sequence: null }),
}

/** The cache comes first, and only where something was found in it. */
export const sglangMessages: MessageShapes = {
  whole: (choice) => sglangUsage(choice, choice.tokens.length),
  first: (choice) => sglangUsage(choice, 0),
  last: ({ tokens }) => ({ output_tokens: tokens.length }),
  unknown: {},
  block: (fields) => ({ index: 0, ...fields }),
  ended: (reason) => ({ stop_reason: reason }),
}

function sglangUsage({ prompt, cachedTokens }: Choice, outputTokens: number): Json {
  return {
    input_tokens: prompt.length - cachedTokens,
    output_tokens: outputTokens,
    ...(cachedTokens > 0 ? { cache_read_input_tokens: cachedTokens } : {}),
  }
}

export function answerMessages(
  exchange: Exchange,
  body: Json,
  head: { readonly id: string; readonly model: string; readonly shapes: MessageShapes },
  rank: number,
  spec: GenerationSpec,
): void {
  const sink = isSet(body, 'stream') ? streamSink(exchange, head) : wholeSink(exchange, head)
  runGeneration(exchange, rank, { ...spec, id: head.id }, sink)
}

type Head = Parameters<typeof answerMessages>[2]

function wholeSink(exchange: Exchange, { id, model, shapes }: Head) {
  return {
    token() {},
    end: ([choice]: readonly Choice[]) =>
      sendJson(exchange, 200, {
        id,
        type: 'message',
        role: 'assistant',
        content: [{ type: 'text', text: choice!.text }],
        model,
        stop_reason: reasonOf(choice!),
        usage: shapes.whole(choice!),
      }),
  }
}

function streamSink({ server, response }: Exchange, { id, model, shapes }: Head) {
  const stream = new EventStream(server, response)
  const say = (type: string, fields: Json): void => stream.named(type, JSON.stringify({ type, ...fields }))
  const start = (choice: Choice): void => {
    const known = { id, type: 'message', role: 'assistant', content: [], model }
    say('message_start', { message: { ...known, ...shapes.unknown, usage: shapes.first(choice) } })
    say('content_block_start', shapes.block({ content_block: { type: 'text', text: '' } }))
  }
  return {
    token(choice: Choice, _: number, text: string): void {
      if (choice.tokens.length === 1) start(choice)
      if (text !== '') say('content_block_delta', shapes.block({ delta: { type: 'text_delta', text } }))
    },
    end([choice]: readonly Choice[]): void {
      if (choice!.tokens.length === 0) start(choice!)
      say('content_block_stop', { index: 0 })
      say('message_delta', { delta: shapes.ended(reasonOf(choice!)), usage: shapes.last(choice!) })
      say('message_stop', {})
      stream.end()
    },
  }
}

function reasonOf({ reason }: Choice): string {
  return reason === 'length' ? 'max_tokens' : 'end_turn'
}
