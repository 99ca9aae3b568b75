/**
 * JSON with 64-bit integers. Dynamo's wires carry hashes and worker ids as bare integers of up to 20 digits, and
 * `JSON.parse` rounds them. Here every number written without fraction or exponent is read as a `bigint`, whatever its
 * size, so that a reader never has to ask which of the two it got; every other number is a `number`.
 *
 * Text from outside can only lead to a `WR_INVALID_JSON`: nesting and digits are limited before they cost anything.
 * It keeps the text in memory and reads it in one piece; a body limit belongs to the caller.
 */
import { WarmrouteError } from './errors.js'
import { unkept } from './unkept.js'

/** What can be read from JSON. An object has no prototype, so that `__proto__` is a key like any other. */
export type JsonValue = null | boolean | string | number | bigint | JsonValue[] | JsonObject
export interface JsonObject {
  [key: string]: JsonValue
}

/** What can be written: the same, readonly; a member that is `undefined` is left out. */
export type JsonInput =
  | null
  | boolean
  | string
  | number
  | bigint
  | readonly JsonInput[]
  | { readonly [key: string]: JsonInput | undefined }

/** As deep as serde_json goes, so that nothing which upstream accepts is refused here. */
export const jsonDepthMax = 128
/** A u128 has 39 digits. Longer runs of digits are an attack on `BigInt`, which reads them in quadratic time. */
export const jsonDigitsMax = 40

/** Throws `WR_INVALID_JSON` and nothing else. The last of two equal keys wins. */
export function parseLosslessJson(text: string, depthMax: number = jsonDepthMax): JsonValue {
  return new Reader(text, { depthMax }).whole()
}

export interface UnkeptReading {
  readonly depthMax?: number
  /** Numbers are rounded as `JSON.parse` does. */
  readonly isRounded?: boolean
}

/** The same, of which V8 keeps no name and no text: see `unkept`. For what anybody may send, and of which only a few names matter. */
export function parseUnkeptJson(text: string, reading: UnkeptReading = {}): JsonValue {
  return new Reader(text, { ...reading, isUnkept: true }).whole()
}

/** Throws `WR_INVALID_ARGUMENT` for a number that JSON cannot hold and for nesting deeper than can be read again. */
export function stringifyLosslessJson(value: JsonInput, depthMax: number = jsonDepthMax): string {
  return write(value, depthMax)
}

const quote = 0x22
const backslash = 0x5c
const simpleEscapes: Readonly<Record<string, string>> = {
  '"': '"',
  '\\': '\\',
  '/': '/',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
}
/** Held with a view at no harm. */
const viewedUnits = 64
const numberPattern = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y

class Reader {
  readonly #text: string
  readonly #depthMax: number
  readonly #isUnkept: boolean
  readonly #isRounded: boolean
  #at = 0

  constructor(text: string, reading: UnkeptReading & { readonly isUnkept?: boolean }) {
    this.#text = text
    this.#depthMax = reading.depthMax ?? jsonDepthMax
    this.#isUnkept = reading.isUnkept ?? false
    this.#isRounded = reading.isRounded ?? false
  }

  whole(): JsonValue {
    const value = this.#value(0)
    this.#blanks()
    if (this.#at < this.#text.length) this.#refuse('there is text after the value')
    return value
  }

  #value(depth: number): JsonValue {
    this.#blanks()
    const first = this.#text[this.#at]
    switch (first) {
      case '{':
        return this.#isUnkept ? this.#unkeptObject(depth + 1) : this.#object(depth + 1)
      case '[':
        return this.#array(depth + 1)
      case '"':
        return this.#string()
      case 't':
        return this.#word('true', true)
      case 'f':
        return this.#word('false', false)
      case 'n':
        return this.#word('null', null)
      case undefined:
        return this.#refuse('the text ends where a value belongs')
      default:
        return this.#number()
    }
  }

  #object(depth: number): JsonObject {
    this.#open(depth)
    const object = Object.create(null) as JsonObject
    if (this.#closes('}')) return object
    do object[this.#key()] = this.#value(depth)
    while (this.#continues('}'))
    return object
  }

  #unkeptObject(depth: number): JsonObject {
    this.#open(depth)
    const fields = new Map<string, JsonValue>()
    if (this.#closes('}')) return unkept(fields)
    do fields.set(this.#key(), this.#value(depth))
    while (this.#continues('}'))
    return unkept(fields)
  }

  #key(): string {
    this.#blanks()
    if (this.#text.charCodeAt(this.#at) !== quote) this.#refuse('a key must be a string')
    const key = this.#string()
    this.#blanks()
    if (this.#text[this.#at] !== ':') this.#refuse('a colon belongs after a key')
    this.#at++
    return key
  }

  #array(depth: number): JsonValue[] {
    this.#open(depth)
    const array: JsonValue[] = []
    if (this.#closes(']')) return array
    do array.push(this.#value(depth))
    while (this.#continues(']'))
    return array
  }

  #open(depth: number): void {
    if (depth > this.#depthMax) this.#refuse(`nested deeper than ${this.#depthMax}`)
    this.#at++
  }

  #closes(bracket: string): boolean {
    this.#blanks()
    if (this.#text[this.#at] !== bracket) return false
    this.#at++
    return true
  }

  #continues(bracket: string): boolean {
    if (this.#closes(bracket)) return false
    if (this.#text[this.#at] !== ',') this.#refuse(`a comma or ${bracket} belongs here`)
    this.#at++
    return true
  }

  #string(): string {
    const start = ++this.#at
    for (let at = start; ; at++) {
      const code = this.#text.charCodeAt(at) // NaN at the end
      if (code === quote) {
        this.#at = at + 1
        return this.#isUnkept ? this.#ownText(start, at) : this.#text.slice(start, at)
      }
      if (code === backslash || !(code >= 0x20)) return this.#escapedString(start, at)
    }
  }

  /** V8 makes a view of what is cut out of a text: whoever holds a session's name would hold all that was said beside it. */
  #ownText(start: number, end: number): string {
    const text = this.#text.slice(start, end)
    return this.#text.length < 2 * text.length + viewedUnits ? text : ` ${text}`.slice(1)
  }

  #escapedString(start: number, firstEscape: number): string {
    let out = this.#text.slice(start, firstEscape)
    this.#at = firstEscape
    for (;;) {
      const code = this.#text.charCodeAt(this.#at)
      if (code === quote) {
        this.#at++
        return out
      }
      if (code === backslash) out += this.#escape()
      else if (code >= 0x20) out += this.#text[this.#at++]
      else this.#refuse(Number.isNaN(code) ? 'a string does not end' : 'a control character must be escaped')
    }
  }

  #escape(): string {
    const letter = this.#text[this.#at + 1] ?? ''
    const simple = simpleEscapes[letter]
    if (simple !== undefined) {
      this.#at += 2
      return simple
    }
    const digits = this.#text.slice(this.#at + 2, this.#at + 6)
    if (letter !== 'u' || !/^[0-9a-fA-F]{4}$/.test(digits)) this.#refuse('an unknown escape')
    this.#at += 6
    return String.fromCharCode(Number.parseInt(digits, 16))
  }

  #number(): number | bigint {
    numberPattern.lastIndex = this.#at
    const match = numberPattern.exec(this.#text)
    if (!match) return this.#refuse('no value begins like this')
    const [literal, fraction, exponent] = match
    if (this.#isRounded) {
      this.#at += literal.length
      return Number(literal)
    }
    if (fraction === undefined && exponent === undefined) {
      if (literal.length > jsonDigitsMax) this.#refuse(`an integer has more than ${jsonDigitsMax} digits`)
      this.#at += literal.length
      return BigInt(literal)
    }
    const number = Number(literal)
    if (!Number.isFinite(number)) this.#refuse('a number is too large')
    this.#at += literal.length
    return number
  }

  #word<T>(word: string, value: T): T {
    if (!this.#text.startsWith(word, this.#at)) this.#refuse('no value begins like this')
    this.#at += word.length
    return value
  }

  #blanks(): void {
    for (;;) {
      const code = this.#text.charCodeAt(this.#at)
      if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return
      this.#at++
    }
  }

  #refuse(reason: string): never {
    throw new WarmrouteError('WR_INVALID_JSON', { reason: `${reason} (at character ${this.#at})`, offset: this.#at })
  }
}

function write(value: JsonInput, depthLeft: number): string {
  if (typeof value === 'bigint') return value.toString()
  if (typeof value === 'number' && !Number.isFinite(value))
    throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: `JSON has no ${value}` })
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  if (depthLeft === 0) throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: 'nested too deeply for JSON' })
  if (isArray(value)) return `[${value.map((it) => write(it, depthLeft - 1)).join(',')}]`
  const members: string[] = []
  for (const [key, member] of Object.entries(value))
    if (member !== undefined) members.push(`${JSON.stringify(key)}:${write(member, depthLeft - 1)}`)
  return `{${members.join(',')}}`
}

function isArray(value: JsonInput): value is readonly JsonInput[] {
  return Array.isArray(value)
}
