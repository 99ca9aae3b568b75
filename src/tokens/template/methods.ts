/** The methods of Python strings, mappings and lists that a sandboxed template may call. */
import type { Bound, Given, Parameters } from './signature.js'
import { spend } from './meter.js'
import { TemplateLimitError } from './run.js'
import { needed, taking } from './signature.js'
import { str } from './spell.js'
import { charsOf, indexIn, lastIndexIn, matches, partsOf, shortText, toLower, toUpper } from './texts.js'
import type { Callable, Dict, Value } from './values.js'
import {
  compare,
  dictEntries,
  dictGet,
  dictHas,
  DictView,
  isDict,
  isEqual,
  isFloat,
  isList,
  Lazy,
  Markup,
  Range,
  TemplateError,
  toNumber,
  Tuple,
  typeName,
} from './values.js'

type Method<Self> = Given<Self>

// What str.isspace says, which is neither \s nor \p{White_Space}.
export const spaces =
  '\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000'

export function isSpace(char: string): boolean {
  return spaces.includes(char)
}

/** `str.strip`: of white space, or of the characters given. */
export function strip(text: string, chars: Value, left: boolean, right: boolean): string {
  const set = chars === null ? spaces : textOf(chars)
  let from = 0
  let to = text.length
  // By code units: a surrogate pair in the set, or a long one, is rare enough to take the slow way.
  if (set.length > 64 || /[\ud800-\udfff]/.test(set)) return stripPairs(text, set, left, right)
  if (left) while (from < to && set.includes(text[from]!)) if ((++from & 1023) === 0) spend(100)
  if (right) while (to > from && set.includes(text[to - 1]!)) if ((--to & 1023) === 0) spend(100)
  return from === 0 && to === text.length ? text : text.slice(from, to)
}

function stripPairs(text: string, set: string, left: boolean, right: boolean): string {
  const chars = charsOf(text)
  const inSet = new Set(charsOf(set))
  let from = 0
  let to = chars.length
  if (left) while (from < to && inSet.has(chars[from]!)) from++
  if (right) while (to > from && inSet.has(chars[to - 1]!)) to--
  return chars.slice(from, to).join('')
}

/** Most methods take what they take by its place only. */
const one: Parameters = { it: needed }
const none = {}

function method<Self>(parameters: Parameters, call: Bound<Self>): Method<Self> {
  return taking(parameters, call, false)
}

const text: Readonly<Record<string, Method<string>>> = {
  strip: method({ chars: null }, (self, [chars]) => strip(self, chars, true, true)),
  lstrip: method({ chars: null }, (self, [chars]) => strip(self, chars, true, false)),
  rstrip: method({ chars: null }, (self, [chars]) => strip(self, chars, false, true)),
  upper: method(none, (self) => toUpper(self)),
  lower: method(none, (self) => toLower(self)),
  casefold: method(none, (self) => toLower(asciiOnly(self))),
  title: method(none, (self) => titleCase(self)),
  capitalize: method(none, (self) => capitalize(self)),
  swapcase: method(none, (self) =>
    charsOf(asciiOnly(self))
      .map((char) => (char === char.toUpperCase() ? char.toLowerCase() : char.toUpperCase()))
      .join(''),
  ),
  startswith: method(one, (self, [prefix]) => oneOf(prefix).some((it) => self.startsWith(it))),
  endswith: method(one, (self, [suffix]) => oneOf(suffix).some((it) => self.endsWith(it))),
  split: taking({ sep: null, maxsplit: -1 }, (self, [sep, times]) => split(self, sep, count(times))),
  rsplit: taking({ sep: null, maxsplit: -1 }, (self, [sep, times]) => rsplit(self, sep, count(times))),
  splitlines: taking({ keepends: false }, (self, [keepsEnds]) => {
    if (count(keepsEnds) !== 0) throw new TemplateError('splitlines with ends is not known')
    return splitLines(self)
  }),
  partition: method(one, (self, [separator]) => {
    const by = separatorOf(separator)
    const at = indexIn(self, by)
    return Tuple.from(at < 0 ? [self, '', ''] : [self.slice(0, at), by, self.slice(at + by.length)]) as Tuple
  }),
  rpartition: method(one, (self, [separator]) => {
    const by = separatorOf(separator)
    const at = lastIndexIn(self, by)
    return Tuple.from(at < 0 ? ['', '', self] : [self.slice(0, at), by, self.slice(at + by.length)]) as Tuple
  }),
  replace: method({ old: needed, new: needed, count: -1 }, (self, [old, by, times]) =>
    replace(self, textOf(old), textOf(by), count(times)),
  ),
  join: method(one, (self, [items]) => joined(iterate(items).map(textOf), self)),
  find: method(one, (self, [part]) => charIndex(self, indexIn(self, textOf(part)))),
  rfind: method(one, (self, [part]) => charIndex(self, lastIndexIn(self, textOf(part)))),
  index: method(one, (self, [part]) => {
    const at = indexIn(self, textOf(part))
    if (at < 0) throw new TemplateError('substring not found')
    return charIndex(self, at)
  }),
  count: method(one, (self, [part]) =>
    textOf(part) === '' ? textLength(self) + 1 : partsOf(self, textOf(part)).length - 1,
  ),
  removeprefix: method(one, (self, [prefix]) =>
    self.startsWith(textOf(prefix)) ? self.slice(textOf(prefix).length) : self,
  ),
  removesuffix: method(one, (self, [suffix]) =>
    textOf(suffix) !== '' && self.endsWith(textOf(suffix)) ? self.slice(0, -textOf(suffix).length) : self,
  ),
  isdigit: method(none, (self) => {
    spend(self.length >>> 4)
    if (/\p{No}/u.test(self)) throw new TemplateError('whether these are digits is not known')
    return /^\p{Nd}+$/u.test(self)
  }),
  isdecimal: method(none, (self) => matches(self, /^\p{Nd}+$/u)),
  isnumeric: method(none, (self) => {
    spend(self.length >>> 4)
    if (/\p{Lo}/u.test(self)) throw new TemplateError('whether these are numerals is not known')
    return /^\p{N}+$/u.test(self)
  }),
  isalpha: method(none, (self) => matches(self, /^\p{L}+$/u)),
  isalnum: method(none, (self) => matches(self, /^[\p{L}\p{N}]+$/u)),
  isspace: method(none, (self) => self !== '' && charsOf(self).every((char) => spaces.includes(char))),
  isupper: method(none, (self) => isUpper(self)),
  islower: method(none, (self) => isLower(self)),
  zfill: method(one, (self, [width]) => self.replace(/^[+-]?/, (sign) => sign + padding(self, width, '0'))),
  ljust: method({ width: needed, fill: ' ' }, (self, [width, fill]) => self + padding(self, width, fill)),
  rjust: method({ width: needed, fill: ' ' }, (self, [width, fill]) => padding(self, width, fill) + self),
  format: (self, args, named) => formatBraces(self, args, named),
}

const dict: Readonly<Record<string, Method<Dict>>> = {
  items: method(none, (self) =>
    view(
      'dict_items',
      dictEntries(self).map((entry) => Tuple.from(entry) as Tuple),
    ),
  ),
  keys: method(none, (self) =>
    view(
      'dict_keys',
      dictEntries(self).map(([key]) => key),
    ),
  ),
  values: method(none, (self) =>
    view(
      'dict_values',
      dictEntries(self).map(([, value]) => value),
    ),
  ),
  get: method({ key: needed, default: null }, (self, [key, fallback]) => {
    if (!isHashable(key)) throw new TemplateError('unhashable type')
    return dictHas(self, key) ? dictGet(self, key) : fallback
  }),
  copy: method(none, (self) => self),
}

const list: Readonly<Record<string, Method<readonly Value[]>>> = {
  index: method(one, (self, [item]) => {
    spend(self.length >>> 3)
    const at = self.findIndex((it) => isEqual(it, item))
    if (at < 0) throw new TemplateError('the value is not in the list')
    return at
  }),
  count: method(one, (self, [item]) => {
    spend(self.length >>> 3)
    return self.filter((it) => isEqual(it, item)).length
  }),
  copy: method(none, (self) => self),
}

const namesOf = (names: string): ReadonlySet<string> => new Set(names.split(' '))

/** What Python's values have and we do not know: it is there, and what it is nobody can say here. */
const unknownNames = {
  text: namesOf(
    'center encode expandtabs format_map isascii isidentifier isprintable istitle maketrans rindex translate',
  ),
  list: namesOf('start stop step mapping isdisjoint'),
  dict: namesOf('fromkeys'),
  number: namesOf(
    'as_integer_ratio bit_count bit_length conjugate denominator from_bytes fromhex from_number hex imag is_integer numerator real to_bytes',
  ),
}

/** What changes a mapping: the sandbox hides it, also where it is a key. */
const hiddenNames = namesOf('clear pop popitem setdefault update')
const oddNames = new Set([...Object.values(unknownNames).flatMap((names) => [...names]), ...hiddenNames])

/** Whether some value has an attribute of that name that is neither one of our methods nor an item. */
export function isOddAttribute(name: string): boolean {
  return oddNames.has(name)
}

export function oddAttribute(self: Value, name: string): Value {
  const names =
    typeof self === 'string'
      ? unknownNames.text
      : isList(self)
        ? unknownNames.list
        : isDict(self)
          ? unknownNames.dict
          : unknownNames.number
  if (names.has(name)) throw new TemplateError(`the attribute ${name} is not known`)
  return isDict(self) && !hiddenNames.has(name) ? dictGet(self, name) : noAttribute(self, name)
}

/** As `unknownNames`, of generators, and of macros and `dict`. */
const generatorNames = namesOf('close gi_code gi_frame gi_running gi_suspended gi_yieldfrom send throw')
const callableNames = namesOf(
  'arguments caller catch_kwargs catch_varargs clear copy explicit_caller fromkeys get items keys mro name pop popitem setdefault update values',
)

/** Nothing, unless Python has something there. Templates do ask generators and methods for the `type` of a schema. */
export function noAttribute(self: Value, name: string): undefined {
  const isUnknown =
    self instanceof Lazy
      ? generatorNames.has(name)
      : typeof self === 'function' && callableNames.has(name) && !boundMethods.has(self)
  if (isUnknown) throw new TemplateError(`the attribute ${name} is not known`)
  return undefined
}

/** Whether it has a first item and a second one, to those who ask by number. */
export function hasPlaces(items: readonly Value[]): boolean {
  return !(items instanceof DictView) || items instanceof Range
}

export function isHashable(value: Value): boolean {
  spend(1)
  if (value instanceof DictView) throw new TemplateError('whether it is hashable is not known')
  return isList(value) ? value instanceof Tuple && value.every(isHashable) : !isDict(value)
}

/** The method of this name, or undefined. Methods that change their object are refused by the sandbox and are not here. */
export function findMethod(self: Value, name: string): Method<never> | undefined {
  if (typeof self === 'string') return Object.hasOwn(text, name) ? text[name] : undefined
  if (isList(self)) {
    const isThere = name === 'copy' ? !(self instanceof Tuple) : hasPlaces(self)
    return isThere && Object.hasOwn(list, name) ? list[name] : undefined
  }
  return isDict(self) && Object.hasOwn(dict, name) ? dict[name] : undefined
}

export function bindMethod(self: Value, name: string): Callable | undefined {
  const method = findMethod(self, name)
  if (!method) return undefined
  const bound: Callable = (args, named) => method(self as never, args, named)
  boundMethods.add(bound)
  return bound
}

/** Those that were taken without being called, as in `schema.items.type`: they have no attributes, as macros and `dict` have. */
const boundMethods = new WeakSet<Callable>()

/** What a `for` loop or a filter walks over. */
export function iterate(value: Value): readonly Value[] {
  if (isList(value)) return value
  if (value instanceof Lazy) return value.rest()
  if (value === undefined) return []
  if (typeof value === 'string') return charsOf(value)
  if (value instanceof Markup) return charsOf(value.text)
  if (isDict(value)) return dictEntries(value).map(([key]) => key)
  throw new TemplateError(`${typeName(value)} is not iterable`)
}

/** Length in code points, as Python counts. */
export function textLength(value: string): number {
  spend(value.length >>> 7)
  return /[\ud800-\udfff]/.test(value) ? charsOf(value).length : value.length
}

function view(name: string, items: readonly Value[]): DictView {
  return Object.assign(DictView.from(items) as DictView, { name })
}

/** A word begins with a letter that has a case, behind one that has none. */
function titleCase(value: string): string {
  spend(value.length >>> 2)
  return value.replaceAll(/\p{Cased}+/gu, capitalize)
}

export function capitalize(value: string): string {
  // A large sigma becomes one of two small ones, by what stands before and behind it.
  if (value.includes('\u03a3')) throw new TemplateError('what becomes of this letter is not known')
  const first = charsOf(value.slice(0, 2))[0] ?? ''
  return titleChar(first) + toLower(value.slice(first.length))
}

/** Letters of which the first in a word is neither the small nor the large one: JavaScript does not tell them. */
function titleChar(char: string): string {
  const upper = char.toUpperCase()
  if (upper.length !== char.length || /[\u01c4-\u01cc\u01f1-\u01f3\u10d0-\u10ff]/.test(char))
    throw new TemplateError('what becomes of this letter is not known')
  return upper
}

export function isUpper(value: string): boolean {
  spend(value.length >>> 4)
  return /\p{Uppercase}/u.test(value) && !/[\p{Lowercase}\p{Lt}]/u.test(value)
}

export function isLower(value: string): boolean {
  spend(value.length >>> 4)
  return /\p{Lowercase}/u.test(value) && !/[\p{Uppercase}\p{Lt}]/u.test(value)
}

function asciiOnly(value: string): string {
  spend(value.length >>> 7)
  if (/[\u0080-\uffff]/.test(value)) throw new TemplateError('what becomes of these letters is not known')
  return value
}

/** So often, or everywhere where the limit is below zero. */
export function replace(value: string, from: string, to: string, limit: number): string {
  if (to.length > from.length) refuseLonger(value.length + (to.length - from.length) * timesIn(value, from, to.length))
  if (from === '') return insert(value, to, limit)
  if (limit < 0 && value.length <= shortText) return value.replaceAll(from, () => to)
  if (limit < 0) return partsOf(value, from).join(to)
  let out = ''
  let at = 0
  for (let done = 0; done < limit; done++) {
    const next = indexIn(value, from, at)
    if (next < 0) break
    out += value.slice(at, next) + to
    at = next + from.length
  }
  return out + value.slice(at)
}

/** At most how often it is in there; counted only where that could make a text too long. */
function timesIn(value: string, part: string, by: number): number {
  const most = part === '' ? value.length + 1 : Math.floor(value.length / part.length)
  return part === '' || most * by <= lengthMax ? most : partsOf(value, part).length - 1
}

/** Before and behind every character, so often. */
function insert(value: string, between: string, limit: number): string {
  const gaps = ['', ...charsOf(value)]
  return gaps.map((char, index) => (limit < 0 || index < limit ? char + between : char)).join('')
}

/** `sorted`, stable. Python's default for the filter ignores case. */
export function sorted(items: readonly Value[], key: (item: Value) => Value, isReverse: boolean): Value[] {
  spend(items.length)
  const keyed = items.map((item) => ({ item, by: key(item) }))
  keyed.sort((a, b) => (isReverse ? compare(b.by, a.by) : compare(a.by, b.by)))
  return keyed.map(({ item }) => item)
}

function split(self: string, separator: Value, limit: number): Value[] {
  if (separator === null) return splitAtSpace(self, limit)
  const by = separatorOf(separator)
  const parts = partsOf(self, by)
  return limit < 0 || parts.length <= limit + 1 ? parts : [...parts.slice(0, limit), parts.slice(limit).join(by)]
}

function splitAtSpace(self: string, limit: number): string[] {
  const parts: string[] = []
  let rest = strip(self, null, true, false)
  while (rest !== '') {
    if (limit >= 0 && parts.length === limit) return [...parts, rest]
    let end = 0
    while (end < rest.length && !spaces.includes(rest[end]!)) end++
    spend(1 + (end >>> 4))
    parts.push(rest.slice(0, end))
    rest = strip(rest.slice(end), null, true, false)
  }
  return parts
}

function rsplit(self: string, separator: Value, limit: number): Value[] {
  if (separator === null) return rsplitAtSpace(self, limit)
  const by = separatorOf(separator)
  const parts = partsOf(self, by)
  if (limit < 0 || parts.length <= limit + 1) return parts
  return limit === 0 ? [self] : [parts.slice(0, -limit).join(by), ...parts.slice(-limit)]
}

function rsplitAtSpace(self: string, limit: number): string[] {
  const parts: string[] = [] // the last first: to put each before the others would move them all
  let rest = strip(self, null, false, true)
  while (rest !== '' && parts.length !== limit) {
    let start = rest.length
    while (start > 0 && !spaces.includes(rest[start - 1]!)) start--
    spend(1 + ((rest.length - start) >>> 4))
    parts.push(rest.slice(start))
    rest = strip(rest.slice(0, start), null, false, true)
  }
  if (rest !== '') parts.push(rest)
  return parts.reverse()
}

// Where str.splitlines ends a line.
const lineEnd = new RegExp(String.raw`\r\n|[\n\r\v\f\u001c-\u001e\u0085\u2028\u2029]`)

export function splitLines(self: string): string[] {
  spend(self.length >>> 4)
  const lines = self.split(lineEnd)
  if (lines.at(-1) === '') lines.pop()
  return lines
}

/** `str.format` for plain fields: `{}`, `{0}`, `{name}`. */
function formatBraces(self: string, args: readonly Value[], named: ReadonlyMap<string, Value>): string {
  let next = 0
  let isCounted = false
  let length = self.length
  spend(self.length >>> 4)
  return self.replaceAll(/\{\{|\}\}|\{(\w*)\}|[{}]/g, (whole, field: string | undefined) => {
    if (whole.length === 1) throw new TemplateError('unknown format')
    if (field === undefined) return whole[0]!
    if (/^\d+$/.test(field)) isCounted = true
    if (isCounted && (field === '' || next > 0)) throw new TemplateError('fields with and without numbers')
    const value = field === '' ? args[next++] : /^\d+$/.test(field) ? args[Number(field)] : named.get(field)
    if (value === undefined) throw new TemplateError(`nothing to format for {${field}}`)
    const made = str(value)
    refuseLonger((length += made.length))
    return made
  })
}

const lengthMax = 1 << 24

/** Far more than any prompt: what would be longer is not made. */
export function refuseLonger(length: number): void {
  if (length > lengthMax) throw new TemplateLimitError('output')
}

export function joined(parts: readonly string[], by: string): string {
  spend(parts.length >>> 3)
  refuseLonger(parts.reduce((length, part) => length + part.length, by.length * parts.length))
  return parts.join(by)
}

/** What is missing to a width. */
function padding(self: string, width: Value, given: Value): string {
  const fill = textOf(given)
  if (textLength(fill) !== 1) throw new TemplateError('the fill character must be exactly one character long')
  const lacking = Math.max(0, count(width) - textLength(self))
  refuseLonger(lacking)
  return fill.repeat(lacking)
}

function oneOf(value: Value): string[] {
  return value instanceof Tuple && !(value instanceof DictView) ? value.map(textOf) : [textOf(value)]
}

function separatorOf(value: Value): string {
  const by = textOf(value)
  if (by === '') throw new TemplateError('empty separator')
  return by
}

function textOf(value: Value): string {
  if (typeof value !== 'string') throw new TemplateError(`a str is wanted, not ${typeName(value)}`)
  return value
}

/** A number of times or places: Python takes an int for it, and of these only some. */
export function count(value: Value): number {
  const number = isFloat(value) || typeof value === 'bigint' ? undefined : toNumber(value)
  if (number === undefined) throw new TemplateError(`an int is wanted, not ${typeName(value)}`)
  return number
}

function charIndex(self: string, unitIndex: number): number {
  return unitIndex <= 0 ? unitIndex : textLength(self.slice(0, unitIndex))
}
