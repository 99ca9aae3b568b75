/**
 * The types in a tool's schema as SGLang has them: names from databases and programming languages become those of JSON Schema before a
 * template sees them, so that `varchar(255)` reaches the model as `string`. What it does not know it leaves. Follows SGLang 0.5.23.
 */
import { objectOf } from '../../core/protocol/index.js'
import type { Value } from '../template/values.js'
import { malformed } from './request.js'

const standard = new Set(['string', 'number', 'integer', 'boolean', 'object', 'array', 'null'])

const spellings: Readonly<Record<string, readonly string[]>> = {
  string: [
    'str',
    'text',
    'varchar',
    'char',
    'enum',
    'uuid',
    'date',
    'datetime',
    'time',
    'timestamp',
    'binary',
    'blob',
    'bytea',
    'bytes',
    'varbinary',
  ],
  boolean: ['bool'],
  integer: ['bigint', 'smallint', 'tinyint'],
  number: ['double', 'decimal', 'real', 'numeric'],
  array: ['arr', 'tuple', 'set'],
  object: ['map'],
}
const known = new Map(Object.entries(spellings).flatMap(([type, names]) => names.map((name) => [name, type] as const)))

/** These also with a width or an item's type behind them: `int32`, `list[str]`. */
const stems: readonly (readonly [stem: RegExp, type: string])[] = [
  [/^(?:int|uint|long|short|unsigned)(?:$|[\d[<( \t])/, 'integer'],
  [/^(?:num|float)(?:$|[\d[<( \t])/, 'number'],
  [/^list(?:$|[\d[<( \t])/, 'array'],
  [/^dict(?:$|[\d[<( \t])/, 'object'],
]

/** Where schemas stand inside of a schema: by name, in a list, alone (or in a list of their own). */
const byName = new Set(['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas'])
const listed = new Set(['anyOf', 'oneOf', 'allOf', 'prefixItems'])
const alone = new Set([
  'items',
  'additionalProperties',
  'not',
  'if',
  'then',
  'else',
  'contains',
  'propertyNames',
  'unevaluatedItems',
  'unevaluatedProperties',
])
/** Python gives up on what is nested more deeply, and the request is refused. */
const depthMax = 400

/** The schema itself where nothing in it is spelled otherwise. */
export function standardTypes(schema: Value, depth = 0): Value {
  if (depth > depthMax) malformed('a schema is nested too deeply')
  if (Array.isArray(schema)) return mapped(schema as readonly Value[], (it) => standardTypes(it, depth + 1))
  return withEntries(schema, (name, value) => {
    if (name === 'type') return Array.isArray(value) ? typesOf(value as readonly Value[]) : typeOf(value)
    if (byName.has(name)) return withEntries(value, (_, it) => standardTypes(it, depth + 1))
    if (listed.has(name) && !Array.isArray(value)) return value
    return listed.has(name) || alone.has(name) ? standardTypes(value, depth + 1) : value
  })
}

function typeOf(value: Value): Value {
  if (typeof value !== 'string' || standard.has(value)) return value
  const base = value.split('(', 1)[0]!.trim().toLowerCase()
  if (standard.has(base)) return base
  return known.get(base) ?? stems.find(([stem]) => stem.test(base))?.[1] ?? value
}

/** Each once. */
function typesOf(values: readonly Value[]): Value {
  const types = values.map(typeOf)
  const kept = types.filter((type, at) => types.indexOf(type) === at)
  return kept.length === values.length && kept.every((type, at) => type === values[at]) ? (values as Value) : kept
}

function mapped(values: readonly Value[], change: (value: Value) => Value): Value {
  const changed = values.map(change)
  return changed.some((value, at) => value !== values[at]) ? changed : (values as Value)
}

/** A mapping with other values, in its order; anything else as it is. */
function withEntries(value: Value, change: (name: string, value: Value) => Value): Value {
  const isMap = value instanceof Map
  if (typeof value !== 'object' || value === null || Array.isArray(value) || (!isMap && !isPlain(value))) return value
  const entries: readonly (readonly [string, Value])[] = isMap
    ? [...(value as Map<string, Value>)]
    : Object.entries(value as Readonly<Record<string, Value>>)
  const changed = entries.map(([name, it]) => [name, change(name, it)] as const)
  if (changed.every(([, it], at) => it === entries[at]![1])) return value
  return isMap ? new Map(changed) : objectOf(changed)
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}
