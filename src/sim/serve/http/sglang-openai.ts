/** SGLang's chat and completions routes, whole and streamed. */
import type { Choice, GenerationSpec } from '../generation.js'
import type { ChatMessage } from '../tokenizer.js'
import { isSet, isTokens, numberOf, objectOf, stopsOf, textOf } from './body.js'
import { EventStream } from './event-stream.js'
import { misread, templated } from './chat-faults.js'
import type { ChatRefusals } from './encode-chat.js'
import { encodeChat } from './encode-chat.js'
import type { Exchange, Json } from './exchange.js'
import { header, sendJson } from './exchange.js'
import { checkLength, checkQueue, sglangBody, sglangPrompts, sglangRefusal } from './sglang-errors.js'
import { preparePair, runLeg } from './sglang-pair.js'
import { sglangUsage, weightMetadata } from './sglang-shapes.js'

interface AnswerHead {
  readonly id: string
  readonly created: number
  readonly model: string
}

export async function sglangChat(exchange: Exchange): Promise<void> {
  const { server } = exchange
  const body = await sglangBody(exchange)
  const isStream = isSet(body, 'stream')
  if (isStream && (isSet(body, 'return_token_ids') || isSet(body, 'return_prompt_token_ids')))
    throw sglangRefusal('return_prompt_token_ids is not supported with stream')
  const prompt = chatTokens(exchange, body)
  checkLength(server, prompt)
  const leg = await preparePair(exchange, body, header(exchange, 'x-data-parallel-rank'))
  checkQueue(server, leg.rank)
  const limit = numberOf(body, 'max_completion_tokens') ?? numberOf(body, 'max_tokens')
  const head = headOf(exchange, body)
  const spec = { ...sglangSpec(exchange, body, [prompt], limit), id: head.id }
  runLeg(
    exchange,
    leg,
    spec,
    isStream
      ? chatStream(exchange, body, head)
      : {
          token() {},
          end: (choices) =>
            sendJson(exchange, 200, {
              ...head.fields('chat.completion'),
              choices: choices.map((choice) => ({
                index: choice.index,
                message: { role: 'assistant', content: choice.text, reasoning_content: null },
                logprobs: null,
                finish_reason: choice.reason,
                matched_stop: choice.stopReason,
                ...(isSet(body, 'return_token_ids') || isSet(body, 'return_prompt_token_ids')
                  ? { prompt_token_ids: choice.prompt, response_token_ids: choice.tokens }
                  : {}),
              })),
              usage: sglangUsage(server, choices, choices.length),
              metadata: weightMetadata(choices[0]!.tokens.length),
            }),
        },
  )
}

export async function sglangCompletions(exchange: Exchange): Promise<void> {
  const { server } = exchange
  const body = await sglangBody(exchange)
  const prompts = sglangPrompts(server, body)
  const leg = await preparePair(exchange, body, header(exchange, 'x-data-parallel-rank'))
  checkQueue(server, leg.rank)
  const head = headOf(exchange, body)
  const spec = { ...sglangSpec(exchange, body, prompts, numberOf(body, 'max_tokens') ?? 16), id: head.id }
  const ids = (choice: Choice, tokens: readonly number[]): Json =>
    isSet(body, 'return_token_ids') ? { token_ids: tokens, prompt_token_ids: choice.prompt } : {}
  if (isSet(body, 'stream')) return runLeg(exchange, leg, spec, completionStream(exchange, body, head, spec, ids))
  runLeg(exchange, leg, spec, {
    token() {},
    end: (choices) =>
      sendJson(exchange, 200, {
        ...head.fields('text_completion'),
        choices: choices.map((choice) => ({
          index: choice.index,
          text: choice.text,
          logprobs: null,
          finish_reason: choice.reason,
          matched_stop: choice.stopReason,
          ...ids(choice, choice.tokens),
        })),
        usage: sglangUsage(server, choices, spec.choices),
        metadata: weightMetadata(choices[0]!.tokens.length),
      }),
  })
}

const refusals: ChatRefusals = {
  refuse: sglangRefusal,
  noTemplate:
    'Cannot use chat template functions because tokenizer.chat_template is not set and no template argument was passed!',
}

/** The router's own tokens where it sent them (`input_ids`), else the template's. */
export function chatTokens(exchange: Exchange, body: Json): number[] {
  const { tokenizer } = exchange.server.options
  const given = body['input_ids']
  if (isTokens(given)) return given
  const messages = body['messages']
  if (!Array.isArray(messages) || messages.length === 0) throw sglangRefusal('Messages cannot be empty')
  const tools = body['tool_choice'] === 'none' ? undefined : body['tools']
  const options = {
    tools: Array.isArray(tools) ? tools : undefined,
    toolChoice: body['tool_choice'],
    isGenerationPromptAdded: true,
    dialect: 'sglang',
  } as const
  const tokens = encodeChat(tokenizer, templated(exchange.server, messages as ChatMessage[]), options, refusals)
  return misread(exchange.server, tokens)
}

export function sglangSpec(
  exchange: Exchange,
  body: Json,
  prompts: readonly (readonly number[])[],
  limit: number | undefined,
): GenerationSpec {
  const { modelTokensMax, adapters } = exchange.server.options
  const longest = Math.max(...prompts.map(({ length }) => length))
  const adapter = textOf(body, 'lora_path') ?? textOf(body, 'model')?.split(':')[1]
  return {
    prompts,
    choices: Math.max(1, Math.min(128, numberOf(body, 'n') ?? 1)),
    outputTokensMax: limit === undefined ? undefined : Math.max(1, Math.min(limit, modelTokensMax - longest)),
    stop: stopsOf(body),
    isEosIgnored: isSet(body, 'ignore_eos'),
    draw: (numberOf(body, 'temperature') ?? 1) === 0 ? 0 : (numberOf(body, 'seed') ?? 0),
    salt: textOf(body, 'cache_salt'),
    extraKey: textOf(body, 'extra_key'),
    loraName: adapter !== undefined && adapters.includes(adapter) ? adapter : undefined,
    sessionId: textOf(body, 'session_id'),
  }
}

function headOf(exchange: Exchange, body: Json) {
  const { server } = exchange
  const head: AnswerHead = {
    id: textOf(body, 'rid') ?? server.newId() + server.newId(),
    created: Math.floor(server.unixSeconds()),
    model: textOf(body, 'model') ?? server.options.models[0]!, // whatever name was asked for
  }
  return {
    ...head,
    fields: (object: string): Json => ({ id: head.id, object, created: head.created, model: head.model }),
  }
}

function chatStream(exchange: Exchange, body: Json, head: ReturnType<typeof headOf>) {
  const { server } = exchange
  const stream = new EventStream(server, exchange.response)
  const chunk = (choices: unknown, more: Json = {}): void =>
    stream.data(JSON.stringify({ ...head.fields('chat.completion.chunk'), choices, ...more }))
  const delta = (choice: Choice, fields: Json, reason: string | null): unknown => [
    {
      index: choice.index,
      delta: { reasoning_content: null, ...fields },
      logprobs: null,
      finish_reason: reason,
      matched_stop: reason === null ? null : choice.stopReason,
    },
  ]
  return {
    token(choice: Choice, _: number, text: string): void {
      if (choice.tokens.length === 1) chunk(delta(choice, { role: 'assistant', content: '' }, null))
      if (text !== '') chunk(delta(choice, { content: text }, null))
    },
    end(choices: readonly Choice[]): void {
      for (const choice of choices) chunk(delta(choice, {}, choice.reason ?? 'abort'))
      if (isSet(objectOf(body, 'stream_options') ?? {}, 'include_usage'))
        chunk([], { usage: sglangUsage(server, choices, choices.length) })
      stream.data('[DONE]')
      stream.end()
    },
  }
}

function completionStream(
  exchange: Exchange,
  body: Json,
  head: ReturnType<typeof headOf>,
  spec: GenerationSpec,
  ids: (choice: Choice, tokens: readonly number[]) => Json,
) {
  const { server } = exchange
  const stream = new EventStream(server, exchange.response)
  const chunk = (choices: unknown, more: Json = {}): void =>
    stream.data(JSON.stringify({ ...head.fields('text_completion'), choices, ...more }))
  const piece = (choice: Choice, text: string, reason: string | null, tokens: readonly number[]): unknown => [
    {
      index: choice.index,
      text,
      logprobs: null,
      finish_reason: reason,
      matched_stop: reason === null ? null : choice.stopReason,
      ...ids(choice, tokens),
    },
  ]
  return {
    token(choice: Choice, token: number, text: string): void {
      chunk(piece(choice, text, choice.reason ?? null, [token]))
    },
    end(choices: readonly Choice[]): void {
      for (const choice of choices) if (choice.reason === 'abort') chunk(piece(choice, '', 'abort', []))
      if (isSet(objectOf(body, 'stream_options') ?? {}, 'include_usage'))
        chunk([], { usage: sglangUsage(server, choices, spec.choices) })
      stream.data('[DONE]')
      stream.end()
    },
  }
}
