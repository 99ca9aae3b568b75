/**
 * JSON as Python reads it: `1.0` stays a float, a long integer keeps its digits, keys keep their order even when they look
 * like numbers. `JSON.parse` loses all three, and with them the tokens of a tool schema.
 */
import { objectOf } from '../../core/protocol/index.js'
import type { Value } from './values.js'
import { float } from './values.js'

/** Thrown for text that is no JSON; a template that parses tool arguments fails with it, as in Python. */
export class JsonError extends Error {
  override readonly name = 'JsonError'
  /** Python reads what is nested more deeply than we do: it is no worse for that. */
  readonly reason: 'malformed' | 'too-long'
  constructor(message: string, reason: 'malformed' | 'too-long' = 'malformed') {
    super(message)
    this.reason = reason
  }
}

const nestingMax = 500
const intDigitsMax = 4300
const numberPattern = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y
const stringPattern = /"(?:[^"\\]|\\.)*"/suy
const spacePattern = /[ \t\n\r]*/y

export interface JsonReading {
  /** Objects become maps, of which V8 keeps no names (docs/decisions/0273): for what is written inside of a text, which nobody has looked at. */
  readonly isUnkept?: boolean
}

export function parsePythonJson(text: string, { isUnkept = false }: JsonReading = {}): Value {
  let at = 0
  const value = read(0)
  skipSpace()
  if (at < text.length) fail('something follows the value')
  return value

  function read(depth: number): Value {
    if (depth > nestingMax) throw new JsonError('the JSON is nested too deeply', 'too-long')
    skipSpace()
    const first = text[at]
    if (first === '{') return readObject(depth)
    if (first === '[') return readArray(depth)
    if (first === '"') return readString()
    const short = readShortInt()
    if (short !== undefined) return short
    for (const [word, value] of words) {
      if (text.startsWith(word, at)) {
        at += word.length
        return value
      }
    }
    return readNumber()
  }

  function readObject(depth: number): Value {
    const entries: [string, Value][] = []
    let isPlain = !isUnkept
    at++
    skipSpace()
    if (text[at] === '}') at++
    else {
      for (;;) {
        skipSpace()
        const key = readString()
        if (key === '__proto__' || /^\d+$/.test(key)) isPlain = false
        skipSpace()
        if (text[at++] !== ':') fail('a colon is missing')
        entries.push([key, read(depth + 1)])
        skipSpace()
        const next = text[at++]
        if (next === '}') break
        if (next !== ',') fail('a comma is missing')
      }
    }
    return isPlain ? objectOf(entries) : new Map<Value, Value>(entries)
  }

  function readArray(depth: number): Value {
    const items: Value[] = []
    at++
    skipSpace()
    if (text[at] === ']') {
      at++
      return items
    }
    for (;;) {
      items.push(read(depth + 1))
      skipSpace()
      const next = text[at++]
      if (next === ']') return items
      if (next !== ',') fail('a comma is missing')
    }
  }

  function readString(): string {
    stringPattern.lastIndex = at
    const found = stringPattern.exec(text)
    if (!found) return fail('a string is missing')
    at = stringPattern.lastIndex
    const [literal] = found
    if (/^[^\\\p{Cc}]*$/u.test(literal)) return literal.slice(1, -1)
    try {
      // V8 would keep a short text, so it is made longer.
      return (JSON.parse(`${literal.slice(0, -1)}${filler}"`) as string).slice(0, -filler.length)
    } catch {
      return fail('a string has a bad escape')
    }
  }

  /** Most numbers, in a tenth of the time. */
  function readShortInt(): number | undefined {
    let end = at
    let number = 0
    let unit = text.charCodeAt(end)
    for (; unit >= zero && unit <= nine && end - at < safeDigits; unit = text.charCodeAt(++end))
      number = number * 10 + unit - zero
    const isZeroFirst = text.charCodeAt(at) === zero && end - at > 1
    if (end === at || isZeroFirst || isNumberPart(unit)) return undefined
    at = end
    return number
  }

  function readNumber(): Value {
    numberPattern.lastIndex = at
    const found = numberPattern.exec(text)
    if (!found) return fail('a value is missing')
    at = numberPattern.lastIndex
    const number = Number(found[0])
    if (found[1] !== undefined || found[2] !== undefined) return float(number)
    if (Number.isSafeInteger(number)) return number === 0 ? 0 : number
    // Python raises; engines answer that in their own way.
    if (found[0].length > (found[0][0] === '-' ? intDigitsMax + 1 : intDigitsMax))
      throw new JsonError('an int has too many digits', 'too-long')
    return BigInt(found[0])
  }

  function skipSpace(): void {
    for (let unit = text.charCodeAt(at); isSpace(unit); unit = text.charCodeAt(at)) at++
  }

  function fail(reason: string): never {
    throw new JsonError(`no JSON at ${at}: ${reason}`)
  }
}

const filler = ' '.repeat(11)
const words: readonly (readonly [string, Value])[] = [
  ['true', true],
  ['false', false],
  ['null', null],
  ['NaN', float(Number.NaN)],
  ['Infinity', float(Number.POSITIVE_INFINITY)],
  ['-Infinity', float(Number.NEGATIVE_INFINITY)],
]

/**
 * Whether `JSON.parse` may have lost something of this text, which it took: a float, a long integer, a key of digits. Errs towards yes;
 * the text is then read again by `parsePythonJson`. A loop and no regular expression, which takes ten times as long and looks into strings.
 */
export function mayDifferFromPython(text: string): boolean {
  for (let at = 0; at < text.length; ) {
    const unit = text.charCodeAt(at)
    if (unit === quote) {
      const end = endOfString(text, at)
      if (isOddKey(text, at, end)) return true
      at = end
    } else if (unit >= zero && unit <= nine) {
      numberPattern.lastIndex = at
      const [number, fraction, exponent] = numberPattern.exec(text)!
      if (fraction !== undefined || exponent !== undefined || number.length > safeDigits) return true
      if (number === '0' && text.charCodeAt(at - 1) === minus) return true
      at += number.length
    } else at++
  }
  return false
}

const [quote, minus, dot, backslash, colon, zero, nine] = [0x22, 0x2d, 0x2e, 0x5c, 0x3a, 0x30, 0x39]
const safeDigits = 15

function isSpace(unit: number): boolean {
  return unit === 0x20 || unit === 0x0a || unit === 0x0d || unit === 0x09
}

/** Whether a number goes on with it. */
function isNumberPart(unit: number): boolean {
  return (unit >= zero && unit <= nine) || unit === dot || (unit | 0x20) === 0x65
}

/** Behind the quote that ends the string at `at`. */
function endOfString(text: string, at: number): number {
  let end = at + 1
  for (let unit = text.charCodeAt(end); end < text.length && unit !== quote; unit = text.charCodeAt(end))
    end += unit === backslash ? 2 : 1
  return end + 1
}

/** Whether the string is a key that objects do not keep where it stands; one with escapes may be. */
function isOddKey(text: string, at: number, end: number): boolean {
  spacePattern.lastIndex = end
  spacePattern.exec(text)
  if (text.charCodeAt(spacePattern.lastIndex) !== colon) return false
  return /^"(?:\d+|__proto__)"$|\\/.test(text.slice(at, end))
}
