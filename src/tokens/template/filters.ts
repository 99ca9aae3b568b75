/** jinja2's filters and tests, as far as chat templates use them. A name that is not here is refused when the template is compiled. */
import { arithmetic, wholeOf } from './arithmetic.js'
import { bindMethod, capitalize, iterate, replace, sorted, splitLines, strip, textLength } from './methods.js'
import { dumps, repr, str } from './spell.js'
import type { LoopState, Value } from './values.js'
import {
  compare,
  dictEntries,
  dictGet,
  dictHas,
  dictSize,
  DictView,
  float,
  isDict,
  isEqual,
  isFloat,
  isList,
  isNumber,
  isTrue,
  Lazy,
  Markup,
  Namespace,
  TemplateError,
  toNumber,
  Tuple,
  typeName,
} from './values.js'

export type Filter = (value: Value, args: readonly Value[], named: ReadonlyMap<string, Value>) => Value
type Check = (value: Value, args: readonly Value[]) => boolean
/** Throws where it is given more or less than it takes. */
export type Test = Check

export const filters: Readonly<Record<string, Filter>> = {
  abs: (value) => absolute(value),
  capitalize: (value) => capitalize(str(value)),
  count: (value) => length(value),
  d: (value, args, named) => orDefault(value, args, named),
  default: (value, args, named) => orDefault(value, args, named),
  dictsort: (value, args, named) => dictSort(value, args, named),
  e: (value) => escaped(value),
  escape: (value) => escaped(value),
  first: (value) => (value instanceof Lazy ? value.next()?.value : iterate(value)[0]),
  float: (value, args, named) => toFloat(value, args[0] ?? named.get('default')),
  format: (value, args) => formatPercent(str(value), args),
  indent: (value, args, named) => indent(text(value), args, named),
  int: (value, args, named) => toInt(value, args[0] ?? named.get('default')),
  items: (value) => new Lazy(0, () => (value === undefined ? [] : entries(value))),
  join: (value, args, named) => joinItems(value, args, named),
  last: (value) => lastOf(value),
  length: (value) => length(value),
  list: (value) => [...iterate(value)],
  lower: (value) => str(value).toLowerCase(),
  map: (value, args, named) => mapItems(value, args, named),
  max: (value, args, named) => utmost(value, keyOf(args, named), 1),
  min: (value, args, named) => utmost(value, keyOf(args, named), -1),
  reject: (value, args) => lazily(value, (items) => items.filter((item) => !passes(item, args))),
  rejectattr: (value, args) =>
    lazily(value, (items) => items.filter((item) => !passes(attribute(item, args[0]), args.slice(1)))),
  replace: (value, args, named) => replace(str(value), str(args[0]), str(args[1]), args[2] ?? named.get('count')),
  reverse: (value) => reversed(value),
  round: (value, args, named) => round(value, args, named),
  safe: (value) => (value instanceof Markup ? value : new Markup(str(value))),
  select: (value, args) => lazily(value, (items) => items.filter((item) => passes(item, args))),
  selectattr: (value, args) =>
    lazily(value, (items) => items.filter((item) => passes(attribute(item, args[0]), args.slice(1)))),
  sort: (value, args, named) => sortItems(value, args, named),
  string: (value) => (value instanceof Markup ? value : str(value)),
  sum: (value, args, named) => sumItems(value, args, named),
  title: (value) => titleWords(str(value)),
  tojson: (value, args, named) => toJson(value, args, named),
  trim: (value, args, named) => strip(str(value), args[0] ?? named.get('chars'), true, true),
  unique: (value, args, named) => new Lazy(lengthOf(value), () => unique(iterate(value), keyOf(args, named))),
  upper: (value) => str(value).toUpperCase(),
  wordcount: (value) => str(value).match(/[\p{L}\p{N}_]+/gu)?.length ?? 0,
}

const checks: Readonly<Record<string, Check>> = {
  boolean: (value) => typeof value === 'boolean',
  callable: (value) => value === undefined || typeof value === 'function',
  defined: (value) => value !== undefined,
  divisibleby: (value, args) => isEqual(arithmetic(value, args[0], '%'), 0),
  eq: (value, args) => isEqual(value, args[0]),
  equalto: (value, args) => isEqual(value, args[0]),
  even: (value) => isEqual(arithmetic(value, 2, '%'), 0),
  false: (value) => value === false,
  float: (value) => isFloat(value),
  ge: (value, args) => compare(value, args[0]) >= 0,
  gt: (value, args) => compare(value, args[0]) > 0,
  greaterthan: (value, args) => compare(value, args[0]) > 0,
  in: (value, args) => contains(args[0], value),
  integer: (value) => typeof value === 'bigint' || (typeof value === 'number' && Number.isInteger(value)),
  iterable: (value) => isSequence(value) || value instanceof Lazy,
  le: (value, args) => compare(value, args[0]) <= 0,
  lessthan: (value, args) => compare(value, args[0]) < 0,
  lower: (value) => str(value) !== str(value).toUpperCase() && str(value) === str(value).toLowerCase(),
  lt: (value, args) => compare(value, args[0]) < 0,
  mapping: (value) => isDict(value),
  ne: (value, args) => !isEqual(value, args[0]),
  none: (value) => value === null,
  number: (value) => isNumber(value) || typeof value === 'boolean',
  odd: (value) => isEqual(arithmetic(value, 2, '%'), 1),
  sameas: (value, args) => value === args[0],
  sequence: (value) => isSequence(value),
  string: (value) => isText(value),
  true: (value) => value === true,
  undefined: (value) => value === undefined,
  upper: (value) => str(value) !== str(value).toLowerCase() && str(value) === str(value).toUpperCase(),
}

const oneArgument = new Set('divisibleby eq equalto ge greaterthan gt in le lessthan lt ne sameas'.split(' '))

export const tests: Readonly<Record<string, Test>> = Object.fromEntries(
  Object.entries(checks).map(([name, check]) => {
    const wanted = oneArgument.has(name) ? 1 : 0
    const test: Test = (value, args) => {
      if (args.length !== wanted) throw new TemplateError(`the test ${name} takes ${wanted} arguments`)
      return check(value, args)
    }
    return [name, test]
  }),
)

/** `in`: a part of a string, an item of a list, a key of a mapping. */
export function contains(container: Value, item: Value): boolean {
  if (container instanceof Markup) return contains(container.text, item)
  if (item instanceof Markup) return contains(container, item.text)
  if (container instanceof Lazy) return hasNext(container, item)
  if (typeof container === 'string') {
    if (typeof item !== 'string') throw new TemplateError(`'in <string>' wants a str, not ${typeName(item)}`)
    return container.includes(item)
  }
  if (isList(container)) return container.some((it) => isEqual(it, item))
  if (isDict(container)) {
    if (!isHashable(item)) throw new TemplateError('unhashable type')
    return dictHas(container, item)
  }
  if (container === undefined) return false
  throw new TemplateError(`${typeName(container)} is not iterable`)
}

/** Filters that take a text of `safe` as any other; what others make of it would be such a text again. */
export const markupFilters: ReadonlySet<string> = new Set(
  'count d default e escape first float int join last length list replace safe string tojson wordcount'.split(' '),
)

/** Filters whose answer can be walked over once. */
export const lazyFilters: ReadonlySet<string> = new Set(
  'items map reject rejectattr reverse select selectattr unique'.split(' '),
)

/** Nothing happens before somebody walks over it, and nothing at all where the value is false. */
function lazily(value: Value, make: (items: readonly Value[]) => readonly Value[]): Lazy {
  return new Lazy(lengthOf(value), () => (isTrue(value) ? make(iterate(value)) : []))
}

function lengthOf(value: Value): number {
  if (value instanceof Lazy) return value.sourceLength
  return typeof value === 'string' || isList(value) ? value.length : 0
}

function hasNext(lazy: Lazy, wanted: Value): boolean {
  for (let item = lazy.next(); item; item = lazy.next()) if (isEqual(item.value, wanted)) return true
  return false
}

function lastOf(value: Value): Value {
  if (value instanceof Lazy) throw new TemplateError('it is not reversible')
  return iterate(value).at(-1)
}

function reversed(value: Value): Value {
  if (typeof value === 'string') return Array.from(value).reverse().join('')
  const items = [...iterate(value)].reverse()
  return value instanceof Lazy ? items : new Lazy(items.length, () => items)
}

function text(value: Value): string {
  if (typeof value !== 'string') throw new TemplateError(`a str is wanted, not ${typeName(value)}`)
  return value
}

function isText(value: Value): boolean {
  return typeof value === 'string' || value instanceof Markup
}

function isSequence(value: Value): boolean {
  return value === undefined || isText(value) || isList(value) || isDict(value)
}

export function escaped(value: Value): Markup {
  return value instanceof Markup ? value : new Markup(escapeHtml(str(value)))
}

function length(value: Value): number {
  if (value instanceof Markup) return textLength(value.text)
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

function absolute(value: Value): Value {
  if (typeof value === 'bigint') return value < 0n ? -value : value
  return isFloat(value) ? float(Math.abs(number(value))) : Math.abs(number(value))
}

function orDefault(value: Value, args: readonly Value[], named: ReadonlyMap<string, Value>): Value {
  const fallback = args.length > 0 ? args[0] : named.has('default_value') ? named.get('default_value') : ''
  const isBoolean = isTrue(args[1] ?? named.get('boolean'))
  return value === undefined || (isBoolean && !isTrue(value)) ? fallback : value
}

function toInt(value: Value, fallback: Value = 0): Value {
  if (value === undefined) throw new TemplateError('undefined is no number')
  if (typeof value === 'bigint') return value
  const whole = typeof value === 'string' ? wholeOf(strip(value, undefined, true, true)) : undefined
  if (whole !== undefined) return whole
  const parsed = typeof value === 'string' ? parseNumber(value) : toNumber(value)
  return parsed === undefined || !Number.isFinite(parsed) ? fallback : Math.trunc(parsed)
}

function toFloat(value: Value, fallback: Value = float(0)): Value {
  if (value === undefined) throw new TemplateError('undefined is no number')
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
  if (method === 'common' && digits >= 0 && !isFloat(value)) return typeof value === 'bigint' ? value : number(value)
  if (digits < 0 || !Number.isInteger(digits)) throw new TemplateError('round wants a number of digits')
  const scale = 10 ** digits
  const scaled = number(value) * scale
  if (method === 'ceil') return float((Math.ceil(scaled) + 0) / scale) // an int has no sign of zero
  if (method === 'floor') return float((Math.floor(scaled) + 0) / scale)
  if (method !== 'common') throw new TemplateError('method must be common, ceil or floor')
  return float(roundHalfEven(number(value), digits))
}

/** By the digits of the double itself: 1.115 is a little less, and 0.125 is a tie. */
function roundHalfEven(value: number, digits: number): number {
  if (Math.abs(value) >= 2 ** 53 || !Number.isFinite(value) || value === 0) return value
  if (digits > 60) throw new TemplateError('so many digits are not known')
  const rounded = value.toFixed(digits) // of a tie, the one farther from zero
  const tail = value.toFixed(digits + 40).slice(value.toFixed(digits).length)
  if (!/^\.?50*$/.test(tail) || /[02468]$/.test(rounded)) return Number(rounded)
  return Number((value - Math.sign(value) * 0.5 * 10 ** -digits).toFixed(digits))
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

function isHashable(value: Value): boolean {
  return isList(value) ? value instanceof Tuple && value.every(isHashable) : !isDict(value)
}

function unique(items: readonly Value[], key: (item: Value) => Value): Value[] {
  const keys = items.map(key)
  if (!keys.every(isHashable)) throw new TemplateError('unhashable type')
  const seen = new Set<Value>()
  const tuples: Value[] = []
  return items.filter((_, index) => {
    const plain = plainOf(keys[index])
    const isKnown = isList(plain) ? tuples.some((other) => isEqual(plain, other)) : seen.has(plain)
    if (isList(plain)) tuples.push(plain)
    else seen.add(plain)
    return !isKnown
  })
}

/** The same value for all that are equal, but for tuples: to compare each with each takes minutes for a long list. */
function plainOf(value: Value): Value {
  if (value instanceof Markup) return value.text
  return typeof value === 'bigint' ? value : (toNumber(value) ?? value)
}

function foldCase(value: Value, isCaseSensitive: boolean): Value {
  return typeof value === 'string' && !isCaseSensitive ? value.toLowerCase() : value
}

function joinItems(value: Value, args: readonly Value[], named: ReadonlyMap<string, Value>): string {
  const by = args[1] ?? named.get('attribute')
  const items = iterate(value).map((item) => str(by === undefined || by === null ? item : attribute(item, by)))
  return items.join(str(args[0] ?? named.get('d') ?? ''))
}

function mapItems(value: Value, args: readonly Value[], named: ReadonlyMap<string, Value>): Lazy {
  return lazily(value, (items) => mapped(items, args, named))
}

function mapped(items: readonly Value[], args: readonly Value[], named: ReadonlyMap<string, Value>): Value[] {
  const by = named.get('attribute')
  if (by !== undefined) {
    const fallback = named.get('default')
    return items.map((item) => {
      const found = attribute(item, by)
      return found === undefined ? fallback : found
    })
  }
  const [name, ...rest] = args
  const filter = typeof name === 'string' && Object.hasOwn(filters, name) ? filters[name] : undefined
  if (!filter) throw new TemplateError(`no filter named ${str(name)}`)
  return items.map((item) => filter(item, rest, named))
}

function sumItems(value: Value, args: readonly Value[], named: ReadonlyMap<string, Value>): Value {
  const by = args[0] ?? named.get('attribute')
  const start = args[1] ?? named.get('start') ?? 0
  const items = iterate(value).map((item) => (by === undefined || by === null ? item : attribute(item, by)))
  if (isList(start)) return [...start, ...items.flatMap((item) => [...iterate(item)])]
  return items.reduce((sum, item) => arithmetic(sum, item, '+'), start)
}

/** An attribute by path: `a.b`, `0`. Of something undefined there is none to read. */
function attribute(item: Value, path: Value): Value {
  if (typeof path === 'number') return part(item, path)
  return str(path)
    .split('.')
    .reduce((found, name) => part(found, /^\d+$/.test(name) ? Number(name) : name), item)
}

function part(item: Value, name: string | number): Value {
  if (item === undefined) throw new TemplateError(`undefined has no attribute ${name}`)
  if (isDict(item) && dictHas(item, name)) return dictGet(item, name)
  if (typeof name === 'string') return item instanceof Namespace ? item.values.get(name) : bindMethod(item, name)
  if (item instanceof DictView) return undefined
  return isList(item) ? item.at(name) : typeof item === 'string' ? Array.from(item).at(name) : undefined
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
