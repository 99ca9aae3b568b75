import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { JsonError, mayDifferFromPython, parsePythonJson } from './python-json.js'
import { dumps } from './spell.js'
import type { Value } from './values.js'
import { Float } from './values.js'

it('reads what JSON.parse reads, wherever the two agree', () => {
  fc.assert(
    fc.property(fc.json(), (text) => {
      if (mayDifferFromPython(text)) return
      expect(parsePythonJson(text)).toEqual(JSON.parse(text))
    }),
    { numRuns: 500 },
  )
})

// A text that is not read again must be the same to both; words, keys and numbers that look like others are what matters here.
it('says of every text that JSON.parse loses something of that it may', () => {
  const anyKey = fc.constantFrom('"a"', '"1"', '"95" ', '"\\u0031"', '"__proto__"', '"1.5"', '"x\\""', '""', '"\\\\"')
  const anyScalar = fc.constantFrom(
    '1',
    '0',
    '-7',
    '1.0',
    '-0.0',
    '2.5',
    '1e3',
    '1E-2',
    '123456789012345',
    '12345678901234567',
    '"1.0, 2.5"',
    '"\\", 1.5: \\""',
    '"[1e9"',
    '"\\\\"',
    'true',
    'null',
  ) // prettier-ignore
  const anySpace = fc.constantFrom('', ' ', '\n\t ')
  const { value: anyText } = fc.letrec<{ value: string }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 3 },
      anyScalar,
      fc
        .tuple(fc.array(tie('value'), { maxLength: 3 }), anySpace)
        .map(([items, gap]) => `[${items.join(`${gap},`)}${gap}]`),
      fc
        .tuple(fc.array(fc.tuple(anyKey, tie('value')), { maxLength: 3 }), anySpace)
        .map(([entries, gap]) => `{${entries.map(([key, value]) => `${gap}${key}${gap}:${gap}${value}`).join(',')}}`),
    ),
  }))
  fc.assert(
    fc.property(anyText, (text) => {
      const isSame = dumps(parsePythonJson(text)) === dumps(JSON.parse(text) as Value)
      expect({ text, may: mayDifferFromPython(text) || isSame }).toEqual({ text, may: true })
    }),
    { numRuns: 2000 },
  )
})

it.each([
  ['{"content": "costs: 3.5, [1e9], \\"7\\": 1"}', false],
  ['{"a": ["1", "95"], "b": 123456789012345, "c": [-1, 0]}', false],
  ['{"a": 1234567890123456}', true],
  ['{"a": [1, -2.0]}', true],
  ['{"a": -0}', true], // the int 0, which JSON.parse gives a sign
  ['{"a": 1e3}', true],
  ['{"x": {"12" \n: 1}}', true],
  ['{"\\u0039": 1}', true],
])('%s may be another to Python: %s', (text, may) => {
  expect(mayDifferFromPython(text)).toBe(may)
})

it('writes back what it read, spaces apart, and never loses a digit or the order of keys', () => {
  const anyNumber = fc.oneof(fc.integer(), fc.constantFrom(1.5, -2.25, 1e-7, 12_345.678))
  const anyValue = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      fc.string({ unit: 'binary' }),
      anyNumber,
      fc.boolean(),
      fc.constant(null),
      fc.array(tie('value'), { maxLength: 4 }),
      fc.dictionary(fc.string(), tie('value'), { maxKeys: 4, noNullPrototype: true }),
    ),
  })).value
  fc.assert(
    fc.property(anyValue, (value) => {
      const text = dumps(value as Value)
      expect(dumps(parsePythonJson(text))).toBe(text)
    }),
    { numRuns: 500 },
  )
})

describe('keeps what JSON.parse loses', () => {
  it.each([
    '1.0',
    '-0.0',
    '[1.0, 2, 3.5]',
    '{"b": 1, "2": 1, "1": 1}',
    '{"b": 1, "95": 1}',
    '12345678901234567890123',
    '{"__proto__": 1, "a": 2}',
    '1e-07',
    '1e+16',
    'NaN',
    '-Infinity',
  ])('%s', (text) => {
    expect(dumps(parsePythonJson(text))).toBe(text)
  })
})

it.each([
  '',
  '{',
  '[1,]',
  '{"a" 1}',
  '"',
  '"\\x"',
  '01',
  '1.',
  'nul',
  '1 2',
  `${'['.repeat(600)}`,
  "{'a': 1}",
  '1'.repeat(4301),
])('refuses %s', (text) => {
  expect(() => parsePythonJson(text)).toThrow(JsonError)
})

it('reads whole numbers as JSON does, and refuses what it refuses', () => {
  const anyDigits = fc.string({
    unit: fc.constantFrom('0', '1', '9', '-', '.', 'e', '+', ' '),
    minLength: 1,
    maxLength: 18,
  })
  fc.assert(
    fc.property(anyDigits, (text) => {
      let wanted: unknown
      try {
        wanted = JSON.parse(text)
      } catch {
        expect(() => parsePythonJson(text)).toThrow(JsonError)
        return
      }
      const read = parsePythonJson(text)
      expect(Number(read instanceof Float ? read.value : read) + 0).toBe((wanted as number) + 0)
    }),
    { numRuns: 5000 },
  )
})

it('reads an int of as many digits as Python does, whatever its sign', () => {
  const digits = '7'.repeat(4300)
  expect(parsePythonJson(`[${digits},-${digits}]`)).toEqual([BigInt(digits), -BigInt(digits)])
  expect(() => parsePythonJson(`${digits}7`)).toThrow('too many digits')
  expect(() => parsePythonJson(`-${digits}7`)).toThrow('too many digits')
})

// Goal: what V8 keeps of a text makes no difference to what is read. Method: any JSON, read in both ways and written again.
it('reads the same into maps as into objects', () => {
  fc.assert(
    fc.property(fc.json(), (json) => {
      expect(dumps(parsePythonJson(json, { isUnkept: true }))).toBe(dumps(parsePythonJson(json)))
    }),
    { numRuns: 300 },
  )
  expect(parsePythonJson('{"a":{"b":1}}', { isUnkept: true })).toEqual(new Map([['a', new Map([['b', 1]])]]))
})

it.each(['', 'a', 'ä', '"', '\\', '\n', '\u2028', '😀', 'ten chars.', 'eleven char'])('reads the text %j', (text) => {
  expect(parsePythonJson(JSON.stringify(text))).toBe(text)
  expect(parsePythonJson(`"${escaped(text)}"`)).toBe(text)
})

it.each(['"\u0001"', '"\\x"', '"\\u12"', '"\n"'])('refuses the text %j', (json) => {
  expect(() => parsePythonJson(json)).toThrow(JsonError)
})

function escaped(text: string): string {
  return Array.from({ length: text.length }, (_, at) => `\\u${text.charCodeAt(at).toString(16).padStart(4, '0')}`).join(
    '',
  )
}
