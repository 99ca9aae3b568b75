/** Python's arithmetic: ints of any size, floats with their signs of zero, and the quotient and rest that go with the divisor. */
import type { Value } from './values.js'
import { float, isFloat, TemplateError, toNumber, typeName } from './values.js'

type Name = '+' | '-' | '*' | '//' | '%' | '**'

export function arithmetic(left: Value, right: Value, name: Name): Value {
  const [a, b] = numbers(left, right, name)
  if ((name === '//' || name === '%') && b === 0) throw new TemplateError('division by zero')
  if (isFloat(left) || isFloat(right)) return float(ofFloats(a, b, name))
  if (name === '**' && b < 0) return float(ofFloats(a, b, name))
  const result = ofInts(a, b, name)
  const isExact = [a, b, result].every(Number.isSafeInteger)
  return isExact ? result + 0 : narrow(ofBigInts(toBigInt(left), toBigInt(right), name))
}

/** The int that is written there in digits alone; undefined where it is none, or has more digits than Python reads. */
export function wholeOf(text: string): Value {
  return /^[+-]?\d{1,4300}$/.test(text) ? narrow(BigInt(text.replace('+', ''))) : undefined
}

export function divide(left: Value, right: Value): Value {
  const [a, b] = numbers(left, right, '/')
  if (b === 0) throw new TemplateError('division by zero')
  if (typeof left === 'bigint' || typeof right === 'bigint') throw new TemplateError('so large a quotient is not known')
  return float(a / b)
}

function numbers(left: Value, right: Value, name: string): [number, number] {
  const a = toNumber(left)
  const b = toNumber(right)
  if (a === undefined || b === undefined) {
    throw new TemplateError(`unsupported operand types for ${name}: ${typeName(left)} and ${typeName(right)}`)
  }
  return [a, b]
}

function ofInts(a: number, b: number, name: Name): number {
  if (name === '//') return Math.floor(a / b)
  if (name === '%') return a - b * Math.floor(a / b)
  return name === '**' ? a ** b : name === '+' ? a + b : name === '-' ? a - b : a * b
}

function ofFloats(a: number, b: number, name: Name): number {
  if (name === '**') {
    const power = a ** b
    // Of one that has many digits the last may be another than Python's.
    if (!Number.isSafeInteger(power * 2 ** 20)) throw new TemplateError('such a power is not known')
    return power
  }
  if (name !== '//' && name !== '%') return name === '+' ? a + b : name === '-' ? a - b : a * b
  const cut = a % b // has the sign of what is divided
  const rest = cut === 0 ? zeroLike(b) : cut < 0 === b < 0 ? cut : cut + b
  if (name === '%') return rest
  const quotient = (a - rest) / b
  if (quotient === 0) return zeroLike(a / b)
  const below = Math.floor(quotient)
  return quotient - below > 0.5 ? below + 1 : below
}

function zeroLike(value: number): number {
  return value < 0 || Object.is(value, -0) ? -0 : 0
}

const exponentMax = 1024n
/** Longer ones are not made: a few statements could keep a thread busy for minutes, and Python prints none of 4,300 digits either. */
const bitsMax = 1 << 16

function ofBigInts(a: bigint, b: bigint, name: Name): bigint {
  if (name === '**') {
    if (b > exponentMax || bitsOf(a) * Number(b) > bitsMax) throw new TemplateError('so large a power is not known')
    return a ** b
  }
  if (name === '*' && bitsOf(a) + bitsOf(b) > bitsMax) throw new TemplateError('so large a product is not known')
  if (name !== '//' && name !== '%') return name === '+' ? a + b : name === '-' ? a - b : a * b
  const cut = a % b
  const rest = cut !== 0n && cut < 0n !== b < 0n ? cut + b : cut
  return name === '%' ? rest : (a - rest) / b
}

/** About as many as it has. */
function bitsOf(value: bigint): number {
  return 4 * value.toString(16).length
}

function toBigInt(value: Value): bigint {
  return typeof value === 'bigint' ? value : BigInt(toNumber(value)!)
}

function narrow(value: bigint): Value {
  const number = Number(value)
  return Number.isSafeInteger(number) ? number : value
}
