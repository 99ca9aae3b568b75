/**
 * Would `JSON.parse` take these bytes? Answered in steps, and without making anything of them: parsing takes 10 to 90 ms a megabyte. Upstream
 * mends control characters inside of strings (`forgive-body.ts`), so that these are told apart from everything else that is wrong.
 */
import { longBytes, skipMark, stepBytes } from '../scan-fields.js'
import type { Steps } from '../steps.js'

export type JsonVerdict = 'json' | 'control characters' | 'not json'

/** What is nested deeper than `depthMax` is none. The bytes are UTF-8. */
export function* checkJson(bytes: Uint8Array, depthMax: number): Steps<JsonVerdict> {
  const check = new JsonCheck(bytes, depthMax)
  for (;;) {
    check.walkStep()
    if (check.isOver) return check.verdict
    yield
  }
}

const quote = 0x22
const backslash = 0x5c
const comma = 0x2c
const colon = 0x3a
const openBrace = 0x7b
const closeBrace = 0x7d
const openBracket = 0x5b
const closeBracket = 0x5d

/** What may come next. */
type Place =
  | 'value'
  | 'first item' // a value or `]`
  | 'first key' // a key or `}`
  | 'key'
  | 'colon'
  | 'behind a value'
  | 'text'
  | 'key text'

/** Bytes and words outside of texts in one step: 3 ms of the dearest words. */
export const stepMarks = 8192
/** A number that is written longer is taken for none: nobody has a reason to. No body that is parsed as a whole has one. */
const wordBytesMax = 32 * 1024
const numberOrWord = /^(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null)$/
const escapes = new Set(Buffer.from('"\\/bfnrtu'))

class JsonCheck {
  readonly #bytes: Uint8Array
  /** By depth, whether an object is open; false for a list. */
  readonly #isObject: Uint8Array
  #depth = 0
  #isWrong = false
  #hasControls = false
  #place: Place = 'value'
  #at: number

  constructor(bytes: Uint8Array, depthMax: number) {
    this.#bytes = bytes
    this.#at = skipMark(bytes)
    this.#isObject = new Uint8Array(depthMax + 1)
  }

  get verdict(): JsonVerdict {
    if (this.#isWrong || this.#depth > 0 || this.#place !== 'behind a value') return 'not json'
    return this.#hasControls ? 'control characters' : 'json'
  }

  get isOver(): boolean {
    return this.#isWrong || this.#at >= this.#bytes.length
  }

  walkStep(): void {
    const bytes = this.#bytes
    const end = bytes.length > longBytes ? Math.min(bytes.length, this.#at + stepBytes) : bytes.length
    let marks = 0
    while (this.#at < end && marks < stepMarks && !this.#isWrong) {
      if (this.#place === 'text' || this.#place === 'key text') {
        this.#walkText(end)
        continue
      }
      const byte = bytes[this.#at]!
      if (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) this.#at++
      else {
        this.#take(byte)
        marks++
      }
    }
  }

  #take(byte: number): void {
    const place = this.#place
    this.#at++
    if (place === 'behind a value') this.#goOn(byte)
    else if (place === 'colon') this.#become(byte === colon, 'value')
    else if (place === 'key' || place === 'first key') {
      if (byte === closeBrace && place === 'first key') this.#close()
      else this.#become(byte === quote, 'key text')
    } else if (byte === closeBracket && place === 'first item') this.#close()
    else this.#openValue(byte)
  }

  #openValue(byte: number): void {
    if (byte === quote) this.#place = 'text'
    else if (byte === openBrace || byte === openBracket) {
      this.#depth++
      this.#isWrong = this.#depth >= this.#isObject.length
      this.#isObject[this.#depth] = byte === openBrace ? 1 : 0
      this.#place = byte === openBrace ? 'first key' : 'first item'
    } else this.#walkWord()
  }

  /** Behind a value there is another one, or the end of what holds it. */
  #goOn(byte: number): void {
    if (this.#depth === 0) this.#isWrong = true
    else if (this.#isObject[this.#depth] === 1) {
      if (byte === closeBrace) this.#close()
      else this.#become(byte === comma, 'key')
    } else if (byte === closeBracket) this.#close()
    else this.#become(byte === comma, 'value')
  }

  #close(): void {
    this.#depth--
    this.#place = 'behind a value'
  }

  #become(isRight: boolean, place: Place): void {
    this.#isWrong = !isRight
    this.#place = place
  }

  #walkWord(): void {
    const bytes = this.#bytes
    const start = this.#at - 1
    const end = Math.min(bytes.length, start + wordBytesMax)
    let at = start
    while (at < end && isDigit(bytes[at]!)) at++
    const isPlain = at > start && (bytes[start] !== 0x30 || at === start + 1) && (at === end || !isOfWord(bytes[at]!))
    while (at < end && isOfWord(bytes[at]!)) at++
    this.#at = Math.max(at, this.#at)
    this.#become(isPlain || numberOrWord.test(String.fromCharCode(...bytes.subarray(start, at))), 'behind a value')
  }

  #walkText(end: number): void {
    const bytes = this.#bytes
    let at = this.#at
    while (at < end) {
      const byte = bytes[at++]!
      if (byte === quote) {
        this.#place = this.#place === 'key text' ? 'colon' : 'behind a value'
        break
      }
      if (byte === backslash) {
        if (!escapes.has(bytes[at]!) || (bytes[at] === 0x75 && !hasHex(bytes, at + 1))) this.#isWrong = true
        at++
      } else if (byte < 0x20) this.#hasControls = true
    }
    this.#at = at
  }
}

function isDigit(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39
}

function isOfWord(byte: number): boolean {
  return byte > 0x20 && byte !== comma && byte !== closeBrace && byte !== closeBracket && byte < 0x7f
}

function hasHex(bytes: Uint8Array, at: number): boolean {
  for (let index = at; index < at + 4; index++) {
    const low = bytes[index]! | 0x20
    if (!((low >= 0x30 && low <= 0x39 && bytes[index]! < 0x40) || (low >= 0x61 && low <= 0x66))) return false
  }
  return true
}
