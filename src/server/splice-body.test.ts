import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { BodyEdit } from './splice-body.js'
import { scanFields } from './scan-fields.js'
import { spliceBody } from './splice-body.js'

const encoder = new TextEncoder()

function spliced(text: string, edit: BodyEdit): string {
  const body = encoder.encode(text)
  const fields = scanFields(body)
  if (!fields) throw new Error('not an object')
  return Buffer.concat(spliceBody(body, fields, edit)).toString()
}

describe('splicing', () => {
  it.each<[string, string, BodyEdit, string]>([
    [
      'keeps numbers, spacing and order of the rest as they came',
      '{ "a" : 1.0, "b":[1e3 , "x"] }',
      { remove: new Set(['c']) },
      '{ "a" : 1.0, "b":[1e3 , "x"] }',
    ],
    [
      'takes a field out',
      '{"a":1,"kv_transfer_params":{"x":[1,2]},"b":2}',
      { remove: new Set(['kv_transfer_params']) },
      '{"a":1,"b":2}',
    ],
    ['takes out the only field', '{"a":1}', { remove: new Set(['a']) }, '{}'],
    ['puts a field in', '{"a":1}', { set: { rid: '"r"' } }, '{"a":1,"rid":"r"}'],
    ['puts a field into an empty object', '{}', { set: { rid: '"r"' } }, '{"rid":"r"}'],
    ['replaces a field', '{"a":1,"b":2}', { set: { a: '3' } }, '{"b":2,"a":3}'],
    ['takes out every duplicate', '{"p":1,"a":2,"p":3}', { remove: new Set(['p']) }, '{"a":2}'],
    [
      'sees through escapes in a key',
      String.raw`{"\u0070riority":9,"a":1}`,
      { remove: new Set(['priority']) },
      '{"a":1}',
    ],
    [
      'does not look into nested objects',
      '{"a":{"priority":1}}',
      { remove: new Set(['priority']) },
      '{"a":{"priority":1}}',
    ],
    [
      'is not fooled by brackets and quotes inside strings',
      String.raw`{"a":"}\"],{","priority":1}`,
      { remove: new Set(['priority']) },
      String.raw`{"a":"}\"],{"}`,
    ],
    [
      'is not fooled by a backslash before the closing quote',
      String.raw`{"a":"\\","priority":1}`,
      { remove: new Set(['priority']) },
      String.raw`{"a":"\\"}`,
    ],
  ])('%s', (_says, text, edit, expected) => {
    expect(spliced(text, edit)).toBe(expected)
  })

  it('gives back the same bytes when there is nothing to change', () => {
    const body = encoder.encode('{"a":1}')
    expect(spliceBody(body, scanFields(body)!, { remove: new Set(['b']) })[0]).toBe(body)
  })
})

// Goal: editing bytes is editing the object. Method: the same edit on the parsed object, for any JSON in any spacing.
it('agrees with parse, edit and print on every object', () => {
  const names = fc.constantFrom('a', 'b', 'model', 'priority', 'ä"\\', '')
  fc.assert(
    fc.property(
      fc.dictionary(names, fc.jsonValue({ maxDepth: 3 })),
      fc.subarray(['a', 'priority', 'ä"\\']),
      fc.dictionary(fc.constantFrom('b', 'rid'), fc.jsonValue({ maxDepth: 1 })),
      fc.constantFrom(undefined, 1, '\t'),
      (object, remove, set, space) => {
        const text = JSON.stringify(object, undefined, space)
        const edited = spliced(text, {
          remove: new Set(remove),
          set: Object.fromEntries(Object.entries(set).map(([name, value]) => [name, JSON.stringify(value)])),
        })
        const expected = { ...(JSON.parse(text) as Record<string, unknown>) }
        for (const name of remove) delete expected[name]
        expect(JSON.parse(edited)).toEqual({ ...expected, ...(JSON.parse(JSON.stringify(set)) as object) })
      },
    ),
  )
})

it('never throws, whatever the bytes', () => {
  fc.assert(fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => void scanFields(bytes)))
  const pieces = fc.constantFrom('{', '}', '[', ']', '"', '\\', ',', ':', 'a', '1', ' ', 'null')
  fc.assert(
    fc.property(fc.array(pieces, { maxLength: 30 }), (parts) => {
      const body = encoder.encode(parts.join(''))
      const fields = scanFields(body)
      if (fields) spliceBody(body, fields, { remove: new Set(['a']), set: { b: '1' } })
    }),
    { numRuns: 2000 },
  )
})
