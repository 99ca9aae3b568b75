import { expect, it } from 'vitest'
import { fatalValue, unboundedField } from './fatal-values.js'

const idMax = 31_999

it.each([
  [{ logprobs: 32_001 }, 'logprobs has to be at most 32000'],
  [{ top_logprobs: 1e6, logprobs: true }, 'top_logprobs has to be at most 32000'],
  [{ top_logprobs: '1000000' }, 'top_logprobs has to be at most 32000'],
  [{ top_logprobs_num: [1, 1e6] }, 'top_logprobs_num has to be at most 32000'],
  [{ top_k: 2 ** 31 }, 'top_k has to be at most 2147483647'],
  [{ top_k: '1_099_511_627_776' }, 'top_k has to be at most 2147483647'],
  [{ sampling_params: { top_k: 2 ** 40 } }, 'top_k has to be at most 2147483647'],
  [{ sampling_params: [{}, { top_k: 2 ** 40 }] }, 'top_k has to be at most 2147483647'],
  [{ n: 16_385 }, 'n has to be at most 16384'],
  [{ sampling_params: { n: 1e6 } }, 'n has to be at most 16384'],
  [{ logprob_start_len: -2 }, 'logprob_start_len has to be at least -1'],
  [{ logprob_start_len: [0, -2] }, 'logprob_start_len has to be at least -1'],
  [{ logprob_start_len: Symbol('too long to be read') }, 'logprob_start_len is too long'],
  [{ text: 'a', top_logprobs_num: [1, 2] }, 'top_logprobs_num has to be one number, as there is one prompt'],
  [{ text: 'a', logprob_start_len: [0] }, 'logprob_start_len has to be one number, as there is one prompt'],
  [{ input_ids: [1, 2], top_logprobs_num: [1] }, 'top_logprobs_num has to be one number, as there is one prompt'],
  [
    { input_ids: Uint32Array.of(1), top_logprobs_num: [1] },
    'top_logprobs_num has to be one number, as there is one prompt',
  ],
  [{ sampling_params: { stop_token_ids: [5, 32_000] } }, 'stop_token_ids has to be at least 0 and at most 31999'],
  [{ sampling_params: { stop_token_ids: [-5] } }, 'stop_token_ids has to be at least 0 and at most 31999'],
])('%j is fatal', (body, said) => {
  const fatal = fatalValue(body, { idMax })
  expect(fatal && `${fatal.param} ${fatal.reason}`).toBe(said)
})

it.each([
  [{}],
  [{ logprobs: true, top_logprobs: 20, top_k: -1 }],
  [{ n: 16_384, logprobs: 32_000, top_k: 2 ** 31 - 1, logprob_start_len: -1 }],
  [{ logprobs: null, top_k: null, logprob_start_len: null, sampling_params: null }],
  [{ top_logprobs: -1, top_k: 'many', logprob_start_len: { a: 1 }, sampling_params: 'none' }], // which it refuses, or takes
  [{ sampling_params: { stop_token_ids: [0, 31_999, null] }, stop_token_ids: [99_999] }],
  [{ text: ['a', 'b'], top_logprobs_num: [1, 2], logprob_start_len: [0, -1] }],
  [{ input_ids: [[1], [2]], top_logprobs_num: [1, 2] }],
  [{ input_ids: [Uint32Array.of(1)], top_logprobs_num: [1] }],
  [{ sampling_params: [null, 5, { stop_token_ids: 99_999 }] }],
])('%j is not', (body) => {
  expect(fatalValue(body, { idMax })).toBe(undefined)
})

it('without the files of a model only what none in use would take is fatal', () => {
  expect(fatalValue({ top_logprobs: 20_000, sampling_params: { stop_token_ids: [99_999] } })).toBe(undefined)
  expect(fatalValue({ top_logprobs: 20_001 })).toMatchObject({ param: 'top_logprobs' })
  expect(fatalValue({ sampling_params: { stop_token_ids: [-1] } })).toMatchObject({
    param: 'stop_token_ids',
  })
})

it.each([
  [{ stop_regex: '(a+)+b' }, 'stop_regex'],
  [{ stop_regex: ['', 'a'] }, 'stop_regex'],
  [{ sampling_params: { stop_regex: 'a' } }, 'stop_regex'],
  [{ sampling_params: [{}, { stop_regex: 'a' }] }, 'stop_regex'],
  [{ stop_regex: Symbol('too long to be read') }, 'stop_regex'],
  [{ custom_logit_processor: '{}' }, 'custom_logit_processor'],
  [{ custom_logit_processor: [null, '{}'] }, 'custom_logit_processor'],
  [{ positional_embed_overrides: { a: 1 } }, 'positional_embed_overrides'],
  [{ positional_embed_overrides: [] }, 'positional_embed_overrides'],
  [{ query: 'x', items: ['y'], item_embed_overrides: [[[0.5]]] }, 'item_embed_overrides'],
  [{ query: 'x', items: ['y'], query_embed_overrides: [[0.5]] }, 'query_embed_overrides'],
  [{ token_indices_to_pool: [99_999] }, 'token_indices_to_pool'],
  [{ positional_embed_overrides: null, token_indices_to_pool: null }, undefined],
  [{ stop_regex: null, custom_logit_processor: [null], sampling_params: { stop_regex: '' } }, undefined],
  [{ regex: '(a+)+b', stop: ['a'] }, undefined],
])('%j has no bound: %s', (body, name) => {
  expect(unboundedField(body, new Set())).toBe(name)
  expect(unboundedField(body, new Set([name ?? '']))).toBe(undefined)
})

it('an empty text, unless something is known to stand around texts', () => {
  for (const body of [
    { text: '' },
    { prompt: '' },
    { prompt: ['x', ''] },
    { items: ['x', ''] },
    { items: [''], query: '' },
  ]) {
    expect(fatalValue(body, { fillsEmptyTexts: false })).toMatchObject({ param: Object.keys(body)[0] })
    expect(fatalValue(body, { fillsEmptyTexts: true })).toBe(undefined)
    expect(fatalValue(body)).toMatchObject({ param: Object.keys(body)[0] })
  }
  for (const body of [{ prompt: ['x'], text: 'y', input: '' }, { items: ['', 'x'], query: 'x' }, { items: '' }])
    expect(fatalValue(body, { fillsEmptyTexts: false })).toBe(undefined)
})
