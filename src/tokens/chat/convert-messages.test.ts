// What parity with recorded messages does not show: a call without an id gets one from the engine's clock (vLLM 0.32.0) or by chance (SGLang).
import { expect, it } from 'vitest'
import { convertMessages } from './convert-messages.js'
import type { TemplateHabits } from './converted.js'
import type { Body, Dialect } from './request.js'

const habits = {} as unknown as TemplateHabits
const dialects = ['vllm', 'sglang'] as const

function calling(call: Body, dialect: Dialect): Body {
  const content = [{ type: 'tool_use', name: 'f', input: {}, ...call }]
  return convertMessages({ messages: [{ role: 'assistant', content }] }, { dialect }, habits)
}

it.each(dialects)('%s: a call without an id is load-only, since nobody knows the one that it gets', (dialect) => {
  for (const call of [{}, { id: null }, { id: '' }])
    expect(() => calling(call, dialect)).toThrow(expect.objectContaining({ reason: 'engine-settings' }))
})

it.each(dialects)('%s: a call without a name has an empty one', (dialect) => {
  const called = { id: 'c', type: 'function', function: { name: '', arguments: '{}' } }
  for (const name of [undefined, null])
    expect(calling({ id: 'c', name }, dialect)['messages']).toEqual([{ role: 'assistant', tool_calls: [called] }])
})
