// As the code of SGLang 0.5.23 spells the types of a tool's schema. Issue 7.
import { expect, it } from 'vitest'
import type { Value } from '../template/values.js'
import { standardTypes } from './schema-types.js'

it.each([
  ['string', 'string'],
  ['varchar(255)', 'string'],
  ['ENUM', 'string'],
  ['Integer', 'integer'],
  ['int', 'integer'],
  ['int32', 'integer'],
  ['internal', 'internal'],
  ['unsigned long', 'integer'],
  ['float64', 'number'],
  ['list[str]', 'array'],
  ['list_price', 'list_price'],
  ['dict<str,int>', 'object'],
  ['Any', 'Any'],
  ['decimal(10,2)', 'number'],
])('%s is %s', (type, standard) => {
  expect(standardTypes({ type })).toEqual({ type: standard })
})

it('looks wherever schemas stand, and nowhere else', () => {
  const schema = {
    type: ['str', 'string', 'null'],
    properties: { type: { type: 'str' }, a: { items: [{ type: 'int' }], enum: ['int'] } },
    anyOf: [{ not: { type: 'bool' } }],
    additionalProperties: { type: 'map' },
    default: { type: 'str' },
    examples: [{ type: 'str' }],
  }
  expect(standardTypes(schema)).toEqual({
    type: ['string', 'null'],
    properties: { type: { type: 'string' }, a: { items: [{ type: 'integer' }], enum: ['int'] } },
    anyOf: [{ not: { type: 'boolean' } }],
    additionalProperties: { type: 'object' },
    default: { type: 'str' },
    examples: [{ type: 'str' }],
  })
})

it('keeps what needs no change as it is, and the order of what does', () => {
  const plain = { type: 'object', properties: { a: { type: 'string' } } }
  expect(standardTypes(plain)).toBe(plain)
  const keyed = new Map<string, Value>([
    ['10', 1],
    ['2', 2],
    ['type', 'str'],
  ])
  expect([...(standardTypes(keyed as Value) as Map<string, Value>)]).toEqual([
    ['10', 1],
    ['2', 2],
    ['type', 'string'],
  ])
})

it('ends with a refusal where a schema is nested too deeply', () => {
  let schema: Value = { type: 'int' }
  for (let depth = 0; depth < 100_000; depth++) schema = { items: schema }
  expect(() => standardTypes(schema)).toThrow(expect.objectContaining({ reason: 'malformed' }))
})
