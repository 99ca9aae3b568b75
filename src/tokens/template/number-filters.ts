/** jinja2's filters that make numbers: of texts, of other numbers, and of lists of them. */
import { arithmetic, divide, narrow } from './arithmetic.js'
import { spend } from './meter.js'
import { readFloat, readInt } from './read-number.js'
import type { Value } from './values.js'
import { float, isFloat, isList, Markup, TemplateError, toFloat, toNumber, Tuple, typeName } from './values.js'

export function absolute(value: Value): Value {
  if (typeof value === 'bigint') return value < 0n ? -value : value
  const number = numberOf(value)
  return isFloat(value) ? float(Math.abs(number)) : Math.abs(number)
}

export function intOf(given: Value, fallback: Value, base: Value): Value {
  const value = given instanceof Markup ? given.text : given
  if (value === undefined) throw new TemplateError('undefined is no number')
  if (typeof value === 'bigint') return value
  if (typeof value === 'string') {
    const isBase = typeof base === 'number' && (base === 0 || (base >= 2 && base <= 36 && Number.isInteger(base)))
    const whole = isBase ? readInt(value, base) : undefined
    if (whole !== undefined) return whole
    const read = readFloat(value) // so that '42.23' is 42
    return read === undefined || !Number.isFinite(read) ? fallback : truncated(read)
  }
  const number = toNumber(value)
  if (number === undefined || Number.isNaN(number)) return fallback
  return truncated(number)
}

export function floatOf(given: Value, fallback: Value): Value {
  const value = given instanceof Markup ? given.text : given
  if (value === undefined) throw new TemplateError('undefined is no number')
  if (typeof value !== 'string') {
    const number = toFloat(value)
    return number === undefined ? fallback : float(number)
  }
  const number = readFloat(value)
  // jinja2 computes constants beforehand and writes these as names that nobody knows, so that their use may be an error.
  if (number !== undefined && !Number.isFinite(number)) throw new TemplateError('such a float is not known')
  return number === undefined ? fallback : float(number)
}

function truncated(number: number): Value {
  if (!Number.isFinite(number)) throw new TemplateError('cannot convert float infinity to integer')
  return narrow(BigInt(Math.trunc(number)))
}

/** Beyond these a power of ten is no double, and a tie may hide behind the digits that we look at. */
const digitsMax = 22

/** Half to even, as Python 3 rounds. */
export function round(value: Value, precision: Value, method: Value): Value {
  const digits = isFloat(precision) ? undefined : toNumber(precision)
  if (digits === undefined || digits < 0) throw new TemplateError('round wants a number of digits')
  if (method === 'common' && !isFloat(value)) return typeof value === 'bigint' ? value : numberOf(value)
  if (digits > digitsMax) throw new TemplateError('so many digits are not known')
  if (method === 'common') return float(roundHalfEven(numberOf(value), digits))
  if (method !== 'ceil' && method !== 'floor') throw new TemplateError('method must be common, ceil or floor')
  const scale = narrow(10n ** BigInt(digits))
  const scaled = arithmetic(value, scale, '*')
  return divide(isFloat(scaled) ? truncated(Math[method](numberOf(scaled))) : scaled, scale)
}

/** By the digits of the double itself: 1.115 is a little less, and 0.125 is a tie. */
function roundHalfEven(value: number, digits: number): number {
  if (Math.abs(value) >= 2 ** 53 || !Number.isFinite(value) || value === 0) return value
  const rounded = value.toFixed(digits) // of a tie, the one farther from zero
  const tail = value.toFixed(digits + 40).slice(rounded.length)
  if (!/^\.?50*$/.test(tail)) return Number(rounded)
  const last = Number(rounded.at(-1))
  return Number(rounded.slice(0, -1) + String(last - (last % 2)))
}

/** Since Python 3.12 the sum of floats has the digits that additions one by one lose, so one where they lose some is not known. */
export function sumOf(items: readonly Value[], start: Value): Value {
  if (isList(start)) return joinLists(start, items)
  if (typeof start === 'string' || start instanceof Markup) throw new TemplateError('texts have no sum')
  spend(items.length >>> 2)
  let sum: Value = start
  for (const item of items) {
    const next = arithmetic(sum, item, '+')
    if (isFloat(next) && !isExactSum(toFloat(sum)!, toFloat(item)!, toFloat(next)!))
      throw new TemplateError('a sum that depends on the version of Python')
    sum = next
  }
  return sum
}

function isExactSum(a: number, b: number, sum: number): boolean {
  const bigger = Math.abs(a) >= Math.abs(b) ? a : b
  const smaller = bigger === a ? b : a
  return smaller - (sum - bigger) === 0
}

/** Items of the lists that are joined to one. */
const summedMax = 65_536

function joinLists(start: readonly Value[], items: readonly Value[]): Value {
  if (start instanceof Tuple) throw new TemplateError('a sum of tuples is not known')
  const all = [...start]
  for (const item of items) {
    if (!isList(item) || item instanceof Tuple) throw new TemplateError(`cannot add ${typeName(item)} to a list`)
    if (all.length + item.length > summedMax) throw new TemplateError('so long a sum is not known')
    all.push(...item)
  }
  return all
}

function numberOf(value: Value): number {
  const found = toNumber(value)
  if (found === undefined) throw new TemplateError(`a number is wanted, not ${typeName(value)}`)
  return found
}
