/** Which number Python's `int` and `float` read in a text: white space around it, a sign, underscores between digits, prefixes of a base. */
import { narrow } from './arithmetic.js'
import { strip } from './methods.js'
import type { Value } from './values.js'
import { TemplateError } from './values.js'

/** Python reads no more of them, unless the base is a power of two. */
const digitsMax = 4300

/** The int that is written there; undefined where it is none. Base 0 is that of its prefix. */
export function readInt(text: string, base: number): Value {
  const found = /^([+-]?)(?:0([xob])_?)?([\da-z]+(?:_[\da-z]+)*)$/i.exec(plainOf(text))
  if (!found) return undefined
  const [, sign, prefix, tail] = found as unknown as [string, string, string | undefined, string]
  const prefixBase = prefix === undefined ? undefined : bases[prefix.toLowerCase()]
  const isPrefixed = prefixBase !== undefined && (base === 0 || base === prefixBase)
  const actual = isPrefixed ? prefixBase : base === 0 ? 10 : base
  // `0b1` is a number of base 16 without a prefix too, and `0_1` one of base 10.
  const digits = (isPrefixed ? tail : plainOf(text).replace(/^[+-]/, '')).toLowerCase()
  if (!/^[\da-z]+(?:_[\da-z]+)*$/.test(digits)) return undefined
  if (base === 0 && !isPrefixed && /^0[0_]*[^0_]/.test(digits)) return undefined
  return valueOf(digits.replaceAll('_', ''), actual, sign === '-')
}

const bases: Readonly<Record<string, number>> = { b: 2, o: 8, x: 16 }

function valueOf(digits: string, base: number, isNegative: boolean): Value {
  if (digits.length > digitsMax) {
    if (base !== 10 || !/^\d+$/.test(digits)) throw new TemplateError('so long a number is not known')
    return undefined
  }
  let value = 0n
  if (base === 10) {
    if (!/^\d+$/.test(digits)) return undefined
    value = BigInt(digits)
  } else {
    for (const char of digits) {
      const digit = Number.parseInt(char, 36)
      if (digit >= base) return undefined
      value = value * BigInt(base) + BigInt(digit)
    }
  }
  return narrow(isNegative ? -value : value)
}

/** The float that is written there, nan for the infinities too; undefined where it is none. */
export function readFloat(text: string): number | undefined {
  const plain = plainOf(text)
  if (/^[+-]?(inf|infinity|nan)$/i.test(plain)) return Number.NaN // which of them it is nobody asks
  if (!/^[+-]?(\d+(_\d+)*(\.(\d+(_\d+)*)?)?|\.\d+(_\d+)*)(e[+-]?\d+(_\d+)*)?$/i.test(plain)) return undefined
  return Number(plain.replaceAll('_', ''))
}

// Of the ASCII ones fewer than `strip` takes.
const around =
  '\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000'

function plainOf(text: string): string {
  const plain = strip(text, around, true, true)
  // Python reads the digits of every script, of the Unicode that it knows.
  if (/(?![0-9])\p{Nd}/u.test(plain)) throw new TemplateError('digits of other scripts are not known')
  return plain
}
