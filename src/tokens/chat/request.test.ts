// What an engine reads of a completion depends on the engine: SGLang has neither `add_special_tokens` nor `truncate_prompt_tokens` nor
// embeddings of a prompt there, and passes over what it does not know (seen in the code of 0.5.23; vLLM's are recorded). Issue 7.
import { expect, it } from 'vitest'
import { Float } from '../template/values.js'
import { buildPrompt, plainRules } from './build-prompt.js'
import { buildSglangChat } from './chat-sglang.js'
import type { ChosenTemplate } from './chat-template.js'
import type { Body, Dialect, Route } from './request.js'
import { truncate } from './request.js'

const none = (): never => {
  throw new Error('no template')
}
const built = (body: Body, dialect: Dialect, route: Route = 'completions') =>
  buildPrompt(route, body, { ...plainRules, dialect }, none)

it('wraps a text of SGLang in special tokens whatever the request says, and cuts none short', () => {
  const body = { prompt: 'a', add_special_tokens: false, truncate_prompt_tokens: 2 }
  expect(built(body, 'sglang')).toMatchObject({ addSpecialTokens: true, truncation: undefined })
  expect(built(body, 'vllm')).toMatchObject({ addSpecialTokens: false, truncation: { tokens: 2, side: 'left' } })
})

it('takes a text that somebody rendered as it is, on every engine', () => {
  const body = { prompt: '<s>a', add_special_tokens: false, is_rendered: true }
  for (const dialect of ['vllm', 'sglang', 'trtllm'] as const)
    expect(built(body, dialect)).toMatchObject({ addSpecialTokens: false })
})

it('cuts no ids of SGLang short', () => {
  const chat = { messages: [], input_ids: [1, 2, 3], truncate_prompt_tokens: 2 }
  expect(built(chat, 'sglang', 'chat')).toMatchObject({ kind: 'ids', truncation: undefined })
  expect(built({ prompt: [1, 2, 3], truncate_prompt_tokens: 2 }, 'sglang')).toMatchObject({ truncation: undefined })
})

it('does not know what vLLM makes of a suffix; SGLang passes over it', () => {
  const body = { prompt: 'def f(', suffix: 'return' }
  expect(() => built(body, 'vllm')).toThrow(expect.objectContaining({ reason: 'engine-settings' }))
  expect(built(body, 'sglang')).toMatchObject({ texts: ['def f('] })
  expect(built({ ...body, suffix: null }, 'vllm')).toMatchObject({ texts: ['def f('] })
})

it('reads whole numbers however they are spelled', () => {
  const body = { prompt: [new Float(1), 5], truncate_prompt_tokens: new Float(1) }
  expect(built(body, 'vllm')).toMatchObject({ ids: [Uint32Array.of(1, 5)], truncation: { tokens: 1 } })
})

it('keeps the special tokens around a text that the tokenizer cuts short', () => {
  const ids = Uint32Array.of(1, 10, 11, 12, 2)
  const around = { before: 1, after: 1 }
  const cut = (tokens: number, side: 'left' | 'right', isByTokenizer: boolean): number[] => [
    ...truncate(ids, { tokens, side, isByTokenizer }, around),
  ]
  expect(cut(3, 'left', true)).toEqual([1, 12, 2])
  expect(cut(3, 'right', true)).toEqual([1, 10, 2])
  expect(cut(2, 'left', true)).toEqual([1, 2])
  expect(cut(3, 'left', false)).toEqual([11, 12, 2])
  expect(cut(5, 'left', true)).toEqual([...ids])
})

it('trusts no template that a request brings, wherever it stands', () => {
  for (const more of [{ chat_template: 'x' }, { chat_template_kwargs: { chat_template: 'x' } }])
    for (const dialect of ['vllm', 'sglang'] as const)
      expect(() => built({ messages: [], ...more }, dialect, 'chat')).toThrow(
        expect.objectContaining({ reason: 'request-template' }),
      )
})

it('says a low effort to SGLang by the argument that its template has for it', () => {
  const chosen = { formats: { sglang: 'string' }, habits: { hasLowEffort: () => true } } as unknown as ChosenTemplate
  const kwargs = (more: Body): unknown =>
    buildSglangChat({ messages: [{ role: 'user', content: 'a' }], ...more }, () => chosen).render.kwargs
  expect(kwargs({ reasoning_effort: 'low' })).toMatchObject({ low_effort: true, enable_thinking: true })
  expect(kwargs({ reasoning_effort: 'high' })).not.toHaveProperty('low_effort')
  expect(kwargs({ reasoning_effort: 'low', chat_template_kwargs: { low_effort: false } })).toMatchObject({
    low_effort: false,
  })
})

it.each([
  { route: 'chat', body: { messages: [] } },
  { route: 'responses', body: { input: 'a' } },
  { route: 'messages', body: { messages: [], max_tokens: 1 } },
] as const)('does not know $route of an engine that takes another template than the model has', ({ route, body }) => {
  const rules = { ...plainRules, dialect: 'sglang', otherTemplates: { chats: 'it was started with one' } } as const
  expect(() => buildPrompt(route, body, rules, none)).toThrow(expect.objectContaining({ reason: 'engine-settings' }))
  expect(buildPrompt('completions', { prompt: 'a' }, rules, none)).toMatchObject({ texts: ['a'] })
})

// It is put around ids, too, spelled as a text; a suffix that is empty, and not missing, keeps it away.
it('does not know completions of an engine that has a template for them, but with an empty suffix and what was rendered', () => {
  const rules = { ...plainRules, dialect: 'sglang', otherTemplates: { texts: 'it was started with one' } } as const
  const unknown = expect.objectContaining({ reason: 'engine-settings' })
  for (const prompt of ['a', ['a'], [1], [[1]]]) {
    expect(() => buildPrompt('completions', { prompt }, rules, none)).toThrow(unknown)
    expect(() => buildPrompt('completions', { prompt, suffix: null }, rules, none)).toThrow(unknown)
    expect(() => buildPrompt('completions', { prompt, suffix: 'b' }, rules, none)).toThrow(unknown)
    const kind = typeof [prompt].flat(2)[0] === 'string' ? 'text' : 'ids'
    expect(buildPrompt('completions', { prompt, suffix: '' }, rules, none)).toMatchObject({ kind })
  }
  expect(buildPrompt('completions', { prompt: 'a', is_rendered: true }, rules, none)).toMatchObject({ kind: 'text' })
})
