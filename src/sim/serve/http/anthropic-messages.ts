/** `POST /v1/messages`: Anthropic's shape over a chat, as both engines serve it. */
import type { Choice } from '../generation.js'
import type { GenerationSpec } from '../generation.js'
import type { ChatMessage } from '../tokenizer.js'
import { isSet } from './body.js'
import { EventStream } from './event-stream.js'
import type { Exchange, Json } from './exchange.js'
import { sendJson } from './exchange.js'
import { runGeneration } from './run-generation.js'

/** Anthropic's body as a chat's: the system text becomes the first message. */
export function anthropicMessages(body: Json): ChatMessage[] {
  const system = body['system']
  const messages = Array.isArray(body['messages']) ? (body['messages'] as ChatMessage[]) : []
  return system === undefined || system === null ? messages : [{ role: 'system', content: system }, ...messages]
}

export function answerMessages(
  exchange: Exchange,
  body: Json,
  head: { readonly id: string; readonly model: string; readonly isCacheShown: boolean },
  rank: number,
  spec: GenerationSpec,
): void {
  const { server } = exchange
  const prompt = spec.prompts[0]!
  const reasonOf = (choice: Choice): string => (choice.reason === 'length' ? 'max_tokens' : 'end_turn')
  const cacheOf = (choice: Choice): Json =>
    head.isCacheShown ? { cache_creation_input_tokens: 0, cache_read_input_tokens: choice.cachedTokens } : {}
  if (!isSet(body, 'stream'))
    return void runGeneration(
      exchange,
      rank,
      { ...spec, id: head.id },
      {
        token() {},
        end: ([choice]) =>
          sendJson(exchange, 200, {
            id: head.id,
            type: 'message',
            role: 'assistant',
            content: [{ type: 'text', text: choice!.text }],
            model: head.model,
            stop_reason: reasonOf(choice!),
            usage: {
              input_tokens: prompt.length - (head.isCacheShown ? choice!.cachedTokens : 0),
              output_tokens: choice!.tokens.length,
              ...cacheOf(choice!),
            },
          }),
      },
    )

  const stream = new EventStream(server, exchange.response)
  const say = (type: string, fields: Json): void => stream.named(type, JSON.stringify({ type, ...fields }))
  const start = (): void => {
    say('message_start', {
      message: {
        id: head.id,
        type: 'message',
        role: 'assistant',
        content: [],
        model: head.model,
        stop_reason: null,
        stop_sequence: null,
        usage: { input_tokens: prompt.length, output_tokens: 0 },
      },
    })
    say('content_block_start', { content_block: { type: 'text', text: '' }, index: 0 })
  }
  runGeneration(
    exchange,
    rank,
    { ...spec, id: head.id },
    {
      token(choice, _, text) {
        if (choice.tokens.length === 1) start()
        if (text !== '') say('content_block_delta', { delta: { type: 'text_delta', text }, index: 0 })
      },
      end([choice]) {
        if (choice!.tokens.length === 0) start()
        say('content_block_stop', { index: 0 })
        say('message_delta', {
          delta: { stop_reason: reasonOf(choice!), stop_sequence: null },
          usage: { input_tokens: prompt.length, output_tokens: choice!.tokens.length, ...cacheOf(choice!) },
        })
        say('message_stop', {})
        stream.end()
      },
    },
  )
}
