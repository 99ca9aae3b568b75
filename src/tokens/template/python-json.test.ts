import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { JsonError, mayDifferFromPython, parsePythonJson } from './python-json.js'
import { dumps } from './spell.js'
import type { Value } from './values.js'

it('reads what JSON.parse reads, wherever the two agree', () => {
  fc.assert(
    fc.property(fc.json(), (text) => {
      if (mayDifferFromPython(text)) return
      expect(parsePythonJson(text)).toEqual(JSON.parse(text))
    }),
    { numRuns: 500 },
  )
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

it.each(['', '{', '[1,]', '{"a" 1}', '"', '"\\x"', '01', '1.', 'nul', '1 2', `${'['.repeat(600)}`, "{'a': 1}"])(
  'refuses %s',
  (text) => {
    expect(() => parsePythonJson(text)).toThrow(JsonError)
  },
)
