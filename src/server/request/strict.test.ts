import { expect, it } from 'vitest'
import type { WarmrouteError } from '../../core/protocol/index.js'
import { endpointByPath } from './endpoints.js'
import { validateStrictly } from './strict.js'

function verdict(path: string, body: object): string {
  try {
    validateStrictly(endpointByPath.get(path)!, body as Record<string, unknown>)
    return 'accepted'
  } catch (error) {
    return (error as WarmrouteError).details['message'] as string
  }
}

const chat = '/v1/chat/completions'
const text = '/v1/completions'

it.each([
  [chat, { model: 'm', messages: [], temperature: 2, top_p: 1, n: 1, top_k: -1, nvext: { dp_rank: 1 } }, 'accepted'],
  [chat, { temperature: 2.1 }, 'Validation: temperature must be between 0 and 2, got 2.1'],
  [chat, { temperature: 'a secret' }, 'Validation: temperature must be between 0 and 2, got string'],
  [chat, { top_p: 0 }, 'Validation: top_p must be between 0 and 1, got 0'],
  [chat, { top_p: 1.01 }, 'Validation: top_p must be between 0 and 1, got 1.01'],
  [chat, { frequency_penalty: -2.5 }, 'Validation: frequency_penalty must be between -2 and 2, got -2.5'],
  [chat, { presence_penalty: 2.5 }, 'Validation: presence_penalty must be between -2 and 2, got 2.5'],
  [chat, { repetition_penalty: 0 }, 'Validation: repetition_penalty must be between 0 and 2, got 0'],
  [chat, { top_k: -2 }, `Validation: top_k must be between -1 and ${Number.MAX_SAFE_INTEGER}, got -2`],
  [chat, { top_k: -0.5 }, `Validation: top_k must be between -1 and ${Number.MAX_SAFE_INTEGER}, got -0.5`],
  [chat, { min_p: 1.5 }, 'Validation: min_p must be between 0 and 1, got 1.5'],
  [chat, { top_logprobs: 21 }, 'Validation: top_logprobs must be between 0 and 20, got 21'],
  [chat, { best_of: 21 }, 'Validation: best_of must be between 0 and 20, got 21'],
  [chat, { n: 1.5 }, 'Validation: n must be between 1 and 128, got 1.5'],
  [chat, { function_call: 'auto' }, 'function_call is not supported'],
  [chat, { tools: Array.from({ length: 1537 }, () => ({})) }, 'Validation: at most 1536 tools'],
  [chat, { n: 129 }, 'Validation: n must be between 1 and 128, got 129'],
  [chat, { n: 2, temperature: 0 }, 'Validation: n > 1 needs a temperature above 0'],
  [chat, { max_tokens: 0 }, 'Validation: Max tokens must be greater than 0, got 0'],
  [chat, { stream_options: {} }, 'Validation: stream_options needs stream to be true'],
  [chat, { stop: ['a', 'b', 'c', 'd', 'e'] }, 'Validation: at most 4 stop sequences'],
  [chat, { functions: [] }, 'functions is not supported'],
  [
    chat,
    { tools: [{ function: { name: 'x'.repeat(129) } }] },
    'Validation: a function name has at most 128 characters',
  ],
  [chat, { surprise: 1, another: 2 }, 'Unsupported parameter(s): `surprise`, `another`'],
  [chat, { nvext: { surprise: 1 } }, 'nvext: unknown field `surprise`'],
  [text, { logprobs: 6 }, 'Validation: logprobs must be between 0 and 5, got 6'],
  [text, { prompt: Array.from({ length: 65 }, () => 'x'), n: 2 }, 'Validation: prompts times n must be at most 128'],
  [text, { prompt: Array.from({ length: 500 }, (_, at) => at), n: 2 }, 'accepted'],
  ['/v1/embeddings', { surprise: 1 }, 'accepted'],
])('%s %j: %s', (path, body, expected) => {
  expect(verdict(path, body)).toBe(expected)
})
