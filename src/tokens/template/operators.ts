/** Python's operators on template values. */
import { arithmetic, divide } from './arithmetic.js'
import { contains, escaped, formatPercent, loopAttribute } from './filters.js'
import { bindMethod, hasPlaces, isOddAttribute, noAttribute, oddAttribute } from './methods.js'
import { spend } from './meter.js'
import { str } from './spell.js'
import { charsOf } from './texts.js'
import type { Value } from './values.js'
import {
  compare,
  dictGet,
  dictHas,
  DictView,
  float,
  isDict,
  isEqual,
  isFloat,
  isList,
  LoopState,
  Markup,
  Namespace,
  TemplateError,
  toNumber,
  Tuple,
  typeName,
} from './values.js'

export type Operator = (left: Value, right: Value) => Value

/** `and` and `or` are not here: they may leave their right side alone. */
export const operators: Readonly<Record<string, Operator>> = {
  '==': isEqual,
  '!=': (left, right) => !isEqual(left, right),
  '<': (left, right) => compare(left, right) < 0,
  '<=': (left, right) => compare(left, right) <= 0,
  '>': (left, right) => compare(left, right) > 0,
  '>=': (left, right) => compare(left, right) >= 0,
  in: (left, right) => contains(right, left),
  'not in': (left, right) => !contains(right, left),
  '~': (left, right) => str(left) + str(right),
  '+': add,
  '-': (left, right) => arithmetic(left, right, '-'),
  '*': multiply,
  '/': divide,
  '//': (left, right) => arithmetic(left, right, '//'),
  '%': (left, right) => {
    if (typeof left === 'string') return formatPercent(left, isTuple(right) ? right : [right])
    return arithmetic(left, right, '%')
  },
  '**': (left, right) => arithmetic(left, right, '**'),
}

export function negate(value: Value): Value {
  return isFloat(value) ? float(-toNumber(value)!) : arithmetic(0, value, '-')
}

/** `+value`, of which a bool becomes an int. */
export function posit(value: Value): Value {
  return isFloat(value) ? value : arithmetic(0, value, '+')
}

function add(left: Value, right: Value): Value {
  if (left instanceof Markup || right instanceof Markup) return addEscaped(left, right)
  if (typeof left === 'string' && typeof right === 'string') return left + right
  if (isTuple(left) && isTuple(right)) return Tuple.from([...left, ...right]) as Tuple
  if (isList(left) && isList(right) && !(left instanceof Tuple || right instanceof Tuple)) return [...left, ...right]
  return arithmetic(left, right, '+')
}

/** A text of `safe` escapes what it is added to. */
function addEscaped(left: Value, right: Value): Markup {
  const sides = [left, right].map((side) => {
    if (typeof side !== 'string' && !(side instanceof Markup)) throw new TemplateError(`cannot add ${typeName(side)}`)
    return escaped(side).text
  })
  return new Markup(sides.join(''))
}

const repeatMax = 1_000_000

function multiply(left: Value, right: Value): Value {
  return repeated(left, right) ?? repeated(right, left) ?? arithmetic(left, right, '*')
}

/** A text or list so many times, where this is one. */
function repeated(whole: Value, times: Value): Value {
  if (typeof whole !== 'string' && !(isList(whole) && !(whole instanceof DictView))) return undefined
  const count = isFloat(times) || typeof times === 'bigint' ? undefined : toNumber(times)
  if (count === undefined) return undefined
  const length = whole.length * Math.max(0, count)
  if (length > repeatMax) throw new TemplateError('what is repeated is too long')
  if (typeof whole === 'string') return whole.repeat(Math.max(0, count))
  spend(length >>> 3)
  const kind = whole instanceof Tuple ? Tuple : Array
  return kind.from({ length }, (_, index) => whole[index % whole.length])
}

/** `object.name`: an attribute first, then an item. */
export function attributeOf(object: Value, name: string): Value {
  if (object === undefined) throw new TemplateError(`undefined has no attribute ${name}`)
  if (object instanceof Namespace) return object.values.get(name)
  if (object instanceof LoopState) return loopAttribute(object, name)
  if (object instanceof Markup) throw new TemplateError('what this does to an escaped text is not known')
  if (isOddAttribute(name)) return oddAttribute(object, name)
  return bindMethod(object, name) ?? (isDict(object) ? dictGet(object, name) : noAttribute(object, name))
}

const surrogates = /[\ud800-\udfff]/

/** `object[key]`: an item first, then an attribute. */
export function itemOf(object: Value, key: Value): Value {
  if (object === undefined) throw new TemplateError('undefined has no items')
  if (key instanceof Markup) return itemOf(object, key.text)
  if (object instanceof Markup) throw new TemplateError('what this does to an escaped text is not known')
  if ((typeof key === 'number' && Number.isInteger(key)) || typeof key === 'boolean') {
    const index = Number(key)
    if (isList(object)) return hasPlaces(object) ? object.at(index) : undefined
    if (typeof object === 'string') {
      spend(object.length >>> 7)
      return surrogates.test(object) ? charsOf(object).at(index) : object.at(index)
    }
  }
  if (isDict(object) && dictHas(object, key)) return dictGet(object, key)
  return typeof key === 'string' ? attributeOf(object, key) : undefined
}

/** `object[start:stop:step]`, null where one is not written. Python counts code points. */
export function sliceOf(object: Value, start: Value, stop: Value, step: Value): Value {
  if (typeof object === 'string') spend(object.length >>> 7)
  const items = typeof object === 'string' && surrogates.test(object) ? charsOf(object) : object
  if (typeof items !== 'string' && (!isList(items) || items instanceof DictView))
    throw new TemplateError(`${typeName(object)} cannot be sliced`)
  const by = step === null ? 1 : indexOf(step)
  if (by === 0) throw new TemplateError('slice step cannot be zero')
  const clamp = (value: Value, ifMissing: number, low: number, high: number): number => {
    if (value === null) return ifMissing
    const index = indexOf(value)
    return Math.max(low, Math.min(high, index < 0 ? index + items.length : index))
  }
  const picked: Value[] = []
  if (by > 0) {
    const from = clamp(start, 0, 0, items.length)
    const to = clamp(stop, items.length, 0, items.length)
    if (by === 1 && typeof items === 'string') return items.slice(from, Math.max(from, to))
    spend(Math.max(0, to - from) / by / 16)
    for (let index = from; index < to; index += by) picked.push(items[index])
  } else {
    const to = clamp(stop, -1, -1, items.length - 1)
    const from = clamp(start, items.length - 1, -1, items.length - 1)
    spend(Math.max(0, from - to) / -by / 16)
    for (let index = from; index > to; index += by) picked.push(items[index])
  }
  if (typeof object === 'string') return picked.map(str).join('')
  return object instanceof Tuple ? (Tuple.from(picked) as Tuple) : picked
}

function indexOf(value: Value): number {
  const index = isFloat(value) ? undefined : toNumber(value)
  if (index === undefined) throw new TemplateError('slice indices must be integers or None')
  return index
}

function isTuple(value: Value): value is Tuple {
  return value instanceof Tuple && !(value instanceof DictView)
}
