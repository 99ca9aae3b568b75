import fc from 'fast-check'
import { expect, it } from 'vitest'
import { WarmrouteError } from './errors.js'
import { type JsonValue, parseLosslessJson, stringifyLosslessJson } from './lossless-json.js'

it.each([
  { says: 'a u64 keeps its last digit', text: '18446744073709551615', value: 18446744073709551615n },
  { says: 'a small integer is a bigint too', text: ' 7\n', value: 7n },
  { says: 'a signed integer', text: '-9223372036854775808', value: -9223372036854775808n },
  { says: 'a fraction is a number', text: '0.5', value: 0.5 },
  { says: 'an exponent is a number', text: '1e3', value: 1000 },
  { says: 'escapes', text: '"a\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00"', value: 'a"\\/\b\f\n\r\té😀' },
  { says: 'nesting', text: '{"a":[null,true,false,{}],"b":[]}', value: { a: [null, true, false, {}], b: [] } },
  { says: 'the last of two equal keys', text: '{"a":1,"a":2}', value: { a: 2n } },
])('reads $says', ({ text, value }) => {
  expect(parseLosslessJson(text)).toEqual(value)
})

it('reads __proto__ as a key like any other', () => {
  const value = parseLosslessJson('{"__proto__":{"polluted":1}}') as Record<string, JsonValue>
  expect(Object.keys(value)).toEqual(['__proto__'])
  expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
})

it.each([
  '',
  ' ',
  '{',
  '[1,',
  '[1 2]',
  '{"a"}',
  '{a:1}',
  '{"a":1,}',
  '[1,]',
  '01',
  '+1',
  '.5',
  '1.',
  '-',
  'NaN',
  'tru',
  '"a',
  '"\\x"',
  '"\\u12g4"',
  '"\n"',
  '1 1',
  '1e999',
  '1'.repeat(41),
  '['.repeat(129),
])('refuses %s with a typed error', (text) => {
  expect(() => parseLosslessJson(text)).toThrow(expect.objectContaining({ code: 'WR_INVALID_JSON' }))
})

it('reads nesting up to its limit and refuses more', () => {
  const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)
  expect(parseLosslessJson(nested(128))).toBeDefined()
  expect(() => parseLosslessJson(nested(129))).toThrow(/nested deeper/)
  expect(() => parseLosslessJson(nested(100_000))).toThrow(/nested deeper/)
})

it('refuses to write what could not be read again', () => {
  const loop: { self?: unknown } = {}
  loop.self = loop
  for (const bad of [Number.NaN, Number.POSITIVE_INFINITY, loop as never])
    expect(() => stringifyLosslessJson(bad)).toThrow(expect.objectContaining({ code: 'WR_INVALID_ARGUMENT' }))
})

const { json } = fc.letrec<{ json: JsonValue }>((tie) => ({
  json: fc.oneof(
    { maxDepth: 4 },
    fc.constant(null),
    fc.boolean(),
    fc.string({ unit: 'binary' }),
    fc.bigInt(-(2n ** 64n), 2n ** 64n),
    fc.double({ noNaN: true, noDefaultInfinity: true }).filter((it) => !Number.isInteger(it)),
    fc.array(tie('json'), { maxLength: 4 }),
    fc.dictionary(fc.string(), tie('json'), { maxKeys: 4 }),
  ),
}))

it('reads back whatever it wrote', () => {
  fc.assert(
    fc.property(json, (value) => {
      expect(parseLosslessJson(stringifyLosslessJson(value))).toEqual(value)
    }),
  )
})

// Goal: it accepts exactly what JSON.parse accepts, apart from the two limits, and fails with one kind of error.
it('agrees with JSON.parse about what is JSON', () => {
  const piece = fc.constantFrom('{', '}', '[', ']', ',', ':', '"a"', '"', '1', '-', '0', '.5', 'e1', 'null', ' ', '\\')
  const text = fc.oneof(
    fc.array(piece, { maxLength: 12 }).map((it) => it.join('')),
    fc.json().map((it) => it),
    fc.string(),
  )
  fc.assert(
    fc.property(text, (it) => {
      let expected: unknown
      try {
        expected = JSON.parse(it)
      } catch {
        expect(() => parseLosslessJson(it)).toThrow(WarmrouteError)
        return
      }
      expect(rounded(parseLosslessJson(it))).toEqual(rounded(expected as JsonValue))
    }),
    { numRuns: 2000 },
  )
})

/** As JSON.parse would have it; signs of zero aside. */
function rounded(value: JsonValue): unknown {
  if (typeof value === 'bigint' || typeof value === 'number') return Number(value) + 0
  if (Array.isArray(value)) return value.map(rounded)
  if (value !== null && typeof value === 'object')
    return Object.fromEntries(Object.entries(value).map(([key, it]) => [key, rounded(it)]))
  return value
}
