// What parity with recorded responses does not show: how much one may hold.
import { deflateSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { convertResponses } from './convert-responses.js'
import type { TemplateHabits } from './converted.js'
import type { Body } from './request.js'

const habits = { takesLateSystem: () => true } as unknown as TemplateHabits
const sealed = (text: string): Body => ({
  type: 'reasoning',
  encrypted_content: `sglang-reasoning-v1.${deflateSync(text).toString('base64url')}`,
})
const convert = (dialect: 'vllm' | 'sglang', input: readonly Body[]): readonly Body[] =>
  convertResponses({ input }, { dialect }, habits)['messages'] as readonly Body[]

describe('thoughts that SGLang packed', () => {
  const thought = 'think '.repeat(500_000)

  it('are read, and joined with those of the same turn', () => {
    const summary = { type: 'reasoning', summary: [{ type: 'summary_text', text: 'more' }] }
    expect(convert('sglang', [sealed(thought), summary, sealed('last')])).toEqual([
      { role: 'assistant', reasoning_content: `${thought}\nmore\nlast` },
    ])
  })

  it('are refused where they are more than four megabytes together', () => {
    expect(() => convert('sglang', [sealed(thought), sealed(thought)])).toThrow('sealed reasoning')
  })
})

it.each(['vllm', 'sglang'] as const)('calls in a row are one turn, in their order: %s', (dialect) => {
  const input = Array.from({ length: 50 }, (_, at) => ({
    type: 'function_call',
    call_id: `call ${at}`,
    name: 'f',
    arguments: '{}',
  }))
  const [turn, ...others] = convert(dialect, input)
  expect(others).toEqual([])
  expect((turn!['tool_calls'] as readonly Body[]).map(({ id }) => id)).toEqual(input.map((it) => it.call_id))
})

it.each(['previous_response_id', 'conversation', 'prompt'])(
  'a response that goes on with a stored %s is load-only',
  (field) => {
    for (const dialect of ['vllm', 'sglang'] as const) {
      const stored = { input: 'Go on', [field]: 'resp_1' }
      expect(() => convertResponses(stored, { dialect }, habits)).toThrow(
        expect.objectContaining({ reason: 'stored-response' }),
      )
      expect(convertResponses({ input: 'Go on', [field]: null }, { dialect }, habits)).toHaveProperty('messages')
    }
  },
)
