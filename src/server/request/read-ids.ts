/**
 * Token ids out of a body's bytes, in steps: `JSON.parse` takes 30 ms for a million of them, and makes a list of eight megabytes that is
 * then copied. What it would refuse is refused, and what it would take is taken.
 */
import { unwritten } from '../../tokens/index.js'
import { longBytes, stepBytes } from '../scan-fields.js'
import type { Steps } from '../steps.js'

/** More than any model takes; hashing and booking more would hold the loop. */
export const idsMax: number = 2 << 20
/** Prompts of a batch. */
export const listsMax = 4096
/** No id is written longer than this. */
const digitsMax = 32
/** What is not written as ids usually are, such as `1.0`, takes a hundred times longer to read: so many in one step. */
const oddMax = 1000

/** `[1,2]`, or `[[1],[2]]`, views of one memory; undefined where one is no unsigned 32-bit integer, or there are too many. */
export type CarriedIds = Uint32Array | readonly Uint32Array[]

export function* readIds(bytes: Uint8Array, start: number, end: number): Steps<CarriedIds | undefined> {
  const reader = new IdReader(bytes, start, end)
  const size = end - start > longBytes ? stepBytes : end - start
  reader.read(size)
  while (!reader.isOver) {
    yield
    reader.read(size)
  }
  return reader.result()
}

const comma = 0x2c
const openBracket = 0x5b
const closeBracket = 0x5d
const zero = 0x30
const nine = 0x39

class IdReader {
  readonly #bytes: Uint8Array
  readonly #end: number
  readonly #lists: Uint32Array[] = []
  /** Of all lists. As many as there can be: what nothing is written to costs nothing, and none is ever copied. */
  readonly #ids: Uint32Array
  #count = 0
  /** Ids of the lists before this one. */
  #earlier = 0
  #at: number
  #depth = 0
  #isBatch = false
  #isItemNext = true
  #isWrong = false
  #oddLeft = 0

  constructor(bytes: Uint8Array, start: number, end: number) {
    this.#bytes = bytes
    this.#at = start
    this.#end = end
    this.#ids = new Uint32Array(unwritten(4 * Math.min(idsMax, (end - start) >> 1)))
  }

  get isOver(): boolean {
    return this.#isWrong || this.#at >= this.#end
  }

  result(): CarriedIds | undefined {
    if (this.#isWrong || this.#depth > 0) return undefined
    return this.#isBatch ? this.#lists : this.#lists[0]
  }

  /** So many bytes more, or a little less where they take long. */
  read(size: number): void {
    const bytes = this.#bytes
    const to = Math.min(this.#end, this.#at + size)
    this.#oddLeft = oddMax
    while (this.#at < to && !this.#isWrong && this.#oddLeft > 0) {
      const byte = bytes[this.#at]!
      if (byte >= zero && byte <= nine) this.#readId()
      else if (byte === comma) {
        this.#isWrong = this.#isItemNext
        this.#isItemNext = true
        this.#at++
      } else if (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) this.#at++
      else if (byte === openBracket) this.#open()
      else if (byte === closeBracket) this.#close()
      else this.#readOdd(this.#at)
    }
  }

  #open(): void {
    // `[[` begins a batch, and in a batch every item is a list.
    const mayOpen = this.#isItemNext && (this.#depth === 0 || (this.#depth === 1 && this.#count === this.#earlier))
    if (this.#depth === 1 && this.#lists.length === 0) this.#isBatch = true
    this.#isWrong = !mayOpen || (this.#depth === 1 && !this.#isBatch) || this.#lists.length === listsMax
    this.#depth++
    this.#at++
  }

  /** No list is empty: an engine refuses a prompt without tokens. */
  #close(): void {
    const isInner = this.#depth === (this.#isBatch ? 2 : 1)
    this.#isWrong = this.#isItemNext || this.#depth === 0 || (isInner && this.#count === this.#earlier)
    if (isInner) {
      this.#lists.push(this.#ids.subarray(this.#earlier, this.#count))
      this.#earlier = this.#count
    }
    this.#isItemNext = false
    this.#depth--
    this.#at++
  }

  #readId(): void {
    const bytes = this.#bytes
    const start = this.#at
    let at = start
    let id = 0
    while (bytes[at]! >= zero && bytes[at]! <= nine && at - start < digitsMax) id = id * 10 + bytes[at++]! - zero
    const next = bytes[at]
    const isPlain = next === comma || next === closeBracket || next === 0x20
    if (!isPlain || (bytes[start] === zero && at > start + 1)) this.#readOdd(start)
    else this.#add(id, at)
  }

  /** `1.0` and `1e3` are integers, too, for whoever reads JSON as Python or JavaScript do. */
  #readOdd(start: number): void {
    const bytes = this.#bytes
    let at = start
    this.#oddLeft--
    while (at < this.#end && at - start <= digitsMax && isOfNumber(bytes[at]!)) at++
    this.#add(numberIn(bytes, start, at), at)
  }

  #add(id: number, at: number): void {
    const isRoom = this.#count < idsMax && this.#depth === (this.#isBatch ? 2 : 1)
    this.#isWrong = !this.#isItemNext || !isRoom || !Number.isInteger(id) || id < 0 || id > 0xffff_ffff
    if (this.#isWrong) return
    this.#ids[this.#count++] = id
    this.#isItemNext = false
    this.#at = at
  }
}

function isOfNumber(byte: number): boolean {
  return (
    (byte >= zero && byte <= nine) || byte === 0x2b || byte === 0x2d || byte === 0x2e || byte === 0x45 || byte === 0x65
  )
}

function numberIn(bytes: Uint8Array, start: number, end: number): number {
  try {
    return JSON.parse(new TextDecoder().decode(bytes.subarray(start, end))) as number
  } catch {
    return Number.NaN
  }
}
