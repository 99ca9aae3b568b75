// What is too much to make a prompt of on the loop, where nobody looks at a clock while a body is read: a thread has it then. Issue 7.
import { describe, expect, it } from 'vitest'
import { exactBody, isMuchToBuild, readBody } from './exact-body.js'
import type { Body, Route } from './request.js'

const call = (args: string): Body => ({ id: 'c', type: 'function', function: { name: 'f', arguments: args } })
const chatWith = (args: string): Body => ({ messages: [{ role: 'assistant', tool_calls: [call(args)] }] })
const responseWith = (...input: Body[]): Body => ({ input })
const used = (input: Body): Body => ({
  messages: [{ role: 'assistant', content: [{ type: 'tool_use', id: 'c', name: 'f', input }] }],
})
const wide = (count: number): Body => Object.fromEntries(Array.from({ length: count }, (_, at) => [`key_${at}`, at]))
const ones = (count: number): string => `{"a":[${'1,'.repeat(count)}1]}`
const said: Body = { role: 'user', content: 'x'.repeat(200) }

interface Case {
  readonly says: string
  readonly route: Route
  readonly body: Body
}

const much: readonly Case[] = [
  { says: 'long arguments of a call', route: 'chat', body: chatWith(ones(40_000)) },
  { says: 'a call of many keys', route: 'chat', body: { messages: [{ tool_calls: [{ ...wide(4000) }] }] } },
  {
    says: 'long arguments in a response',
    route: 'responses',
    body: responseWith({ type: 'function_call', call_id: 'c', name: 'f', arguments: ones(40_000) }),
  },
  {
    says: 'a long input of a custom tool',
    route: 'responses',
    body: responseWith({ type: 'custom_tool_call', call_id: 'c', name: 'f', input: 'x'.repeat(80_000) }),
  },
  {
    says: 'thoughts that SGLang packed',
    route: 'responses',
    body: responseWith({ type: 'reasoning', encrypted_content: `sglang-reasoning-v1.${'A'.repeat(2000)}` }),
  },
  { says: 'a response of many items', route: 'responses', body: { input: Array.from({ length: 1500 }, () => said) } },
  { says: 'what a tool was used with', route: 'messages', body: used({ a: Array.from({ length: 20_000 }, () => 1) }) },
  {
    says: 'many arguments of the template',
    route: 'chat',
    body: { messages: [said], chat_template_kwargs: wide(2000) },
  },
]

const little: readonly Case[] = [
  { says: 'a long chat', route: 'chat', body: { messages: Array.from({ length: 2000 }, () => said) } },
  { says: 'long tools', route: 'chat', body: { messages: [said], tools: [{ function: { parameters: wide(4000) } }] } },
  {
    says: 'a long result',
    route: 'responses',
    body: responseWith({ type: 'function_call_output', output: ones(90_000) }),
  },
  {
    says: '300 calls of a response',
    route: 'responses',
    body: responseWith(
      ...Array.from({ length: 300 }, () => ({ type: 'function_call', call_id: 'c', name: 'f', arguments: ones(40) })),
    ),
  },
  {
    says: 'a long text',
    route: 'completions',
    body: { prompt: 'x'.repeat(400_000), chat_template_kwargs: wide(2000) },
  },
  { says: 'odd messages', route: 'chat', body: { messages: [null, 1, { tool_calls: 'x', content: [null, 'x'] }] } },
]

describe('on the loop', () => {
  it.each(much)('no prompt is made of $says', ({ route, body }) => {
    expect(exactBody(route, body, undefined)).toBeUndefined()
    expect(exactBody(route, body, Buffer.from(JSON.stringify(body)))).toBeUndefined()
    expect(isMuchToBuild(route, readBody(JSON.stringify(body), { isUnkept: true }))).toBe(isMuchToBuild(route, body))
  })

  it.each(little)('a prompt is made of $says', ({ route, body }) => {
    expect(exactBody(route, body, undefined)).toBe(body)
  })
})

it('reads a body behind a byte order mark', () => {
  const text = '\ufeff{"messages":[{"role":"user","content":"a"}],"tools":[1.0]}'
  expect(readBody(text, { isUnkept: true })['tools']).toEqual(readBody(text.slice(1))['tools'])
  expect(exactBody('chat', JSON.parse(text.slice(1)) as Body, new TextEncoder().encode(text))).toBeDefined()
})

it('reads a body again for what a part has besides its text: a template may print it', () => {
  const text = '{"messages":[{"role":"user","content":[{"type":"text","text":"a","weight":1.0}]}]}'
  const plain = text.replace(',"weight":1.0', '')
  const read = (it: string): Body => exactBody('chat', JSON.parse(it) as Body, new TextEncoder().encode(it))!
  expect(JSON.stringify(read(text))).not.toBe(JSON.stringify(JSON.parse(text)))
  expect(read(plain)).toEqual(JSON.parse(plain))
})
