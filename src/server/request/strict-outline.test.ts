import { expect, it, vi } from 'vitest'
import type { WarmrouteError } from '../../core/protocol/index.js'
import { unkept } from '../../core/protocol/index.js'
import { endpointByPath } from './endpoints.js'
import { scanFields } from '../scan-fields.js'
import { parseBody, unread } from './parse-body.js'
import { validateStrictly } from './strict.js'
import { outlineBody } from './strict-outline.js'

const chat = '/v1/chat/completions'
const text = '/v1/completions'
const long = 'x'.repeat(40_000)
const parameters = { properties: Object.fromEntries(Array.from({ length: 5000 }, (_, at) => [`k${at}`, { a: '"]' }])) }
const tool = (name: string, more: object = {}): object => ({ type: 'function', function: { ...more, name } })

function verdict(check: () => void): string {
  try {
    check()
    return 'accepted'
  } catch (error) {
    return (error as WarmrouteError).details['message'] as string
  }
}

function* outlined(bytes: Buffer): Generator<undefined, Readonly<Record<string, unknown>>, undefined> {
  return yield* outlineBody(bytes, yield* parseBody(bytes, 128))
}

// Goal: a long body is refused for what a short one would be, and taken where that would be.
it.each<[string, object, string]>([
  [chat, { messages: long }, 'accepted'],
  [chat, { messages: long, surprise: 1 }, 'Unsupported parameter(s): `surprise`'],
  [chat, { surprise: [long] }, 'Unsupported parameter(s): `surprise`'],
  [chat, { temperature: long }, 'Validation: temperature must be between 0 and 2, got string'],
  [chat, { temperature: [long] }, 'Validation: temperature must be between 0 and 2, got object'],
  [chat, { messages: long, temperature: 3 }, 'Validation: temperature must be between 0 and 2, got 3'],
  [chat, { stop: [long, 'b', 'c', 'd', 'e'] }, 'Validation: at most 4 stop sequences'],
  [chat, { stop: [long, 'b', 'c', 'd'] }, 'accepted'],
  [chat, { stop: long }, 'accepted'],
  [chat, { functions: [long] }, 'functions is not supported'],
  [chat, { tools: [tool('f', { parameters })] }, 'accepted'],
  [chat, { tools: [tool('f', { parameters }), tool('x'.repeat(128), { parameters })] }, 'accepted'],
  [chat, { tools: [tool('x'.repeat(129), { parameters })] }, 'Validation: a function name has at most 128 characters'],
  [chat, { tools: [tool('é'.repeat(128), { parameters })] }, 'accepted'],
  [chat, { tools: [tool('\u0001'.repeat(128), { parameters })] }, 'accepted'],
  [
    chat,
    { tools: [tool('\u0001'.repeat(129), { parameters })] },
    'Validation: a function name has at most 128 characters',
  ],
  [chat, { tools: [tool(long)] }, 'Validation: a function name has at most 128 characters'],
  [chat, { tools: [1, null, [long], { function: long }, { function: { name: [long] } }] }, 'accepted'],
  [chat, { tools: Array(1536).fill(tool('some name')) }, 'accepted'],
  [chat, { tools: Array(1537).fill(tool('some name')) }, 'Validation: at most 1536 tools'],
  [chat, { tools: { not: [long] } }, 'accepted'],
  [chat, { nvext: { token_data: Array(20_000).fill(1) } }, 'accepted'],
  [chat, { nvext: { token_data: Array(20_000).fill(1), surprise: 1 } }, 'nvext: unknown field `surprise`'],
  [text, { prompt: Array(128).fill(long.slice(0, 400)) }, 'accepted'],
  [text, { prompt: Array(129).fill(long.slice(0, 400)) }, 'Validation: prompts times n must be at most 128'],
  [text, { prompt: Array(65).fill(long.slice(0, 800)), n: 2 }, 'Validation: prompts times n must be at most 128'],
  [text, { prompt: Array(30_000).fill(7), n: 2 }, 'accepted'],
  [text, { prompt: Array(30_000).fill(-7), n: 2 }, 'accepted'],
  [text, { prompt: Array(200).fill(Array(100).fill(7)) }, 'Validation: prompts times n must be at most 128'],
])('%s %#: %s', (path, body, expected) => {
  const bytes = Buffer.from(JSON.stringify(body))
  expect(bytes.length).toBeGreaterThan(32 * 1024) // shorter ones are parsed as a whole
  const row = endpointByPath.get(path)!
  const steps = outlined(bytes)
  const found = verdict(() => {
    let step = steps.next()
    while (!step.done) step = steps.next()
    validateStrictly(row, step.value)
  })
  expect(found).toBe(expected)
  expect(verdict(() => validateStrictly(row, JSON.parse(bytes.toString()) as Record<string, unknown>))).toBe(expected)
})

it('a tool with thousands of fields is refused, since nobody looks for its name among them', () => {
  const fields = Object.fromEntries(Array.from({ length: 5000 }, (_, at) => [`field ${at}`, 1]))
  const steps = outlined(Buffer.from(JSON.stringify({ tools: [fields] })))
  expect(verdict(() => void [...steps])).toBe('tools: the body has more than 256 fields')
})

// V8 keeps a name by which an object is asked, too (docs/decisions/0273).
it('no object is asked by a name that came with a request', () => {
  const bytes = Buffer.from('{"a name":{"b":1},"nvext":{"c":1},"nvext":{"d":1}}')
  const given = new Map<string, unknown>([['a name', unread], ['nvext', unread]]) // biome-ignore format: short
  const asked = vi.spyOn(given, 'get')
  const parsed = { body: unkept(given), isWhole: false, isLight: false, fields: scanFields(bytes)! }
  const { value } = outlineBody(bytes, parsed).next()
  expect(asked).not.toHaveBeenCalled()
  expect(JSON.stringify(value)).toBe('{"a name":{},"nvext":{"d":true}}')
})
