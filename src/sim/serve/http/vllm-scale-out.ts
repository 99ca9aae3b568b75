/** vLLM's scale-out routes: rendering without running, and running from tokens. Refused unless switched on. */
import type { Choice } from '../generation.js'
import { chatOf } from './converted-chat.js'
import { isSet, isTokens, numberOf, objectOf, textOf } from './body.js'
import { EventStream } from './event-stream.js'
import type { Exchange, Handler, Json } from './exchange.js'
import { Refusal, sendJson } from './exchange.js'
import { runGeneration } from './run-generation.js'
import {
  badRequest,
  checkTokens,
  outputLimit,
  promptsOf,
  vllmBody,
  vllmError,
  vllmModel,
  vllmRank,
} from './vllm-errors.js'
import { responsesPrompt } from './vllm-responses.js'
import { countsOf, streamUsage, usage } from './vllm-shapes.js'
import { chatPrompt, requestId, toSpec } from './vllm-spec.js'

export function scaleOut(handler: Handler): Handler {
  return (exchange) => {
    if (exchange.server.options.isScaleOut) return handler(exchange)
    const message = 'Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them.'
    throw new Refusal(403, vllmError(message, 'PermissionDeniedError', null, 403))
  }
}

export async function renderChat(exchange: Exchange): Promise<void> {
  const body = await vllmBody(exchange)
  const { name } = vllmModel(exchange.server, body)
  const tokens = chatPrompt(exchange, body)
  sendJson(exchange, 200, rendered(body, name, `chatcmpl-${requestId(exchange, body)}`, tokens))
}

export async function renderMessages(exchange: Exchange): Promise<void> {
  const body = await vllmBody(exchange)
  const { name } = vllmModel(exchange.server, body)
  const tokens = chatPrompt(exchange, chatOf('messages', body, 'vllm', badRequest))
  sendJson(exchange, 200, rendered(body, name, `chatcmpl-${requestId(exchange, body)}`, tokens))
}

export async function renderResponses(exchange: Exchange): Promise<void> {
  const body = await vllmBody(exchange)
  const { name } = vllmModel(exchange.server, body)
  const tokens = responsesPrompt(exchange, body)
  const limited = { ...body, max_tokens: numberOf(body, 'max_output_tokens') }
  const reply = rendered(limited, name, `resp_${exchange.server.newId()}`, tokens)
  const { bad_words: words, skip_reading_prefix_cache: skips, ...sampling } = reply['sampling_params'] as Json
  sendJson(exchange, 200, {
    ...reply,
    sampling_params: { ...sampling, extra_args: {}, bad_words: words, skip_reading_prefix_cache: skips },
  })
}

export async function renderCompletions(exchange: Exchange): Promise<void> {
  const body = await vllmBody(exchange)
  const { name } = vllmModel(exchange.server, body)
  const id = `cmpl-${requestId(exchange, body)}`
  sendJson(
    exchange,
    200,
    promptsOf(exchange.server, body).map((tokens) => rendered(body, name, id, tokens)),
  )
}

export async function generate(exchange: Exchange): Promise<void> {
  const { server } = exchange
  const body = await vllmBody(exchange)
  const { name, adapter } = vllmModel(server, body)
  const tokens = body['token_ids']
  if (!isTokens(tokens)) throw badRequest('token_ids must not be empty', 'token_ids')
  checkTokens(server, tokens)
  const sampling = objectOf(body, 'sampling_params') ?? {}
  const asSpec = toSpec(exchange, { ...body, ...sampling }, [tokens], {
    outputTokensMax: outputLimit(server, numberOf(sampling, 'max_tokens') ?? 16, tokens.length),
    adapter,
  })
  const id = `generate-tokens-${requestId(exchange, body)}`
  const spec = { ...asSpec, id }
  const rank = vllmRank(exchange)
  if (isSet(body, 'stream')) return void runGeneration(exchange, rank, spec, generateStream(exchange, body, id))
  runGeneration(exchange, rank, spec, {
    token() {},
    end: (choices) =>
      sendJson(exchange, 200, {
        request_id: id,
        model: name,
        created: Math.floor(server.unixSeconds()),
        usage: usage(server, countsOf(server, choices, choices.length), false),
        prompt_logprobs: null,
        prompt_token_id_logprobs: null,
        prompt_token_ids: null,
        mm_placeholders: null,
        metrics: null,
        kv_transfer_params: null,
        ec_transfer_params: null,
        output_mode: 'tokens',
        choices: choices.map((choice) => generatedChoice(choice, choice.tokens, choice.tokens.length)),
      }),
  })
}

function generateStream(exchange: Exchange, body: Json, id: string) {
  const { server } = exchange
  const stream = new EventStream(server, exchange.response)
  stream.open()
  const frame = (usageValue: unknown, choices: unknown): string =>
    JSON.stringify({ request_id: id, usage: usageValue, output_mode: 'tokens', choices })
  return {
    token(choice: Choice, token: number): void {
      const ended = choice.reason === undefined ? undefined : choice.tokens.length
      stream.data(frame(null, [generatedChoice(choice, [token], ended)]))
    },
    end(choices: readonly Choice[]): void {
      if (isSet(objectOf(body, 'stream_options') ?? {}, 'include_usage'))
        stream.data(frame(streamUsage(server, countsOf(server, choices, choices.length), false), []))
      stream.data('[DONE]')
      stream.end()
    },
  }
}

function generatedChoice(choice: Choice, tokens: readonly number[], ended: number | undefined): Json {
  return {
    index: choice.index,
    finish_reason: choice.reason ?? null,
    stop_reason: choice.stopReason,
    token_ids: tokens,
    routed_experts: null,
    sampling_mask: null,
    weight_versions: ended === undefined ? null : [{ version: 'default', start: 0, end: ended }],
    logprobs: null,
  }
}

function rendered(body: Json, model: string, id: string, tokens: readonly number[]): Json {
  const temperature = numberOf(body, 'temperature') ?? 1
  const seed = numberOf(body, 'seed')
  const streamOptions = objectOf(body, 'stream_options')
  return {
    request_id: id,
    token_ids: tokens,
    token_offsets: null,
    features: null,
    content_parts: null,
    sampling_params: {
      presence_penalty: 0,
      frequency_penalty: 0,
      repetition_penalty: 1,
      temperature,
      ...(temperature === 0 ? {} : { top_p: numberOf(body, 'top_p') ?? 1, min_p: 0 }),
      ...(seed === undefined ? {} : { seed }),
      stop: [],
      stop_token_ids: [],
      max_tokens: numberOf(body, 'max_tokens') ?? 16,
      output_kind: isSet(body, 'stream') ? 1 : 2,
      skip_clone: true,
      bad_words: [],
      skip_reading_prefix_cache: false,
    },
    model,
    reasoning_ended: null,
    reasoning_parser_kwargs: null,
    return_token_ids: null,
    output_mode: 'tokens',
    stream: isSet(body, 'stream'),
    stream_options: streamOptions ? { include_usage: false, continuous_usage_stats: false, ...streamOptions } : null,
    cache_salt: textOf(body, 'cache_salt') ?? null,
    priority: numberOf(body, 'priority') ?? 0,
    kv_transfer_params: objectOf(body, 'kv_transfer_params') ?? null,
    ec_transfer_params: null,
  }
}
