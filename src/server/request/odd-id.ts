/**
 * Looks in the bytes of a field for what an engine would take for a token id and the model does not have. `[1,2]` and `[[1],[2]]` are ids;
 * `["a"]` are texts, where such may stand, and pass. Engines read `"7"` and `true` as numbers where only a number makes sense: so whatever
 * stands beside an id, or in a list of lists, has to be one. What is wrong otherwise is the engine's to refuse.
 */
import type { FieldSpan } from '../scan-fields.js'
import { stepBytes } from '../scan-fields.js'
import type { Steps } from '../steps.js'

export interface IdRules {
  /** Texts may stand here in place of ids. */
  readonly mayBeText: boolean
  /** Objects may, and no texts: a list of them holds ids, however they are written. */
  readonly mayBeObject?: boolean | undefined
  /** A list in the list may be empty. */
  readonly mayBeEmpty?: boolean
  readonly idMax: number
}

/** The first such item, in words that may be shown: never a text of the client's. Of bytes that are JSON. */
export function* oddIdIn(
  bytes: Uint8Array,
  { valueStart, valueEnd }: Pick<FieldSpan, 'valueStart' | 'valueEnd'>,
  rules: IdRules,
): Steps<string | undefined> {
  if (bytes[valueStart] !== openBracket) return undefined
  const walk = new IdWalk(bytes, valueStart + 1, valueEnd, rules)
  walk.step()
  while (!walk.isOver) {
    yield
    walk.step()
  }
  return walk.odd
}

const quote = 0x22
const comma = 0x2c
const openBracket = 0x5b
const backslash = 0x5c
const closeBracket = 0x5d
const openBrace = 0x7b
const zero = 0x30
const nine = 0x39
/** No id is written longer than this. */
const wordBytesMax = 32
/** What is not written as ids usually are takes a hundred times longer to read: so many in one step. */
const wordsMax = 1000
/** As much of a text is looked at to see that it can be no number. */
const textBytesMax = 64

class IdWalk {
  odd: string | undefined
  readonly #bytes: Uint8Array
  readonly #end: number
  readonly #rules: IdRules
  #at: number
  /** 1 in the list itself, 2 in a list of it. */
  #depth = 1
  /** Of the list in the list. */
  #isEmpty = false
  #isInText = false
  /** Of the list itself. */
  #hasTexts = false
  #hasIds = false
  #isDone = false
  #wordsLeft = 0

  constructor(bytes: Uint8Array, start: number, end: number, rules: IdRules) {
    this.#bytes = bytes
    this.#at = start
    this.#end = end
    this.#rules = rules
  }

  get isOver(): boolean {
    return this.#isDone || this.#at >= this.#end
  }

  /** Less than a millisecond. */
  step(): void {
    const bytes = this.#bytes
    const to = Math.min(this.#end, this.#at + stepBytes)
    this.#wordsLeft = wordsMax
    while (this.#at < to && !this.#isDone && this.#wordsLeft > 0) {
      const byte = bytes[this.#at]!
      if (this.#isInText) this.#inText(byte)
      else if (byte >= zero && byte <= nine) this.#readId()
      else if (byte <= 0x20 || byte === comma) this.#at++
      else if (byte === quote) this.#openText()
      else if (byte === openBrace) this.#openObject()
      else if (byte === openBracket) this.#openList()
      else if (byte === closeBracket) this.#closeList()
      else this.#readWord()
    }
  }

  #inText(byte: number): void {
    if (byte === backslash) this.#at++
    else if (byte === quote) this.#isInText = false
    this.#at++
  }

  #openText(): void {
    if (!this.#mayHoldText()) this.#refuse('a text')
    else if (!mayBeNumber(this.#bytes, this.#at + 1)) this.#isDone = true // and so the engine takes none of them for ids
    this.#hasTexts = true
    this.#isInText = true
    this.#at++
  }

  #openObject(): void {
    if (this.#mayHoldObject()) this.#isDone = true
    else this.#refuse('an object')
  }

  #openList(): void {
    if (this.#depth === 1) {
      this.#depth = 2
      this.#isEmpty = true
      this.#at++
    } else this.#refuse('a list')
  }

  /** A list of no ids at all is refused by the engine; one of a batch ends it. */
  #closeList(): void {
    if (this.#depth === 2 && this.#isEmpty && this.#rules.mayBeEmpty !== true) this.#refuse('an empty list')
    this.#depth--
    this.#at++
  }

  #mayHoldText(): boolean {
    return this.#rules.mayBeText && this.#depth === 1 && !this.#hasIds
  }

  #mayHoldObject(): boolean {
    const { mayBeText, mayBeObject = mayBeText } = this.#rules
    return mayBeObject && this.#depth === 1 && !this.#hasIds
  }

  #readId(): void {
    const bytes = this.#bytes
    const start = this.#at
    let at = start
    let id = 0
    while (bytes[at]! >= zero && bytes[at]! <= nine && at - start < wordBytesMax) id = id * 10 + bytes[at++]! - zero
    const next = bytes[at]
    if (next !== comma && next !== closeBracket && next! > 0x20) return this.#readWord()
    this.#add(id, start, at)
  }

  /** `-1`, `1.0`, `true`, `NaN`. */
  #readWord(): void {
    const bytes = this.#bytes
    const start = this.#at
    let at = start
    this.#wordsLeft--
    while (at < this.#end && at - start <= wordBytesMax && isOfWord(bytes[at]!)) at++
    const text = textOf(bytes, start, at)
    const isNumber = at - start <= wordBytesMax && /^-?[0-9]/.test(text)
    this.#add(isNumber ? Number(text) : Number.NaN, start, Math.max(at, start + 1))
  }

  #add(id: number, start: number, end: number): void {
    if (this.#hasTexts && this.#depth === 1) return this.#refuse('a text')
    if (this.#depth === 1) this.#hasIds = true
    this.#isEmpty = false
    this.#at = end
    if (!(Number.isInteger(id) && id >= 0 && id <= this.#rules.idMax)) this.#refuse(textOf(this.#bytes, start, end))
  }

  #refuse(odd: string): void {
    this.odd = odd
    this.#isDone = true
  }
}

function isOfWord(byte: number): boolean {
  return byte > 0x20 && byte !== comma && byte !== closeBracket && byte !== openBracket && byte !== quote
}

/** By its beginning. An escape may stand for a digit, and what is no ASCII for a blank. */
function mayBeNumber(bytes: Uint8Array, start: number): boolean {
  for (let at = start; at < start + textBytesMax; at++) {
    const byte = bytes[at]!
    if (byte === quote || byte === backslash) return true
    if (byte < 0x80 && !numberBytes.has(byte)) return false
  }
  return true
}

const numberBytes: ReadonlySet<number> = new Set(Buffer.from(' 0123456789.+-_eE'))

function textOf(bytes: Uint8Array, start: number, end: number): string {
  return new TextDecoder().decode(bytes.subarray(start, end))
}
