/** Bytes in, bytes out: the few kinds of values that a replay log is made of. Little-endian; counts are LEB128. */
import type { HashColumn } from '../protocol/index.js'
import { newHashColumn, WarmrouteError } from '../protocol/index.js'

const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

export class ByteWriter {
  #bytes = new Uint8Array(4096)
  #view = new DataView(this.#bytes.buffer)
  #length = 0

  get length(): number {
    return this.#length
  }

  /** What was written since the last call. */
  take(): Uint8Array {
    const taken = this.#bytes.slice(0, this.#length)
    this.#length = 0
    return taken
  }

  /** Forgets what was written after `length`. */
  rewind(length: number): void {
    this.#length = length
  }

  byte(value: number): void {
    this.#reserve(1)
    this.#bytes[this.#length++] = value
  }

  /** Throws `WR_INVALID_ARGUMENT` for what is no count. */
  count(value: number): void {
    if (!(Number.isSafeInteger(value) && value >= 0)) throw unwritable(`${value} is no count`)
    this.#reserve(8)
    let rest = value
    while (rest >= 0x80) {
      this.#bytes[this.#length++] = (rest % 0x80) | 0x80
      rest = Math.floor(rest / 0x80)
    }
    this.#bytes[this.#length++] = rest
  }

  /** Any number; counts, which most are, stay short. */
  number(value: number): void {
    const isCount = Number.isSafeInteger(value + 1) && value >= 0 && !Object.is(value, -0)
    this.count(isCount ? value + 1 : 0)
    if (!isCount) this.float(value)
  }

  float(value: number): void {
    this.#reserve(8)
    this.#view.setFloat64(this.#length, value, true)
    this.#length += 8
  }

  /** Throws `WR_INVALID_ARGUMENT` for what is no unsigned 64-bit number. */
  u64(value: bigint): void {
    if (value !== BigInt.asUintN(64, value)) throw unwritable(`${value} has no 64 bits`)
    this.#reserve(8)
    this.#view.setBigUint64(this.#length, value, true)
    this.#length += 8
  }

  text(value: string): void {
    const bytes = encoder.encode(value)
    this.count(bytes.length)
    this.#append(bytes)
  }

  hashes(column: HashColumn, count: number): void {
    this.count(count)
    this.#append(new Uint8Array(column.buffer, column.byteOffset, 8 * count))
  }

  words(words: Uint32Array, count: number): void {
    this.count(count)
    this.#append(new Uint8Array(words.buffer, words.byteOffset, 4 * count))
  }

  #append(bytes: Uint8Array): void {
    this.#reserve(bytes.length)
    this.#bytes.set(bytes, this.#length)
    this.#length += bytes.length
  }

  #reserve(extra: number): void {
    if (this.#length + extra <= this.#bytes.length) return
    const grown = new Uint8Array(Math.max(2 * this.#bytes.length, this.#length + extra))
    grown.set(this.#bytes.subarray(0, this.#length))
    this.#bytes = grown
    this.#view = new DataView(grown.buffer)
  }
}

/** Throws `WR_INVALID_LOG` at the first byte that is not there or makes no sense. */
export class ByteReader {
  readonly #bytes: Uint8Array
  readonly #view: DataView
  #at = 0

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length
  }

  byte(): number {
    return this.#bytes[this.#advance(1)]!
  }

  count(): number {
    let value = 0
    let scale = 1
    for (;;) {
      const byte = this.byte()
      value += (byte & 0x7f) * scale
      if (byte < 0x80) break
      scale *= 0x80
    }
    if (!Number.isSafeInteger(value)) throw damaged(this.#at, 'a count is too large')
    return value
  }

  number(): number {
    const count = this.count()
    return count === 0 ? this.float() : count - 1
  }

  float(): number {
    return this.#view.getFloat64(this.#advance(8), true)
  }

  u64(): bigint {
    return this.#view.getBigUint64(this.#advance(8), true)
  }

  text(): string {
    const length = this.count()
    const from = this.#advance(length)
    try {
      return decoder.decode(this.#bytes.subarray(from, from + length))
    } catch (cause) {
      throw damaged(from, 'a text is not UTF-8', cause)
    }
  }

  hashes(): HashColumn {
    const count = this.count()
    const from = this.#advance(8 * count)
    const column = newHashColumn(count)
    new Uint8Array(column.buffer).set(this.#bytes.subarray(from, from + 8 * count))
    return column
  }

  words(): Uint32Array {
    const count = this.count()
    const from = this.#advance(4 * count)
    const words = new Uint32Array(count)
    new Uint8Array(words.buffer).set(this.#bytes.subarray(from, from + 4 * count))
    return words
  }

  /** The bytes that `read` went over. */
  span(read: () => void): Uint8Array {
    const from = this.#at
    read()
    return this.#bytes.subarray(from, this.#at)
  }

  #advance(length: number): number {
    const from = this.#at
    if (length > this.#bytes.length - from) throw damaged(from, 'it ends too early')
    this.#at = from + length
    return from
  }
}

function unwritable(reason: string): WarmrouteError {
  return new WarmrouteError('WR_INVALID_ARGUMENT', { reason })
}

function damaged(offset: number, reason: string, cause?: unknown): WarmrouteError {
  return new WarmrouteError('WR_INVALID_LOG', { reason, offset }, { cause })
}
