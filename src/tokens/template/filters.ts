/** jinja2's filters and tests, as far as chat templates use them. A name that is not here is refused when the template is compiled. */
import { arithmetic } from './arithmetic.js'
import { spend } from './meter.js'
import {
  bindMethod,
  capitalize,
  count,
  hasPlaces,
  isHashable,
  isLower,
  isOddAttribute,
  isUpper,
  iterate,
  joined,
  noAttribute,
  oddAttribute,
  refuseLonger,
  replace,
  sorted,
  spaces,
  splitLines,
  strip,
  textLength,
} from './methods.js'
import { absolute, floatOf, intOf, round, sumOf } from './number-filters.js'
import type { Given } from './signature.js'
import { needed, taking } from './signature.js'
import { dumps, repr, str } from './spell.js'
import { charsOf, indexIn, toLower, toUpper } from './texts.js'
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
  plainOf,
  TemplateError,
  toNumber,
  Tuple,
  typeName,
} from './values.js'

export type Filter = Given<Value>
type Check = (value: Value, args: readonly Value[]) => boolean
/** Throws where it is given more or less than it takes. */
export type Test = Check

const none = {}
const ordered = { case_sensitive: false, attribute: null }
const lengths = taking(none, (value: Value) => length(value))
const defaults = taking({ default_value: '', boolean: false }, (value: Value, [fallback, isBoolean]) =>
  value === undefined || (isTrue(isBoolean) && !isTrue(value)) ? fallback : value,
)
const escapes = taking(none, (value: Value) => escaped(value))

export const filters: Readonly<Record<string, Filter>> = {
  abs: taking(none, (value) => absolute(value)),
  capitalize: taking(none, (value) => capitalize(str(value))),
  count: lengths,
  d: defaults,
  default: defaults,
  dictsort: taking({ case_sensitive: false, by: 'key', reverse: false }, dictSort),
  e: escapes,
  escape: escapes,
  first: taking(none, (value) => (value instanceof Lazy ? value.next()?.value : iterate(value)[0])),
  float: taking({ default: float(0) }, (value, [fallback]) => floatOf(value, fallback)),
  format: (value, args, named) => formatPercent(str(value), noNames(args, named)),
  indent: taking({ width: 4, first: false, blank: false }, (value, args) => indent(text(value), args)),
  int: taking({ default: 0, base: 10 }, (value, [fallback, base]) => intOf(value, fallback, base)),
  items: taking(none, (value) => new Lazy(0, () => (value === undefined ? [] : entries(value)))),
  join: taking({ d: '', attribute: null }, (value, [by, path]) => joined(attributes(value, path).map(str), str(by))),
  last: taking(none, (value) => lastOf(value)),
  length: lengths,
  list: taking(none, (value) => listOf(value)),
  lower: taking(none, (value) => toLower(str(value))),
  map: (value, args, named) => lazily(value, (items) => mapped(items, args, named)),
  max: taking(ordered, (value, args) => utmost(value, keyOf(args), 1)),
  min: taking(ordered, (value, args) => utmost(value, keyOf(args), -1)),
  reject: (value, args, named) => {
    const given = noNames(args, named)
    return lazily(value, (items) => items.filter((item) => !passes(item, given)))
  },
  rejectattr: (value, args, named) => {
    const [path, ...given] = noNames(args, named)
    return lazily(value, (items) => items.filter((item) => !passes(attribute(item, path), given)))
  },
  replace: taking({ old: needed, new: needed, count: null }, (value, [old, by, times]) =>
    replace(str(value), str(old), str(by), times === null ? -1 : count(times)),
  ),
  reverse: taking(none, (value) => reversed(value)),
  round: taking({ precision: 0, method: 'common' }, (value, [digits, method]) => round(value, digits, method)),
  safe: taking(none, (value) => (value instanceof Markup ? value : new Markup(str(value)))),
  select: (value, args, named) => {
    const given = noNames(args, named)
    return lazily(value, (items) => items.filter((item) => passes(item, given)))
  },
  selectattr: (value, args, named) => {
    const [path, ...given] = noNames(args, named)
    return lazily(value, (items) => items.filter((item) => passes(attribute(item, path), given)))
  },
  sort: taking({ reverse: false, ...ordered }, (value, [isReverse, ...by]) =>
    sorted(iterate(value), keyOf(by), count(isReverse) !== 0),
  ),
  string: taking(none, (value) => (value instanceof Markup ? value : str(value))),
  sum: taking({ attribute: null, start: 0 }, (value, [path, start]) => sumOf(attributes(value, path), start)),
  title: taking(none, (value) => titleWords(str(value))),
  tojson: taking({ ensure_ascii: false, indent: null, separators: null, sort_keys: false }, toJson),
  trim: taking({ chars: null }, (value, [chars]) => strip(str(value), chars, true, true)),
  unique: taking(ordered, (value, args) => new Lazy(lengthOf(value), () => unique(iterate(value), keyOf(args)))),
  upper: taking(none, (value) => toUpper(str(value))),
  wordcount: taking(none, (value) => wordCount(str(value))),
}

/** Those that hand their arguments on: jinja2 would hand on names too. */
function noNames(args: readonly Value[], named: ReadonlyMap<string, Value>): readonly Value[] {
  if (named.size > 0) throw new TemplateError('names are not handed on')
  return args
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
  iterable: (value) => isSequence(value) || value instanceof Lazy || value instanceof DictView,
  le: (value, args) => compare(value, args[0]) <= 0,
  lessthan: (value, args) => compare(value, args[0]) < 0,
  lower: (value) => isLower(str(value)),
  lt: (value, args) => compare(value, args[0]) < 0,
  mapping: (value) => isDict(value),
  ne: (value, args) => !isEqual(value, args[0]),
  none: (value) => value === null,
  number: (value) => isNumber(value) || typeof value === 'boolean',
  odd: (value) => isEqual(arithmetic(value, 2, '%'), 1),
  sameas: (value, args) => isSame(value, args[0]),
  sequence: (value) => isSequence(value),
  string: (value) => isText(value),
  true: (value) => value === true,
  undefined: (value) => value === undefined,
  upper: (value) => isUpper(str(value)),
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
    return indexIn(container, item) >= 0
  }
  if (container instanceof DictView && !hasPlaces(container) && !isHashable(item))
    throw new TemplateError('unhashable type')
  if (isList(container)) spend(container.length >>> 3)
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

function listOf(value: Value): Value[] {
  const items = iterate(value)
  spend(items.length >>> 6)
  return [...items]
}

function wordCount(text: string): number {
  spend(text.length >>> 2)
  return text.match(/[\p{L}\p{N}_]+/gu)?.length ?? 0
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
  if (typeof value === 'string') return charsOf(value).reverse().join('')
  const items = listOf(value).reverse()
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
  return value === undefined || isText(value) || (isList(value) && hasPlaces(value)) || isDict(value)
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

function entries(value: Value): Value[] {
  if (!isDict(value)) throw new TemplateError('items wants a mapping')
  return dictEntries(value).map((entry) => Tuple.from(entry) as Tuple)
}

function dictSort(value: Value, [isCaseSensitive, by, isReverse]: readonly Value[]): Value {
  if (by !== 'key' && by !== 'value') throw new TemplateError('dictsort goes by key or value')
  const key = (entry: Value): Value => foldCase((entry as Tuple)[by === 'key' ? 0 : 1], isTrue(isCaseSensitive))
  return sorted(entries(value), key, count(isReverse) !== 0)
}

/** What items are compared by: `case_sensitive` and `attribute` of `sort`, `unique`, `min` and `max`. */
function keyOf([isCaseSensitive, path]: readonly Value[]): (item: Value) => Value {
  return (item) => foldCase(path === null ? item : attribute(item, path), isTrue(isCaseSensitive))
}

/** Python knows whether two are one object. We know it only of these. */
function isSame(a: Value, b: Value): boolean {
  const isKnown = (value: Value): boolean => value === null || typeof value === 'boolean'
  if (!isKnown(a) && !isKnown(b)) throw new TemplateError('whether two are the same is not known')
  return a === b
}

/** The first item that no other goes beyond, upwards or downwards. */
function utmost(value: Value, key: (item: Value) => Value, sign: 1 | -1): Value {
  const items = iterate(value)
  return items.slice(1).reduce((best, item) => (compare(key(item), key(best)) * sign > 0 ? item : best), items[0])
}

function unique(items: readonly Value[], key: (item: Value) => Value): Value[] {
  spend(items.length)
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

function foldCase(value: Value, isCaseSensitive: boolean): Value {
  return typeof value === 'string' && !isCaseSensitive ? toLower(value) : value
}

function mapped(items: readonly Value[], args: readonly Value[], named: ReadonlyMap<string, Value>): Value[] {
  if (args.length === 0 && named.has('attribute')) {
    const { attribute: path, default: fallback = null, ...others } = Object.fromEntries(named)
    if (Object.keys(others).length > 0) throw new TemplateError('map takes no such argument')
    return items.map((item) => attribute(item, path, fallback))
  }
  const [name, ...rest] = args
  const filter = typeof name === 'string' && Object.hasOwn(filters, name) ? filters[name] : undefined
  if (!filter) throw new TemplateError(`no filter named ${str(name)}`)
  return items.map((item) => {
    spend(1)
    return filter(item, rest, named)
  })
}

function attributes(value: Value, path: Value): readonly Value[] {
  return path === null ? iterate(value) : iterate(value).map((item) => attribute(item, path))
}

/** An attribute by path: `a.b`, `0`. Of something undefined there is none to read, unless something stands in for it. */
function attribute(item: Value, path: Value, fallback: Value = null): Value {
  if (typeof path !== 'string' && !(typeof path === 'number' && Number.isInteger(path)))
    throw new TemplateError('such an attribute is not known')
  if (typeof path === 'string' && /(?![0-9])[\p{Nd}\p{No}]/u.test(path))
    throw new TemplateError('digits of other scripts are not known')
  const names = typeof path === 'number' ? [path] : path.split('.').map((it) => (/^\d+$/.test(it) ? Number(it) : it))
  spend(2 + names.length)
  return names.reduce<Value>((found, name) => {
    const next = part(found, name)
    return next === undefined && fallback !== null ? fallback : next
  }, item)
}

function part(item: Value, name: string | number): Value {
  if (item === undefined) throw new TemplateError(`undefined has no attribute ${name}`)
  if (isDict(item) && dictHas(item, name)) return dictGet(item, name)
  if (item instanceof Namespace) return typeof name === 'string' ? item.values.get(name) : undefined
  if (typeof name === 'string') {
    return isOddAttribute(name) ? oddAttribute(item, name) : (bindMethod(item, name) ?? noAttribute(item, name))
  }
  if (isList(item)) return hasPlaces(item) ? item.at(name) : undefined
  return typeof item === 'string' ? charsOf(item).at(name) : undefined
}

function passes(value: Value, args: readonly Value[]): boolean {
  spend(1)
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

function indent(text: string, [width, isFirst, isBlank]: readonly Value[]): string {
  const pad = typeof width === 'string' ? width : spacesOf(width)
  const lines = splitLines(`${text}\n`).map((line, index) => {
    const isBare = index === 0 ? !isTrue(isFirst) : line === '' && !isTrue(isBlank)
    return isBare ? line : pad + line
  })
  return joined(lines, '\n')
}

function spacesOf(width: Value): string {
  refuseLonger(count(width))
  return ' '.repeat(Math.max(0, count(width)))
}

/** transformers: tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False) */
function toJson(value: Value, [isAscii, pad, separators, isSorted]: readonly Value[]): string {
  if (separators !== null && !(isList(separators) && separators.length === 2 && hasPlaces(separators)))
    throw new TemplateError('such separators are not known')
  return dumps(value, {
    ensureAscii: isTrue(isAscii),
    indent: pad === null ? undefined : typeof pad === 'string' ? pad : spacesOf(pad),
    separators: separators === null ? undefined : [text(separators[0]), text(separators[1])],
    sortKeys: isTrue(isSorted),
  })
}

const wordStart = new RegExp(`([-({[<${spaces}]+)`)

/** Not `str.title`: the filter begins words after spaces, hyphens and brackets only. */
function titleWords(text: string): string {
  spend(text.length >>> 2)
  return text
    .split(wordStart)
    .map((word) => {
      const [first = '', ...rest] = Array.from(word)
      return first.toUpperCase() + rest.join('').toLowerCase()
    })
    .join('')
}

function escapeHtml(text: string): string {
  spend(text.length >>> 3)
  const names: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', "'": '&#39;', '"': '&#34;' }
  return text.replaceAll(/[&<>'"]/g, (char) => names[char]!)
}

/** `%` formatting of `%s`, `%d`, `%r` and `%%`; others would have to be written as Python does. */
export function formatPercent(text: string, args: readonly Value[]): string {
  let next = 0
  spend(text.length >>> 3)
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
      return (args) => {
        if (args.length === 0) throw new TemplateError('no items for cycling given')
        return args[index0 % args.length]
      }
    default:
      return undefined
  }
}
