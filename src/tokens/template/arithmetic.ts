/** Python's arithmetic: ints of any size, floats with their signs of zero, and the quotient and rest that go with the divisor. */
import type { Value } from './values.js'
import { float, isFloat, TemplateError, toFloat, toNumber, typeName } from './values.js'

type Name = '+' | '-' | '*' | '//' | '%' | '**'

export function arithmetic(left: Value, right: Value, name: Name): Value {
  if (typeof left === 'number' && typeof right === 'number' && (name === '+' || name === '-')) {
    const result = name === '+' ? left + right : left - right
    if (Number.isSafeInteger(left) && Number.isSafeInteger(right) && Number.isSafeInteger(result)) return result
  }
  refuseOthers(left, right, name)
  const isZero = toNumber(right) === 0
  if ((name === '//' || name === '%') && isZero) throw new TemplateError('division by zero')
  if (isFloat(left) || isFloat(right)) return ofFloats(left, right, name)
  if (name === '**' && toNumber(right)! < 0) return ofFloats(left, right, name)
  return ofInts(left, right, name)
}

export function divide(left: Value, right: Value): Value {
  refuseOthers(left, right, '/')
  if (toNumber(right) === 0) throw new TemplateError('division by zero')
  const areInts = !isFloat(left) && !isFloat(right)
  if (areInts && (typeof left === 'bigint' || typeof right === 'bigint'))
    return float(quotientOf(toBigInt(left), toBigInt(right)))
  const [a, b] = [toFloat(left)!, toFloat(right)!]
  return known(a / b, a, b)
}

/** As a number where it is exact so. */
export function narrow(value: bigint): Value {
  const number = Number(value)
  return Number.isSafeInteger(number) ? number : value
}

function refuseOthers(left: Value, right: Value, name: string): void {
  if (toNumber(left) === undefined || toNumber(right) === undefined) {
    throw new TemplateError(`unsupported operand types for ${name}: ${typeName(left)} and ${typeName(right)}`)
  }
}

/** An infinity that finite numbers make: jinja2 computes constants beforehand and writes it as a name that nobody knows. */
function known(result: number, a: number, b: number): Value {
  if (!Number.isFinite(result) && Number.isFinite(a) && Number.isFinite(b))
    throw new TemplateError('so large a float is not known')
  return float(result)
}

function ofFloats(left: Value, right: Value, name: Name): Value {
  const [a, b] = [toFloat(left)!, toFloat(right)!]
  switch (name) {
    case '+':
      return known(a + b, a, b)
    case '-':
      return known(a - b, a, b)
    case '*':
      return known(a * b, a, b)
    case '//':
      return known(floorOf(a, b), a, b)
    case '%':
      return known(restOf(a, b), a, b)
    case '**':
      return float(powerOf(a, b))
  }
}

function powerOf(a: number, b: number): number {
  refuseNegativeBase(a)
  const power = a ** b
  // Of one that has many digits the last may be another than Python's.
  if (!Number.isSafeInteger(power * 2 ** 20)) throw new TemplateError('such a power is not known')
  return power
}

/** jinja2 writes a constant base without parentheses, so that `(-2) ** x` is -(2 ** x) there, and of a variable it is not. */
function refuseNegativeBase(base: number | bigint): void {
  if (base < 0 || Object.is(base, -0)) throw new TemplateError('such a power is not known')
}

function restOf(a: number, b: number): number {
  const cut = a % b // has the sign of what is divided
  return cut === 0 ? zeroLike(b) : cut < 0 === b < 0 ? cut : cut + b
}

/** Step by step as Python does it, since each one rounds. */
function floorOf(a: number, b: number): number {
  const cut = a % b
  let quotient = (a - cut) / b
  if (cut !== 0 && cut < 0 !== b < 0) quotient -= 1
  if (quotient === 0) return zeroLike(a / b)
  const below = Math.floor(quotient)
  return quotient - below > 0.5 ? below + 1 : below
}

function zeroLike(value: number): number {
  return value < 0 || Object.is(value, -0) ? -0 : 0
}

function ofInts(left: Value, right: Value, name: Name): Value {
  if (typeof left !== 'bigint' && typeof right !== 'bigint' && name !== '**') {
    const result = ofSmallInts(toNumber(left)!, toNumber(right)!, name)
    if (Number.isSafeInteger(result)) return result + 0
  }
  return narrow(ofBigInts(toBigInt(left), toBigInt(right), name))
}

/** Exact, unless the result is not safe. */
function ofSmallInts(a: number, b: number, name: Name): number {
  if (name === '//') return Math.floor(a / b) // no quotient of safe ints is rounded up to the next one
  if (name === '%') return restOf(a, b)
  return name === '+' ? a + b : name === '-' ? a - b : a * b
}

const exponentMax = 1024n
/** Longer ones are not made: a few statements could keep a thread busy for minutes, and Python prints none of 4,300 digits either. */
const bitsMax = 14_280

function ofBigInts(a: bigint, b: bigint, name: Name): bigint {
  if (name === '**') {
    refuseNegativeBase(a)
    if (b > exponentMax || bitsOf(a) * Number(b) > bitsMax) throw new TemplateError('so large a power is not known')
    return a ** b
  }
  if (name === '*' && bitsOf(a) + bitsOf(b) > bitsMax) throw new TemplateError('so large a product is not known')
  if (name === '+' || name === '-') {
    const sum = name === '+' ? a + b : a - b
    if (bitsOf(sum) > bitsMax) throw new TemplateError('so large a sum is not known')
    return sum
  }
  if (name === '*') return a * b
  const cut = a % b
  const rest = cut !== 0n && cut < 0n !== b < 0n ? cut + b : cut
  return name === '%' ? rest : (a - rest) / b
}

/** About as many as it has. */
function bitsOf(value: bigint): number {
  return 4 * value.toString(16).length
}

/** The double next to the quotient: of a quotient of at least 60 bits, the last of which says whether anything is left. */
function quotientOf(a: bigint, b: bigint): number {
  if (a === 0n) return b < 0n ? -0 : 0
  const shift = 64 + bitsOf(b) - bitsOf(a)
  const [top, bottom] = shift > 0 ? [a << BigInt(shift), b] : [a, b << BigInt(-shift)]
  const quotient = top / bottom
  const isExact = quotient * bottom === top
  const number = Number(isExact ? quotient : quotient * 2n + (a < 0n === b < 0n ? 1n : -1n))
  const scale = isExact ? shift : shift + 1
  const result = number * 2 ** -scale
  // Beyond, the scale or the result would be rounded once more, and Python raises at the end.
  if (Math.abs(scale) > 900 || Math.abs(result) > 1e290) throw new TemplateError('so large a quotient is not known')
  return result
}

function toBigInt(value: Value): bigint {
  return typeof value === 'bigint' ? value : BigInt(toNumber(value)!)
}
