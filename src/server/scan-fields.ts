/**
 * Finds the fields of a JSON object in its bytes, without parsing their values. Strict about structure (strings, brackets)
 * and blind to values: used where `JSON.parse` has accepted the bytes, or where the values are the engine's to judge.
 *
 * A long body is walked in steps, so that none can hold the loop (docs/decisions/0157).
 */
import { parseUnkeptJson } from '../core/protocol/index.js'
import type { Steps } from './steps.js'

/** One field of the outermost object, as byte offsets: `name` is decoded, so that escapes cannot hide a field. */
export interface FieldSpan {
  readonly name: string
  /** The opening quote of the key. */
  readonly keyStart: number
  readonly valueStart: number
  /** One past the value. */
  readonly valueEnd: number
}

/** The fields of the outermost object, or undefined when the bytes are no object. */
export function scanFields(body: Uint8Array): readonly FieldSpan[] | undefined {
  const scan = new FieldScan(body)
  scan.walkTo(body.length)
  return scan.fields
}

/** What is longer is read in steps. */
export const longBytes: number = 512 << 10
/** What one of them looks at: half a millisecond, and four where the code has just been loaded. */
export const stepBytes: number = 128 << 10

/** Walks to the end of a body of any length. */
export function* walkInSteps(scan: FieldScan): Steps<void> {
  const { length } = scan.body
  if (length > longBytes)
    for (let end = stepBytes; end < length && !scan.isOver; end += stepBytes) {
      scan.walkTo(end)
      yield
    }
  scan.walkTo(length)
}

const quote = 0x22
const backslash = 0x5c
const comma = 0x2c
const colon = 0x3a
const openBrace = 0x7b
const closeBrace = 0x7d
const openBracket = 0x5b
const closeBracket = 0x5d

/** No request has more; each costs an object and a text. */
export const fieldsMax = 256
export const nameBytesMax = 4096
/** Bytes that are looked at one by one before the closing quote is searched for: at a string's start, since most are short, and behind an escaped quote, since the next is often escaped, too. */
const shortBytes = 32
const slowBytes = 256
const slashesMax = 64

/** What the next byte that is no white space belongs to. */
type Place =
  | 'before the object'
  | 'before the first key'
  | 'before a key'
  | 'in a key'
  | 'before a colon'
  | 'before a value'
  | 'in a text'
  | 'in a word'
  | 'in brackets'
  | 'in a text in brackets'
  | 'behind a value'
  | 'behind the object'

const notJson = 'the body is not JSON'

/** One walk over a body, as far as it is told to go; it goes on from wherever that was. */
export class FieldScan {
  readonly body: Uint8Array
  /** Bytes outside of strings, and strings: what it costs to parse the body goes by their number. */
  marks = 0
  /** Deepest nesting; the outermost object counts. */
  depth = 1
  readonly #fields: FieldSpan[] = []
  #at: number
  #place: Place = 'before the object'
  #problem: string | undefined
  #keyStart = 0
  #valueStart = 0
  #name = ''
  #openCount = 0
  #slowTo = 0

  constructor(body: Uint8Array) {
    this.body = body
    this.#at = skipMark(body)
  }

  /** Undefined before the end is reached, and for what is no object. */
  get fields(): readonly FieldSpan[] | undefined {
    return this.isOver && this.#place === 'behind the object' && this.#problem === undefined ? this.#fields : undefined
  }

  get isOver(): boolean {
    return this.#problem !== undefined || this.#at >= this.body.length
  }

  /** Why there are no fields. */
  get problem(): string {
    return this.#problem ?? notJson
  }

  /** Goes on to this offset, or a little further. */
  walkTo(end: number): void {
    while (this.#at < end && this.#problem === undefined) {
      const place = this.#place
      if (place === 'in brackets') this.#walkBrackets(end)
      else if (place === 'in a word') this.#walkWord(end)
      else if (place === 'in a key' || place === 'in a text' || place === 'in a text in brackets') {
        if (this.#endsString(end)) this.#endString(place)
      } else this.#walkBetween(end)
    }
  }

  /** To the next byte between keys and values, and over it. */
  #walkBetween(end: number): void {
    const { body } = this
    let at = this.#at
    while (at < end && isSpace(body[at]!)) at++
    this.marks += at - this.#at
    this.#at = at
    if (at >= end) return
    const next = this.#placeAfter(body[at]!)
    if (next === undefined) this.#problem = notJson
    else this.#place = next
    this.#at++
    this.marks++
    this.#slowTo = this.#at + shortBytes
  }

  #placeAfter(byte: number): Place | undefined {
    const place = this.#place
    if (place === 'before the object') return byte === openBrace ? 'before the first key' : undefined
    if (place === 'before a colon') return byte === colon ? 'before a value' : undefined
    if (place === 'before a value') return this.#openValue(byte)
    if (byte === closeBrace && (place === 'before the first key' || place === 'behind a value'))
      return 'behind the object'
    if (place === 'behind a value') return byte === comma ? 'before a key' : undefined
    if (place === 'behind the object' || byte !== quote) return undefined
    this.#keyStart = this.#at
    return 'in a key'
  }

  #openValue(byte: number): Place | undefined {
    this.#valueStart = this.#at
    if (byte === quote) return 'in a text'
    if (byte !== openBrace && byte !== openBracket)
      return byte === comma || byte === closeBrace ? undefined : 'in a word'
    this.#openCount = 1
    this.depth = Math.max(this.depth, 2)
    return 'in brackets'
  }

  #endString(place: 'in a key' | 'in a text' | 'in a text in brackets'): void {
    if (place === 'in a key') this.#endKey()
    else if (place === 'in a text') this.#endValue()
    else this.#place = 'in brackets'
  }

  #endKey(): void {
    const isLong = this.#at - this.#keyStart > nameBytesMax
    const name = isLong ? undefined : decodeName(this.body, this.#keyStart, this.#at)
    if (name === undefined) this.#problem = isLong ? `a field's name has more than ${nameBytesMax} bytes` : notJson
    this.#name = name ?? ''
    this.#place = 'before a colon'
  }

  #endValue(): void {
    if (this.#fields.length === fieldsMax) this.#problem = `the body has more than ${fieldsMax} fields`
    const [keyStart, valueStart, valueEnd] = [this.#keyStart, this.#valueStart, this.#at]
    this.#fields.push({ name: this.#name, keyStart, valueStart, valueEnd })
    this.#place = 'behind a value'
  }

  #walkWord(end: number): void {
    const { body } = this
    let at = this.#at
    while (at < end && !isSpace(body[at]!) && body[at] !== comma && body[at] !== closeBrace) at++
    this.marks += at - this.#at
    this.#at = at
    if (at < end) this.#endValue()
  }

  #walkBrackets(end: number): void {
    const { body } = this
    let at = this.#at
    let open = this.#openCount
    let marks = 0
    while (at < end && open > 0) {
      const byte = body[at++]!
      marks++
      if (byte === quote) {
        this.#at = at
        this.#slowTo = at + shortBytes
        const isEnded = this.#endsString(end)
        at = this.#at
        if (isEnded) continue
        this.#place = 'in a text in brackets'
        break
      }
      if (byte === openBrace || byte === openBracket) {
        open++
        if (open >= this.depth) this.depth = open + 1
      } else if (byte === closeBrace || byte === closeBracket) open--
    }
    this.marks += marks
    this.#at = at
    this.#openCount = open
    if (open === 0) this.#endValue()
  }

  /**
   * Whether the string that the walk is in ends before `end`; the walk then stands behind its closing quote. `indexOf` finds quotes much
   * faster than a loop would, and slower where most are escaped.
   */
  #endsString(end: number): boolean {
    const { body } = this
    let at = this.#at // no backslash stands before it that belongs to it
    while (at < end) {
      if (at >= this.#slowTo) {
        const found = quoteFrom(body, at)
        const slashes = slashesBefore(body, found, at)
        if (slashes === slashesMax) this.#slowTo = found
        else if (body[found] !== quote) at = found + (slashes % 2)
        else if (slashes % 2 === 0) {
          this.#at = found + 1
          return true
        } else {
          at = found + 1
          this.#slowTo = at + slowBytes
        }
      }
      for (const to = Math.min(end, this.#slowTo); at < to; at++) {
        if (body[at] === backslash) at++
        else if (body[at] === quote) {
          this.#at = at + 1
          return true
        }
      }
    }
    this.#at = at
    return false
  }
}

const decoder = new TextDecoder('utf-8', { fatal: true })

function decodeName(body: Uint8Array, start: number, end: number): string | undefined {
  try {
    const value = parseUnkeptJson(decoder.decode(body.subarray(start, end)))
    return typeof value === 'string' ? value : undefined
  } catch {
    return undefined
  }
}

/** What a search for a quote goes through at once: less than a millisecond. */
const searchedBytes = 4 << 20

/** Where the next quote stands, or how far there is none. */
function quoteFrom(body: Uint8Array, at: number): number {
  if (body.length - at <= searchedBytes) {
    const found = body.indexOf(quote, at)
    return found < 0 ? body.length : found
  }
  const found = body.subarray(at, at + searchedBytes).indexOf(quote)
  return at + (found < 0 ? searchedBytes : found)
}

/** How many stand right before `at`, looking no further back than `from`, and at no more than `slashesMax`. */
function slashesBefore(body: Uint8Array, at: number, from: number): number {
  let count = 0
  while (count < slashesMax && at - 1 - count >= from && body[at - 1 - count] === backslash) count++
  return count
}

/** Where a body begins: behind a byte order mark, which some clients send and engines accept. */
export function skipMark(body: Uint8Array): number {
  return body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf ? 3 : 0
}

function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09
}
