import fc from 'fast-check'
import { expect, it } from 'vitest'
import { WarmrouteError } from '../../core/protocol/index.js'
import { parseBody, unread } from './parse-body.js'

const filler = 'x'.repeat(40_000)

function parse(text: string): Readonly<Record<string, unknown>> {
  return parseBody(Buffer.from(text), 128).body
}

// Goal: of a long body every field that is read is read as JSON.parse would. Method: the same object, short and long.
it('reads the same of a long body as of a short one, except for long texts', () => {
  const names = fc.constantFrom('model', 'stream', 'nvext', 'priority', 'n', '__proto__', 'ä"\\')
  fc.assert(
    fc.property(fc.dictionary(names, fc.jsonValue({ maxDepth: 3 })), fc.constantFrom(undefined, 1), (object, space) => {
      const long = JSON.stringify({ ...object, messages: [{ role: 'user', content: filler }] }, undefined, space)
      const body = parse(long)
      const whole = JSON.parse(long) as Record<string, unknown>
      for (const name of Object.keys(whole)) if (name !== 'messages') expect(body[name]).toEqual(whole[name])
      expect(body['messages']).toBe(unread)
    }),
  )
})

it('reads token ids, however many', () => {
  const ids = Array.from({ length: 20_000 }, (_, at) => at)
  expect(parse(JSON.stringify({ model: 'm', prompt: ids }))['prompt']).toEqual(ids)
  expect(parse(JSON.stringify({ model: 'm', prompt: [ids, ids] }))['prompt']).toEqual([ids, ids])
})

it.each([
  ['no object', `["${filler}"]`],
  ['a body that ends early', `{"messages":"${filler}"`],
  ['a short field that is no JSON', `{"messages":"${filler}","n":truth}`],
  ['deep nesting in a long field', `{"messages":${'['.repeat(20_000)}${']'.repeat(20_000)}}`],
  ['deep nesting beside a long field', `{"a":${'['.repeat(200)}${']'.repeat(200)},"messages":"${filler}"}`],
])('refuses %s', (_says, text) => {
  expect(() => parse(text)).toThrow(WarmrouteError)
})

it('refuses a long body that is not UTF-8', () => {
  const bytes = Buffer.concat([Buffer.from(`{"messages":"${filler}`), Buffer.from([0xff]), Buffer.from('"}')])
  expect(() => parseBody(bytes, 128)).toThrow(WarmrouteError)
})

it('is not fooled by brackets in a text', () => {
  expect(parse(JSON.stringify({ model: 'm', messages: [{ content: `${'['.repeat(300)}"${filler}` }] }))['model']).toBe(
    'm',
  )
})
