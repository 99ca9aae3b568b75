/** jinja2's filters and tests, as far as chat templates use them. A name that is not here is refused when the template is compiled. */
import { capitalize, iterate, replace, sorted, splitLines, strip, textLength } from './methods.js'
import { dumps, repr, str } from './spell.js'
import type { LoopState, Value } from './values.js'
import {
  compare,
  dictEntries,
  dictGet,
  dictHas,
  dictSize,
  float,
  isDict,
  isEqual,
  isFloat,
  isList,
  isNumber,
  isTrue,
  Namespace,
  TemplateError,
  toNumber,
  Tuple,
  typeName,
} from './values.js'

export type Filter = (value: Value, args: readonly Value[], named: ReadonlyMap<string, Value>) => Value
export type Test = (value: Value, args: readonly Value[]) => boolean

export const filters: Readonly<Record<string, Filter>> = {
  abs: (value) => (isFloat(value) ? float(Math.abs(number(value))) : Math.abs(number(value))),
  capitalize: (value) => capitalize(str(value)),
  count: (value) => length(value),
  d: (value, args, named) => orDefault(value, args, named),
  default: (value, args, named) => orDefault(value, args, named),
  dictsort: (value, args, named) => dictSort(value, args, named),
  e: (value) => escapeHtml(str(value)),
  escape: (value) => escapeHtml(str(value)),
  first: (value) => iterate(value)[0],
  float: (value, args, named) => toFloat(value, args[0] ?? named.get('default')),
  format: (value, args) => formatPercent(str(value), args),
  indent: (value, args, named) => indent(str(value), args, named),
  int: (value, args, named) => toInt(value, args[0] ?? named.get('default')),
  items: (value) => (value === undefined ? [] : entries(value)),
  join: (value, args, named) => joinItems(value, args, named),
  last: (value) => iterate(value).at(-1),
  length: (value) => length(value),
  list: (value) => [...iterate(value)],
  lower: (value) => str(value).toLowerCase(),
  map: (value, args, named) => mapItems(value, args, named),
  max: (value, args, named) => utmost(value, keyOf(args, named), 1),
  min: (value, args, named) => utmost(value, keyOf(args, named), -1),
  reject: (value, args) => iterate(value).filter((item) => !passes(item, args)),
  rejectattr: (value, args) => iterate(value).filter((item) => !passes(attribute(item, args[0]), args.slice(1))),
  replace: (value, args, named) => replace(str(value), str(args[0]), str(args[1]), args[2] ?? named.get('count')),
  reverse: (value) =>
    typeof value === 'string' ? Array.from(value).reverse().join('') : [...iterate(value)].reverse(),
  round: (value, args, named) => round(value, args, named),
  safe: (value) => str(value),
  select: (value, args) => iterate(value).filter((item) => passes(item, args)),
  selectattr: (value, args) => iterate(value).filter((item) => passes(attribute(item, args[0]), args.slice(1))),
  sort: (value, args, named) => sortItems(value, args, named),
  string: (value) => str(value),
  sum: (value, args, named) => sumItems(value, args, named),
  title: (value) => titleWords(str(value)),
  tojson: (value, args, named) => toJson(value, args, named),
  trim: (value, args, named) => strip(str(value), args[0] ?? named.get('chars'), true, true),
  unique: (value, args, named) => unique(iterate(value), keyOf(args, named)),
  upper: (value) => str(value).toUpperCase(),
  wordcount: (value) => str(value).match(/[\p{L}\p{N}_]+/gu)?.length ?? 0,
}

export const tests: Readonly<Record<string, Test>> = {
  boolean: (value) => typeof value === 'boolean',
  callable: (value) => value === undefined || typeof value === 'function',
  defined: (value) => value !== undefined,
  divisibleby: (value, args) => number(value) % number(args[0]) === 0,
  eq: (value, args) => isEqual(value, args[0]),
  equalto: (value, args) => isEqual(value, args[0]),
  even: (value) => number(value) % 2 === 0,
  false: (value) => value === false,
  filter: (value) => typeof value === 'string' && Object.hasOwn(filters, value),
  float: (value) => isFloat(value),
  ge: (value, args) => compare(value, args[0]) >= 0,
  gt: (value, args) => compare(value, args[0]) > 0,
  greaterthan: (value, args) => compare(value, args[0]) > 0,
  in: (value, args) => contains(args[0], value),
  integer: (value) => typeof value === 'bigint' || (typeof value === 'number' && Number.isInteger(value)),
  iterable: (value) => value === undefined || typeof value === 'string' || isList(value) || isDict(value),
  le: (value, args) => compare(value, args[0]) <= 0,
  lessthan: (value, args) => compare(value, args[0]) < 0,
  lower: (value) => str(value) !== str(value).toUpperCase() && str(value) === str(value).toLowerCase(),
  lt: (value, args) => compare(value, args[0]) < 0,
  mapping: (value) => isDict(value),
  ne: (value, args) => !isEqual(value, args[0]),
  none: (value) => value === null,
  number: (value) => isNumber(value) || typeof value === 'boolean',
  odd: (value) => Math.abs(number(value) % 2) === 1,
  sameas: (value, args) => value === args[0],
  sequence: (value) => value === undefined || typeof value === 'string' || isList(value) || isDict(value),
  string: (value) => typeof value === 'string',
  true: (value) => value === true,
  undefined: (value) => value === undefined,
  upper: (value) => str(value) !== str(value).toLowerCase() && str(value) === str(value).toUpperCase(),
}

/** `in`: a part of a string, an item of a list, a key of a mapping. */
export function contains(container: Value, item: Value): boolean {
  if (typeof container === 'string') {
    if (typeof item !== 'string') throw new TemplateError(`'in <string>' wants a str, not ${typeName(item)}`)
    return container.includes(item)
  }
  if (isList(container)) return container.some((it) => isEqual(it, item))
  if (isDict(container)) return dictHas(container, item)
  if (container === undefined) return false
  throw new TemplateError(`${typeName(container)} is not iterable`)
}

function length(value: Value): number {
  if (typeof value === 'string') return textLength(value)
  if (isList(value)) return value.length
  if (isDict(value)) return dictSize(value)
  if (value === undefined) return 0
  throw new TemplateError(`${typeName(value)} has no len()`)
}

function number(value: Value): number {
  const found = toNumber(value)
  if (found === undefined) throw new TemplateError(`a number is wanted, not ${typeName(value)}`)
  return found
}

function orDefault(value: Value, args: readonly Value[], named: ReadonlyMap<string, Value>): Value {
  const fallback = args.length > 0 ? args[0] : named.has('default_value') ? named.get('default_value') : ''
  const isBoolean = isTrue(args[1] ?? named.get('boolean'))
  return value === undefined || (isBoolean && !isTrue(value)) ? fallback : value
}

function toInt(value: Value, fallback: Value = 0): Value {
  if (typeof value === 'bigint') return value
  const parsed = typeof value === 'string' ? parseNumber(value) : toNumber(value)
  return parsed === undefined || !Number.isFinite(parsed) ? fallback : Math.trunc(parsed)
}

function toFloat(value: Value, fallback: Value = float(0)): Value {
  const parsed = typeof value === 'string' ? parseNumber(value) : toNumber(value)
  return parsed === undefined ? fallback : float(parsed)
}

function parseNumber(text: string): number | undefined {
  const trimmed = strip(text, undefined, true, true)
  return /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(trimmed) ? Number(trimmed) : undefined
}

/** Half to even, as Python 3 rounds. */
function round(value: Value, args: readonly Value[], named: ReadonlyMap<string, Value>): Value {
  const digits = toNumber(args[0] ?? named.get('precision') ?? 0) ?? 0
  const method = args[1] ?? named.get('method') ?? 'common'
  if (method === 'common' && digits >= 0 && !isFloat(value)) return typeof value === 'boolean' ? number(value) : value
  const scale = 10 ** digits
  const scaled = number(value) * scale
  if (method === 'ceil') return float(Math.ceil(scaled) / scale)
  if (method === 'floor') return float(Math.floor(scaled) / scale)
  const below = Math.floor(scaled)
  const rest = scaled - below
  const rounded = rest < 0.5 || (rest === 0.5 && below % 2 === 0) ? below : below + 1
  return float(rounded / scale)
}

function entries(value: Value): Value[] {
  if (!isDict(value)) throw new TemplateError('items wants a mapping')
  return dictEntries(value).map((entry) => Tuple.from(entry) as Tuple)
}

function dictSort(value: Value, args: readonly Value[], named: ReadonlyMap<string, Value>): Value {
  const isCaseSensitive = isTrue(args[0] ?? named.get('case_sensitive'))
  const position = (args[1] ?? named.get('by') ?? 'key') === 'value' ? 1 : 0
  const key = (entry: Value): Value => foldCase((entry as Tuple)[position], isCaseSensitive)
  return sorted(entries(value), key, isTrue(args[2] ?? named.get('reverse')))
}

function sortItems(value: Value, args: readonly Value[], named: ReadonlyMap<string, Value>): Value {
  return sorted(iterate(value), keyOf(args.slice(1), named), isTrue(args[0] ?? named.get('reverse')))
}

/** What items are compared by: `case_sensitive` and `attribute` of `sort`, `unique`, `min` and `max`. */
function keyOf(args: readonly Value[], named: ReadonlyMap<string, Value>): (item: Value) => Value {
  const isCaseSensitive = isTrue(args[0] ?? named.get('case_sensitive'))
  const by = args[1] ?? named.get('attribute')
  return (item) => foldCase(by === undefined || by === null ? item : attribute(item, by), isCaseSensitive)
}

/** The first item that no other goes beyond, upwards or downwards. */
function utmost(value: Value, key: (item: Value) => Value, sign: 1 | -1): Value {
  const [first, ...others] = iterate(value)
  return others.reduce((best, item) => (compare(key(item), key(best)) * sign > 0 ? item : best), first)
}

function unique(items: readonly Value[], key: (item: Value) => Value): Value[] {
  const keys = items.map(key)
  return items.filter((_, index) => keys.findIndex((other) => isEqual(keys[index], other)) === index)
}

function foldCase(value: Value, isCaseSensitive: boolean): Value {
  return typeof value === 'string' && !isCaseSensitive ? value.toLowerCase() : value
}

function joinItems(value: Value, args: readonly Value[], named: ReadonlyMap<string, Value>): string {
  const by = args[1] ?? named.get('attribute')
  const items = iterate(value).map((item) => str(by === undefined || by === null ? item : attribute(item, by)))
  return items.join(str(args[0] ?? named.get('d') ?? ''))
}

function mapItems(value: Value, args: readonly Value[], named: ReadonlyMap<string, Value>): Value[] {
  const by = named.get('attribute')
  if (by !== undefined) {
    const fallback = named.get('default')
    return iterate(value).map((item) => {
      const found = attribute(item, by)
      return found === undefined ? fallback : found
    })
  }
  const [name, ...rest] = args
  const filter = typeof name === 'string' && Object.hasOwn(filters, name) ? filters[name] : undefined
  if (!filter) throw new TemplateError(`no filter named ${str(name)}`)
  return iterate(value).map((item) => filter(item, rest, named))
}

function sumItems(value: Value, args: readonly Value[], named: ReadonlyMap<string, Value>): Value {
  const by = args[0] ?? named.get('attribute')
  const start = args[1] ?? named.get('start') ?? 0
  const items = iterate(value).map((item) => (by === undefined || by === null ? item : attribute(item, by)))
  if (isList(start)) return [...start, ...items.flatMap((item) => [...iterate(item)])]
  const total = items.reduce<number>((sum, item) => sum + number(item), number(start))
  return items.some(isFloat) || isFloat(start) ? float(total) : total
}

/** An attribute by path: `a.b`, `0`. */
function attribute(item: Value, path: Value): Value {
  if (typeof path === 'number') return isList(item) ? item.at(path) : undefined
  let found = item
  for (const part of str(path).split('.')) {
    if (isDict(found)) found = dictGet(found, part)
    else if (found instanceof Namespace) found = found.values.get(part)
    else if (isList(found)) found = /^\d+$/.test(part) ? found[Number(part)] : undefined
    else return undefined
  }
  return found
}

function passes(value: Value, args: readonly Value[]): boolean {
  if (args.length === 0) return isTrue(value)
  const [name, ...rest] = args
  const named: Readonly<Record<string, string>> = {
    '==': 'eq',
    '!=': 'ne',
    '<': 'lt',
    '<=': 'le',
    '>': 'gt',
    '>=': 'ge',
  }
  const key = named[str(name)] ?? str(name)
  const test = Object.hasOwn(tests, key) ? tests[key] : undefined
  if (!test) throw new TemplateError(`no test named ${str(name)}`)
  return test(value, rest)
}

function indent(text: string, args: readonly Value[], named: ReadonlyMap<string, Value>): string {
  const width = args[0] ?? named.get('width') ?? 4
  const pad = typeof width === 'string' ? width : ' '.repeat(number(width))
  const isFirst = isTrue(args[1] ?? named.get('first'))
  const isBlank = isTrue(args[2] ?? named.get('blank'))
  return splitLines(`${text}\n`)
    .map((line, index) => ((index === 0 && !isFirst) || (index > 0 && !isBlank && line === '') ? line : pad + line))
    .join('\n')
}

function toJson(value: Value, args: readonly Value[], named: ReadonlyMap<string, Value>): string {
  // transformers: tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False)
  const pad = args[1] ?? named.get('indent')
  const separators = args[2] ?? named.get('separators')
  return dumps(value, {
    ensureAscii: isTrue(args[0] ?? named.get('ensure_ascii')),
    indent: typeof pad === 'string' ? pad : toNumber(pad),
    separators: isList(separators) ? [str(separators[0]), str(separators[1])] : undefined,
    sortKeys: isTrue(args[3] ?? named.get('sort_keys')),
  })
}

/** Not `str.title`: the filter begins words after spaces, hyphens and brackets only. */
function titleWords(text: string): string {
  return text
    .split(/([-\s({[<]+)/)
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1).toLowerCase())
    .join('')
}

function escapeHtml(text: string): string {
  const names: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', "'": '&#39;', '"': '&#34;' }
  return text.replaceAll(/[&<>'"]/g, (char) => names[char]!)
}

/** `%` formatting of `%s`, `%d`, `%r` and `%%`; others would have to be written as Python does. */
export function formatPercent(text: string, args: readonly Value[]): string {
  let next = 0
  const formatted = text.replaceAll(/%(.?)/gsu, (field, kind: string) => {
    if (kind === '%') return '%'
    const value = args[next++]
    if (next > args.length) throw new TemplateError('not enough arguments for format string')
    if (kind === 's') return str(value)
    if (kind === 'r') return repr(value)
    if (kind === 'd' && !isFloat(value)) return str(typeof value === 'bigint' ? value : number(value))
    throw new TemplateError(`unknown format: ${field}`)
  })
  if (next < args.length) throw new TemplateError('not all arguments converted')
  return formatted
}

/** `loop.index` and its kin. */
export function loopAttribute(loop: LoopState, name: string): Value {
  const { index0, items } = loop
  switch (name) {
    case 'index0':
      return index0
    case 'index':
      return index0 + 1
    case 'revindex':
      return items.length - index0
    case 'revindex0':
      return items.length - index0 - 1
    case 'first':
      return index0 === 0
    case 'last':
      return index0 === items.length - 1
    case 'length':
      return items.length
    case 'previtem':
      return index0 > 0 ? items[index0 - 1] : undefined
    case 'nextitem':
      return items[index0 + 1]
    case 'depth':
      return 1
    case 'depth0':
      return 0
    case 'cycle':
      return (args) => args[index0 % args.length]
    default:
      return undefined
  }
}
