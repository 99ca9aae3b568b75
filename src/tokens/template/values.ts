/**
 * Python values as templates see them. Plain JavaScript values where the two agree; classes of our own where they do not.
 * A whole number is an `int`, a number with a fraction a `float`; `1.0` needs `Float`, because JavaScript cannot tell it from 1.
 */
import { spend } from './meter.js'

export type Value =
  | undefined // jinja2's Undefined
  | null
  | boolean
  | string
  | number
  | bigint // an int that a double cannot hold
  | Float
  | readonly Value[]
  | Dict
  | Namespace
  | LoopState
  | Lazy
  | Markup
  | Callable

/** A mapping: an object as JSON.parse makes it, or a Map where the order of number-like keys must stay. */
export type Dict = { readonly [key: string]: Value } | ReadonlyMap<Value, Value>

export type Callable = (args: readonly Value[], named: ReadonlyMap<string, Value>) => Value

/** A float that JavaScript would print as an int: 1.0, -0.0, and the infinities. */
export class Float {
  readonly value: number
  constructor(value: number) {
    this.value = value
  }
}

/** A list that prints with parentheses. What is made of it is a list. */
export class Tuple extends Array<Value> {
  static override get [Symbol.species](): ArrayConstructor {
    return Array
  }
}

/** What `keys`, `values` and `items` of a mapping answer: a list to loops and filters, and printed by its name. */
export class DictView extends Tuple {
  name = ''
}

/** What `range` answers: a list to loops and filters. What else Python does with one is refused. */
export class Range extends DictView {}

export class Namespace {
  readonly values: Map<string, Value>
  constructor(values: Map<string, Value>) {
    this.values = values
  }
}

/** What `map`, `select` and their kin answer: true whatever is in it, without a length, and walked over once. */
export class Lazy {
  /** Of what it is made, for those who count work. */
  readonly sourceLength: number
  #make: (() => readonly Value[]) | undefined
  #items: readonly Value[] = []
  #next = 0

  constructor(sourceLength: number, make: () => readonly Value[]) {
    this.sourceLength = sourceLength
    this.#make = make
  }

  next(): { readonly value: Value } | undefined {
    const items = this.#made()
    return this.#next < items.length ? { value: items[this.#next++] } : undefined
  }

  rest(): readonly Value[] {
    const items = this.#made().slice(this.#next)
    this.#next += items.length
    return items
  }

  #made(): readonly Value[] {
    if (this.#make) {
      this.#items = this.#make()
      this.#make = undefined
    }
    return this.#items
  }
}

/** A text that `safe` or `escape` made: what is added to it is escaped. What else one may do with it is refused. */
export class Markup {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

/** The variable `loop`. */
export class LoopState {
  index0 = 0
  readonly items: readonly Value[]
  constructor(items: readonly Value[]) {
    this.items = items
  }
}

/** A template asked for something that Python would raise on. */
export class TemplateError extends Error {
  override readonly name = 'TemplateError'
}

/** A float from arithmetic, in its printable form. */
export function float(value: number): Value {
  return Number.isInteger(value) || !Number.isFinite(value) ? new Float(value) : value
}

export function isNumber(value: Value): value is number | bigint | Float {
  return typeof value === 'number' || typeof value === 'bigint' || value instanceof Float
}

/** The number behind a value that Python computes with, booleans included; undefined for the rest. */
export function toNumber(value: Value): number | undefined {
  if (typeof value === 'number') return value
  if (value instanceof Float) return value.value
  if (typeof value === 'boolean') return value ? 1 : 0
  return typeof value === 'bigint' ? Number(value) : undefined
}

/** `float(value)` of a number, which Python refuses where it is too large for one. */
export function toFloat(value: Value): number | undefined {
  const number = toNumber(value)
  if (typeof value === 'bigint' && !Number.isFinite(number))
    throw new TemplateError('int too large to convert to float')
  return number
}

export function isFloat(value: Value): boolean {
  return value instanceof Float || (typeof value === 'number' && !Number.isInteger(value))
}

export function isList(value: Value): value is readonly Value[] {
  return Array.isArray(value)
}

export function isDict(value: Value): value is Dict {
  return (
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    !(value instanceof Float) &&
    !(value instanceof Namespace) &&
    !(value instanceof LoopState) &&
    !(value instanceof Lazy) &&
    !(value instanceof Markup)
  )
}

export function dictGet(dict: Dict, key: Value): Value {
  if (dict instanceof Map) return (dict as Map<Value, Value>).get(keyIn(dict as Map<Value, Value>, key))
  const name = nameIn(key)
  return name !== undefined && Object.hasOwn(dict, name) ? (dict as Record<string, Value>)[name] : undefined
}

export function dictHas(dict: Dict, key: Value): boolean {
  if (dict instanceof Map) return dict.has(keyIn(dict as Map<Value, Value>, key))
  const name = nameIn(key)
  return name !== undefined && Object.hasOwn(dict, name)
}

/** Mappings that come with a request have texts for keys. */
function nameIn(key: Value): string | undefined {
  return key instanceof Markup ? key.text : typeof key === 'string' ? key : undefined
}

/** A mapping as a template writes it. Keys of which we do not know that Python finds them again are refused. */
export function newDict(entries: readonly (readonly [Value, Value])[]): Dict {
  const dict = new Map<Value, Value>()
  for (const [key, value] of entries) {
    const isKnown = typeof key !== 'object' || key === null
    if (!isKnown || keyIn(dict, key) !== key) throw new TemplateError(`${typeName(key)} is not known as a key`)
    dict.set(key, value)
  }
  return dict
}

/** The key of this map that Python takes for the same: 1, 1.0 and True are one. */
function keyIn(dict: ReadonlyMap<Value, Value>, key: Value): Value {
  if (typeof key === 'string' || dict.has(key)) return key
  const plain = plainOf(key)
  const isBoolean = (plain === 0 || plain === 1) && dict.has(plain === 1)
  return isBoolean ? plain === 1 : plain === undefined || !dict.has(plain) ? key : plain
}

/** The same value for all numbers that are equal, and for texts; other values are themselves. */
export function plainOf(value: Value): Value {
  if (value instanceof Markup) return value.text
  if (value instanceof Float && Number.isInteger(value.value))
    return Number.isSafeInteger(value.value) ? value.value + 0 : BigInt(value.value)
  if (value instanceof Float && Number.isNaN(value.value)) throw new TemplateError('nan is not compared')
  return typeof value === 'bigint' ? value : (toNumber(value) ?? value)
}

export function dictEntries(dict: Dict): [Value, Value][] {
  const entries = dict instanceof Map ? [...(dict as Map<Value, Value>)] : Object.entries(dict as Record<string, Value>)
  spend(entries.length)
  return entries
}

export function dictSize(dict: Dict): number {
  if (dict instanceof Map) return dict.size
  const size = Object.keys(dict).length
  spend(size >>> 1)
  return size
}

export function isTrue(value: Value): boolean {
  if (typeof value === 'object' && value !== null) {
    if (Array.isArray(value)) return value.length > 0
    if (value instanceof Float) return value.value !== 0
    if (value instanceof Markup) return value.text !== ''
    return isDict(value) ? dictSize(value) > 0 : true
  }
  return Boolean(value)
}

const longText = 4096

export function isEqual(a: Value, b: Value): boolean {
  if (typeof a === 'string' && typeof b === 'string') {
    if (a.length > longText && a.length === b.length) spend(a.length >>> 8)
    return a === b
  }
  if (a === b && !(a instanceof Float)) return true
  if (a instanceof Markup) return isEqual(a.text, b)
  if (b instanceof Markup) return isEqual(a, b.text)
  if (typeof a === 'string' || typeof b === 'string') return false
  const x = comparedOf(a)
  const y = comparedOf(b)
  if (x !== undefined) return y !== undefined && order(x, y) === 0
  if (a instanceof DictView || b instanceof DictView) throw new TemplateError('views are not compared')
  if (isList(a) && isList(b)) return isSameKind(a, b) && a.length === b.length && within(() => areEqual(a, b), a.length)
  return isDict(a) && isDict(b) && dictSize(a) === dictSize(b) && within(() => haveEqual(a, b))
}

function areEqual(a: readonly Value[], b: readonly Value[]): boolean {
  return a.every((item, index) => isEqual(item, b[index]))
}

function haveEqual(a: Dict, b: Dict): boolean {
  return dictEntries(a).every(([key, item]) => dictHas(b, key) && isEqual(item, dictGet(b, key)))
}

/** Lists in lists that are compared at once. Those that hold one list twice, and so on, would be compared for ever. */
const comparedMax = 1 << 20
let comparing = 0
let comparedLeft = 0

function within<T>(compareAll: () => T, length = 0): T {
  spend(1 + (length >>> 2))
  if (comparing === 0) comparedLeft = comparedMax
  if (comparedLeft-- === 0) throw new TemplateError('such values are not compared')
  comparing++
  try {
    return compareAll()
  } finally {
    comparing--
  }
}

/** Both lists, or both tuples: Python compares no others. */
function isSameKind(a: readonly Value[], b: readonly Value[]): boolean {
  return a instanceof Tuple === b instanceof Tuple && !(a instanceof DictView) && !(b instanceof DictView)
}

/** Order by `<` of Python: numbers, strings, and lists of them. */
export function compare(a: Value, b: Value): number {
  spend(1)
  const x = comparedOf(a)
  const y = comparedOf(b)
  if (x !== undefined && y !== undefined) return order(x, y)
  if (typeof a === 'string' && typeof b === 'string') return compareText(a, b)
  if (isList(a) && isList(b) && isSameKind(a, b)) return within(() => compareLists(a, b), a.length)
  throw new TemplateError(`cannot compare ${typeName(a)} and ${typeName(b)}`)
}

function order(x: number | bigint, y: number | bigint): number {
  return x < y ? -1 : x > y ? 1 : 0
}

function compareLists(a: readonly Value[], b: readonly Value[]): number {
  for (let index = 0; index < Math.min(a.length, b.length); index++) {
    if (!isEqual(a[index], b[index])) return compare(a[index], b[index])
  }
  return a.length - b.length
}

/** JavaScript compares an int of any size with a double exactly, as Python does. Nothing is compared with nan: by `in` it may be itself. */
function comparedOf(value: Value): number | bigint | undefined {
  if (typeof value === 'bigint') return value
  const number = toNumber(value)
  if (Number.isNaN(number)) throw new TemplateError('nan is not compared')
  return number
}

/** By code points, as Python; JavaScript compares code units, which puts emoji before U+E000. */
function compareText(a: string, b: string): number {
  if (a === b) return 0
  const length = Math.min(a.length, b.length)
  spend(length >>> 7)
  for (let index = 0; index < length; index++) {
    const x = a.charCodeAt(index)
    const y = b.charCodeAt(index)
    if (x === y) continue
    const isSurrogate = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdfff
    if (isSurrogate(x) !== isSurrogate(y)) return isSurrogate(x) ? 1 : -1
    return x - y
  }
  return a.length - b.length
}

export function typeName(value: Value): string {
  if (value === undefined) return 'undefined'
  if (value === null) return 'NoneType'
  if (typeof value === 'boolean') return 'bool'
  if (typeof value === 'string') return 'str'
  if (isNumber(value)) return isFloat(value) ? 'float' : 'int'
  if (isList(value)) return value instanceof Tuple ? 'tuple' : 'list'
  return isDict(value) ? 'dict' : 'object'
}
