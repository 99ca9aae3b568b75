/** The methods of Python strings, mappings and lists that a sandboxed template may call. */
import { str } from './spell.js'
import type { Callable, Value } from './values.js'
import {
  compare,
  dictEntries,
  dictGet,
  DictView,
  isDict,
  isEqual,
  isList,
  isTrue,
  Lazy,
  Markup,
  TemplateError,
  toNumber,
  Tuple,
  typeName,
} from './values.js'

type Method<Self> = (self: Self, args: readonly Value[], named: ReadonlyMap<string, Value>) => Value

// What str.isspace says, which is neither \s nor \p{White_Space}.
const spaces =
  '\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000'

export function isSpace(char: string): boolean {
  return spaces.includes(char)
}

/** `str.strip`: of white space, or of the characters given. */
export function strip(text: string, chars: Value, left: boolean, right: boolean): string {
  const set = typeof chars === 'string' ? chars : spaces
  let from = 0
  let to = text.length
  // By code units: a surrogate pair in the set is rare enough to take the slow way.
  if (/[\ud800-\udfff]/.test(set)) return stripPairs(text, set, left, right)
  if (left) while (from < to && set.includes(text[from]!)) from++
  if (right) while (to > from && set.includes(text[to - 1]!)) to--
  return from === 0 && to === text.length ? text : text.slice(from, to)
}

function stripPairs(text: string, set: string, left: boolean, right: boolean): string {
  const chars = Array.from(text)
  const inSet = new Set(set)
  let from = 0
  let to = chars.length
  if (left) while (from < to && inSet.has(chars[from]!)) from++
  if (right) while (to > from && inSet.has(chars[to - 1]!)) to--
  return chars.slice(from, to).join('')
}

const text: Readonly<Record<string, Method<string>>> = {
  strip: (self, [chars]) => strip(self, chars, true, true),
  lstrip: (self, [chars]) => strip(self, chars, true, false),
  rstrip: (self, [chars]) => strip(self, chars, false, true),
  upper: (self) => self.toUpperCase(),
  lower: (self) => self.toLowerCase(),
  casefold: (self) => self.toLowerCase(),
  title: (self) => titleCase(self),
  capitalize: (self) => capitalize(self),
  swapcase: (self) =>
    Array.from(self, (char) => (char === char.toUpperCase() ? char.toLowerCase() : char.toUpperCase())).join(''),
  startswith: (self, [prefix, ...others]) => {
    refuse(others)
    return oneOf(prefix).some((it) => self.startsWith(it))
  },
  endswith: (self, [suffix, ...others]) => {
    refuse(others)
    return oneOf(suffix).some((it) => self.endsWith(it))
  },
  split: (self, args, named) => split(self, args[0] ?? named.get('sep'), args[1] ?? named.get('maxsplit')),
  rsplit: (self, args, named) => rsplit(self, args[0] ?? named.get('sep'), args[1] ?? named.get('maxsplit')),
  splitlines: (self, args, named) => {
    if (isTrue(args[0] ?? named.get('keepends'))) throw new TemplateError('splitlines with ends is not known')
    return splitLines(self)
  },
  partition: (self, [separator]) => {
    const at = self.indexOf(textOf(separator))
    return Tuple.from(
      at < 0 ? [self, '', ''] : [self.slice(0, at), textOf(separator), self.slice(at + textOf(separator).length)],
    ) as Tuple
  },
  rpartition: (self, [separator]) => {
    const at = self.lastIndexOf(textOf(separator))
    return Tuple.from(
      at < 0 ? ['', '', self] : [self.slice(0, at), textOf(separator), self.slice(at + textOf(separator).length)],
    ) as Tuple
  },
  replace: (self, args, named) => replace(self, textOf(args[0]), textOf(args[1]), args[2] ?? named.get('count')),
  join: (self, [items]) => iterate(items).map(textOf).join(self),
  find: (self, [part, ...others]) => {
    refuse(others)
    return charIndex(self, self.indexOf(textOf(part)))
  },
  rfind: (self, [part, ...others]) => {
    refuse(others)
    return charIndex(self, self.lastIndexOf(textOf(part)))
  },
  index: (self, [part, ...others]) => {
    refuse(others)
    const at = self.indexOf(textOf(part))
    if (at < 0) throw new TemplateError('substring not found')
    return charIndex(self, at)
  },
  count: (self, [part, ...others]) => {
    refuse(others)
    return textOf(part) === '' ? textLength(self) + 1 : self.split(textOf(part)).length - 1
  },
  removeprefix: (self, [prefix]) => (self.startsWith(textOf(prefix)) ? self.slice(textOf(prefix).length) : self),
  removesuffix: (self, [suffix]) =>
    textOf(suffix) !== '' && self.endsWith(textOf(suffix)) ? self.slice(0, -textOf(suffix).length) : self,
  isdigit: (self) => /^\p{Nd}+$/u.test(self),
  isdecimal: (self) => /^\p{Nd}+$/u.test(self),
  isnumeric: (self) => /^\p{N}+$/u.test(self),
  isalpha: (self) => /^\p{L}+$/u.test(self),
  isalnum: (self) => /^[\p{L}\p{N}]+$/u.test(self),
  isspace: (self) => self !== '' && Array.from(self).every((char) => spaces.includes(char)),
  isupper: (self) => self !== self.toLowerCase() && self === self.toUpperCase(),
  islower: (self) => self !== self.toUpperCase() && self === self.toLowerCase(),
  zfill: (self, [width]) => self.replace(/^[+-]?/, (sign) => sign + '0'.repeat(lacking(self, width))),
  ljust: (self, [width, fill = ' ']) => self + textOf(fill).repeat(lacking(self, width)),
  rjust: (self, [width, fill = ' ']) => textOf(fill).repeat(lacking(self, width)) + self,
  format: (self, args, named) => formatBraces(self, args, named),
}

const dict: Readonly<Record<string, Method<Parameters<typeof dictEntries>[0]>>> = {
  items: (self) =>
    view(
      'dict_items',
      dictEntries(self).map((entry) => Tuple.from(entry) as Tuple),
    ),
  keys: (self) =>
    view(
      'dict_keys',
      dictEntries(self).map(([key]) => key),
    ),
  values: (self) =>
    view(
      'dict_values',
      dictEntries(self).map(([, value]) => value),
    ),
  get: (self, args, named) => {
    const found = dictGet(self, args[0])
    return found === undefined ? (args.length > 1 ? args[1] : (named.get('default') ?? null)) : found
  },
  copy: (self) => self,
}

const list: Readonly<Record<string, Method<readonly Value[]>>> = {
  index: (self, [item]) => {
    const at = self.findIndex((it) => isEqual(it, item))
    if (at < 0) throw new TemplateError('the value is not in the list')
    return at
  },
  count: (self, [item]) => self.filter((it) => isEqual(it, item)).length,
  copy: (self) => self,
}

/** The method of this name, or undefined. Methods that change their object are refused by the sandbox and are not here. */
export function findMethod(self: Value, name: string): Method<never> | undefined {
  if (typeof self === 'string') return Object.hasOwn(text, name) ? text[name] : undefined
  if (isList(self)) return Object.hasOwn(list, name) ? list[name] : undefined
  return isDict(self) && Object.hasOwn(dict, name) ? dict[name] : undefined
}

export function bindMethod(self: Value, name: string): Callable | undefined {
  const method = findMethod(self, name)
  return method && ((args, named) => method(self as never, args, named))
}

/** What a `for` loop or a filter walks over. */
export function iterate(value: Value): readonly Value[] {
  if (isList(value)) return value
  if (value instanceof Lazy) return value.rest()
  if (value === undefined) return []
  if (typeof value === 'string') return Array.from(value)
  if (value instanceof Markup) return Array.from(value.text)
  if (isDict(value)) return dictEntries(value).map(([key]) => key)
  throw new TemplateError(`${typeName(value)} is not iterable`)
}

/** Length in code points, as Python counts. */
export function textLength(value: string): number {
  return /[\ud800-\udfff]/.test(value) ? Array.from(value).length : value.length
}

function view(name: string, items: readonly Value[]): DictView {
  return Object.assign(DictView.from(items) as DictView, { name })
}

function titleCase(value: string): string {
  return value.replaceAll(/\p{L}+/gu, (word) => {
    const [first = '', ...rest] = Array.from(word)
    return first.toUpperCase() + rest.join('').toLowerCase()
  })
}

export function capitalize(value: string): string {
  const [first = '', ...rest] = Array.from(value)
  return first.toUpperCase() + rest.join('').toLowerCase()
}

export function replace(value: string, from: string, to: string, times: Value): string {
  const limit = times === undefined || times === null ? -1 : count(times)
  if (from === '') return insert(value, to, limit)
  if (limit < 0) return value.replaceAll(from, () => to)
  let out = ''
  let at = 0
  for (let done = 0; done < limit; done++) {
    const next = value.indexOf(from, at)
    if (next < 0) break
    out += value.slice(at, next) + to
    at = next + from.length
  }
  return out + value.slice(at)
}

/** Before and behind every character, so often. */
function insert(value: string, between: string, limit: number): string {
  const gaps = ['', ...Array.from(value)]
  return gaps.map((char, index) => (limit < 0 || index < limit ? char + between : char)).join('')
}

/** `sorted`, stable. Python's default for the filter ignores case. */
export function sorted(items: readonly Value[], key: (item: Value) => Value, isReverse: boolean): Value[] {
  const keyed = items.map((item) => ({ item, by: key(item) }))
  keyed.sort((a, b) => (isReverse ? compare(b.by, a.by) : compare(a.by, b.by)))
  return keyed.map(({ item }) => item)
}

function split(self: string, separator: Value, times: Value): Value[] {
  const limit = times === undefined || times === null ? -1 : count(times)
  if (separator === undefined || separator === null) return splitAtSpace(self, limit)
  const by = textOf(separator)
  if (by === '') throw new TemplateError('empty separator')
  const parts = self.split(by)
  return limit < 0 || parts.length <= limit + 1 ? parts : [...parts.slice(0, limit), parts.slice(limit).join(by)]
}

function splitAtSpace(self: string, limit: number): string[] {
  const parts: string[] = []
  let rest = strip(self, undefined, true, false)
  while (rest !== '') {
    if (limit >= 0 && parts.length === limit) return [...parts, rest]
    let end = 0
    while (end < rest.length && !spaces.includes(rest[end]!)) end++
    parts.push(rest.slice(0, end))
    rest = strip(rest.slice(end), undefined, true, false)
  }
  return parts
}

function rsplit(self: string, separator: Value, times: Value): Value[] {
  const limit = times === undefined || times === null ? -1 : count(times)
  if (typeof separator !== 'string') {
    return rsplitAtSpace(self, limit)
  }
  const parts = self.split(separator)
  if (limit < 0 || parts.length <= limit + 1) return parts
  return limit === 0 ? [self] : [parts.slice(0, -limit).join(separator), ...parts.slice(-limit)]
}

function rsplitAtSpace(self: string, limit: number): string[] {
  const parts: string[] = [] // the last first: to put each before the others would move them all
  let rest = strip(self, undefined, false, true)
  while (rest !== '' && parts.length !== limit) {
    let start = rest.length
    while (start > 0 && !spaces.includes(rest[start - 1]!)) start--
    parts.push(rest.slice(start))
    rest = strip(rest.slice(0, start), undefined, false, true)
  }
  if (rest !== '') parts.push(rest)
  return parts.reverse()
}

// Where str.splitlines ends a line.
const lineEnd = new RegExp(String.raw`\r\n|[\n\r\v\f\u001c-\u001e\u0085\u2028\u2029]`)

export function splitLines(self: string): string[] {
  const lines = self.split(lineEnd)
  if (lines.at(-1) === '') lines.pop()
  return lines
}

/** `str.format` for plain fields: `{}`, `{0}`, `{name}`. */
function formatBraces(self: string, args: readonly Value[], named: ReadonlyMap<string, Value>): string {
  let next = 0
  return self.replaceAll(/\{\{|\}\}|\{(\w*)\}|[{}]/g, (whole, field: string | undefined) => {
    if (whole.length === 1) throw new TemplateError('unknown format')
    if (field === undefined) return whole[0]!
    const value = field === '' ? args[next++] : /^\d+$/.test(field) ? args[Number(field)] : named.get(field)
    if (value === undefined) throw new TemplateError(`nothing to format for {${field}}`)
    return str(value)
  })
}

/** How many characters are missing to a width. */
function lacking(self: string, width: Value): number {
  return Math.max(0, count(width) - textLength(self))
}

/** `find` and its kin are not known from a place on. */
function refuse(others: readonly Value[]): void {
  if (others.length > 0) throw new TemplateError('a search from a place on is not known')
}

function oneOf(value: Value): string[] {
  return isList(value) ? value.map(textOf) : [textOf(value)]
}

function textOf(value: Value): string {
  if (typeof value !== 'string') throw new TemplateError(`a str is wanted, not ${typeName(value)}`)
  return value
}

function count(value: Value): number {
  const number = toNumber(value)
  if (number === undefined || !Number.isInteger(number))
    throw new TemplateError(`an int is wanted, not ${typeName(value)}`)
  return number
}

function charIndex(self: string, unitIndex: number): number {
  return unitIndex <= 0 ? unitIndex : textLength(self.slice(0, unitIndex))
}
