/** The JSON that vLLM 0.32.0 answers with: every key, in its order, as recorded. */
import type { Choice } from '../generation.js'
import type { SimServer } from '../sim-engine.js'
import type { SimTokenizer } from '../tokenizer.js'
import type { Json } from './exchange.js'

export interface AnswerHead {
  readonly id: string
  readonly created: number
  readonly model: string
}

export function fingerprint(server: SimServer): string {
  const { version, ranks } = server.options
  return `vllm-${version}${ranks > 1 ? `-dp${ranks}` : ''}-2142fa7a`
}

interface Counts {
  readonly prompt: number
  readonly completion: number
  readonly cached: number
  readonly created: number
}

export function countsOf(server: SimServer, choices: readonly Choice[], perPrompt: number): Counts {
  const { blockTokens } = server.options
  const prompts = choices.filter((_, index) => index % perPrompt === 0).map(({ prompt }) => prompt)
  const last = choices.at(-1)!
  const prompt = prompts.reduce((sum, tokens) => sum + tokens.length, 0)
  return {
    prompt,
    completion: choices.reduce((sum, { tokens }) => sum + tokens.length, 0),
    cached: last.cachedTokens,
    created: Math.max(0, Math.floor(last.prompt.length / blockTokens) * blockTokens - last.cachedTokens),
  }
}

/** `usage` of a whole reply. Chat says what it newly cached, completions do not. */
export function usage(server: SimServer, counts: Counts, isChat: boolean): Json {
  return {
    prompt_tokens: counts.prompt,
    total_tokens: counts.prompt + counts.completion,
    completion_tokens: counts.completion,
    prompt_tokens_details: server.options.isCacheReported
      ? {
          cached_tokens: counts.cached,
          created_cache_tokens: isChat ? counts.created : null,
          multimodal_tokens: null,
        }
      : null,
    completion_tokens_details: null,
  }
}

/** `usage` of the last chunk of a stream: nulls are left out. */
export function streamUsage(server: SimServer, counts: Counts, isChat: boolean): Json {
  const details = { cached_tokens: counts.cached, ...(isChat ? { created_cache_tokens: counts.created } : {}) }
  return {
    prompt_tokens: counts.prompt,
    total_tokens: counts.prompt + counts.completion,
    completion_tokens: counts.completion,
    ...(server.options.isCacheReported ? { prompt_tokens_details: details } : {}),
  }
}

/** `usage` on every chunk (`continuous_usage_stats`). */
export function runningUsage(prompt: number, completion: number): Json {
  return {
    prompt_tokens: prompt,
    total_tokens: prompt + completion,
    completion_tokens: completion,
    completion_tokens_details: null,
  }
}

export function chatChoice(tokenizer: SimTokenizer, choice: Choice, body: Json): Json {
  return {
    index: choice.index,
    message: {
      role: 'assistant',
      content: choice.text,
      refusal: null,
      annotations: null,
      audio: null,
      function_call: null,
      reasoning: null,
    },
    logprobs:
      body['logprobs'] === true ? { content: choice.tokens.map((token) => logprob(tokenizer, token, body)) } : null,
    finish_reason: choice.reason,
    stop_reason: choice.stopReason,
    token_ids: body['return_token_ids'] === true ? choice.tokens : null,
    routed_experts: null,
  }
}

export function completionChoice(choice: Choice, text: string, body: Json): Json {
  const isReturned = body['return_token_ids'] === true
  return {
    index: choice.index,
    text,
    logprobs: null,
    finish_reason: choice.reason,
    stop_reason: choice.stopReason,
    token_ids: isReturned ? choice.tokens : null,
    prompt_logprobs: null,
    prompt_token_ids: isReturned ? choice.prompt : null,
    routed_experts: null,
  }
}

export function logprob(tokenizer: SimTokenizer, token: number, body: Json): Json {
  const piece = tokenizer.decode([token])
  const entry = { token: piece, logprob: -10.37, bytes: [...Buffer.from(piece)] }
  return { ...entry, top_logprobs: typeof body['top_logprobs'] === 'number' && body['top_logprobs'] > 0 ? [entry] : [] }
}

export function modelCards(server: SimServer): Json {
  const { models, adapters, root, modelTokensMax } = server.options
  const created = Math.floor(server.unixSeconds())
  const card = (id: string, path: string, parent: string | null, limit: number | null): Json => ({
    id,
    object: 'model',
    created,
    owned_by: 'vllm',
    root: path,
    parent,
    max_model_len: limit,
    permission: [
      {
        id: `modelperm-${server.newId()}`,
        object: 'model_permission',
        created,
        allow_create_engine: false,
        allow_sampling: true,
        allow_logprobs: true,
        allow_search_indices: false,
        allow_view: true,
        allow_fine_tuning: false,
        organization: '*',
        group: null,
        is_blocking: false,
      },
    ],
  })
  return {
    object: 'list',
    data: [
      ...models.map((name) => card(name, root, null, modelTokensMax)),
      ...adapters.map((name) => card(name, `./adapters/${name}`, models[0]!, null)),
    ],
  }
}

/** Ports with the rank already added; absent ranks publish nothing. */
export function eventSources(server: SimServer): Record<string, unknown> {
  const { events } = server.options
  return Object.fromEntries(
    server.publishers.map((publisher, rank) => [
      String(rank),
      {
        enable_kv_cache_events: true,
        publisher: 'zmq',
        endpoint: `tcp://*:${publisher.port}`,
        replay_endpoint: `tcp://*:${publisher.replayPort}`,
        buffer_steps: events!.bufferSteps,
        hwm: 100_000,
        max_queue_size: 100_000,
        topic: events!.topic,
      },
    ]),
  )
}
