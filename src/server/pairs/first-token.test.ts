import { expect, it } from 'vitest'
import type { Prepared } from '../request/prepare.js'
import { firstTokenMsMax } from './first-token.js'

function asked(body: object, more: { isStream?: boolean; endpoint?: string; contextWindow?: number } = {}) {
  const { isStream = false, endpoint = 'chat_completions', contextWindow } = more
  return { body, isStream, row: { endpoint }, model: { spec: { contextWindow } } } as unknown as Prepared
}

const deadlines = { transferMs: 1_000, transferTokenMs: 10 }

it.each<[string, Prepared, number]>([
  ['a stream shows its first token', asked({ max_tokens: 50 }, { isStream: true }), 1_000],
  ['a whole answer shows its last', asked({ max_tokens: 50 }), 1_500],
  ['the newer name comes first', asked({ max_tokens: 50, max_completion_tokens: 20 }), 1_200],
  ["SGLang's own name", asked({ sampling_params: { max_new_tokens: 3 } }), 1_030],
  ['completions have a limit of their own', asked({}, { endpoint: 'completions' }), 1_160],
  ['else what the context leaves', asked({}, { contextWindow: 400 }), 5_000],
  ['nonsense says nothing', asked({ max_tokens: 'many' }, { contextWindow: 400 }), 5_000],
  ['nobody knows, and still it ends', asked({}), 41_960],
])('%s', (_says, prepared, expected) => expect(firstTokenMsMax(deadlines, prepared, undefined)).toBe(expected))

it('is switched off for everything, or for whole answers', () => {
  expect(firstTokenMsMax({ transferMs: 0, transferTokenMs: 10 }, asked({ max_tokens: 5 }), undefined)).toBeUndefined()
  expect(firstTokenMsMax({ transferMs: 9, transferTokenMs: 0 }, asked({ max_tokens: 5 }), undefined)).toBeUndefined()
  expect(firstTokenMsMax({ transferMs: 9, transferTokenMs: 0 }, asked({}, { isStream: true }), undefined)).toBe(9)
})
