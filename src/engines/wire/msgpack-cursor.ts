/**
 * Reads MessagePack by walking bytes, without building values. A fault is a state, not an exception: the first one is
 * kept, the position jumps to the end, and every later read answers 0, so a caller checks once per value it relies on.
 * Only what KV events need: no timestamps, no extension payloads beyond skipping them.
 */
import type { DecodeReason } from '../../events/index.js'

/** What the next value is. */
export const shape = { nil: 0, bool: 1, int: 2, float: 3, text: 4, bytes: 5, list: 6, map: 7, ext: 8, none: 9 } as const

const items = { list: 1, map: 2 } as const

export class MsgpackCursor {
  position = 0
  end = 0
  fault: DecodeReason | undefined = undefined
  bytes: Uint8Array = new Uint8Array(0)
  /** Low and high word of the last 64-bit value read. */
  low = 0
  high = 0
  view: DataView = new DataView(new ArrayBuffer(0))

  open(bytes: Uint8Array): void {
    this.bytes = bytes
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    this.position = 0
    this.end = bytes.byteLength
    this.fault = undefined
  }

  fail(reason: DecodeReason): void {
    this.fault ??= reason
    this.position = this.end
  }

  /** Forgets the fault of one event whose extent is known, and goes on behind it. */
  resumeAt(position: number): void {
    this.fault = undefined
    this.position = position
  }

  peek(): number {
    if (this.position >= this.end) return shape.none
    const head = this.bytes[this.position]!
    if (head < 0x80 || head >= 0xe0) return shape.int
    if (head < 0x90) return shape.map
    if (head < 0xa0) return shape.list
    if (head < 0xc0) return shape.text
    return shapeOfHead[head - 0xc0]!
  }

  /** The number of items, or -1 with a fault if the next value is no list. */
  readList(): number {
    return this.#readCount(items.list, 0x90, 0xdc)
  }

  /** The number of pairs, or -1 with a fault if the next value is no map. */
  readMap(): number {
    return this.#readCount(items.map, 0x80, 0xde)
  }

  readNil(): boolean {
    if (this.position >= this.end || this.bytes[this.position] !== 0xc0) return false
    this.position++
    return true
  }

  /** Length of a text or byte string whose first byte is then at `position`; -1 if it is neither. The caller moves on by `position += length`. */
  readRun(): number {
    if (this.position >= this.end) return this.#truncated()
    const head = this.bytes[this.position]!
    let length = -1
    let header = 1
    if (head >= 0xa0 && head < 0xc0) length = head & 0x1f
    else if (head === 0xd9 || head === 0xc4) {
      length = this.#u8(1)
      header = 2
    } else if (head === 0xda || head === 0xc5) {
      length = this.#u16(1)
      header = 3
    } else if (head === 0xdb || head === 0xc6) {
      length = this.#u32(1)
      header = 5
    }
    if (length < 0 || this.fault) return -1
    if (this.position + header + length > this.end) return this.#truncated()
    this.position += header
    return length
  }

  /** Any integer, bit-cast to u64, into `low` and `high`. False (and unmoved) if the next value is no integer. */
  readInt64(): boolean {
    const position = this.position
    if (position >= this.end) return this.#truncated() > 0
    const head = this.bytes[position]!
    if (head < 0x80) return this.#put(head, 0, 1)
    if (head >= 0xe0) return this.#put(head - 0x100, -1, 1)
    switch (head) {
      case 0xcc:
        return this.#put(this.#u8(1), 0, 2)
      case 0xcd:
        return this.#put(this.#u16(1), 0, 3)
      case 0xce:
        return this.#put(this.#u32(1), 0, 5)
      case 0xd0: {
        const value = (this.#u8(1) << 24) >> 24
        return this.#put(value, value >> 31, 2)
      }
      case 0xd1: {
        const value = (this.#u16(1) << 16) >> 16
        return this.#put(value, value >> 31, 3)
      }
      case 0xd2: {
        const value = this.#u32(1) | 0
        return this.#put(value, value >> 31, 5)
      }
      case 0xcf:
      case 0xd3:
        if (position + 9 > this.end) return this.#truncated() > 0
        return this.#put(this.view.getUint32(position + 5), this.view.getUint32(position + 1), 9)
      default:
        return false
    }
  }

  /** An unsigned integer below 2^32, or -1 (and unmoved) if the next value is anything else. */
  readU32(): number {
    const head = this.position < this.end ? this.bytes[this.position]! : 0xc1
    if (head < 0x80) {
      this.position++
      return head
    }
    const before = this.position
    const isUnsigned = head === 0xcc || head === 0xcd || head === 0xce || head === 0xcf
    if ((isUnsigned || (head >= 0xd0 && head <= 0xd3)) && this.readInt64() && this.high === 0) return this.low
    if (!this.fault) this.position = before
    return -1
  }

  /** A float or an integer as a double; NaN (and unmoved) if the next value is neither. */
  readNumber(): number {
    const position = this.position
    if (position >= this.end) return Number.NaN
    const head = this.bytes[position]!
    if (head === 0xcb || head === 0xca) {
      const size = head === 0xcb ? 9 : 5
      if (position + size > this.end) {
        this.fail('truncated')
        return Number.NaN
      }
      this.position += size
      return head === 0xcb ? this.view.getFloat64(position + 1) : this.view.getFloat32(position + 1)
    }
    if (!this.readInt64()) return Number.NaN
    const isNegative = this.high >= 0x8000_0000 && head !== 0xcf
    return (isNegative ? this.high - 2 ** 32 : this.high) * 2 ** 32 + this.low
  }

  /** Steps over one value of any shape. Counts what is owed instead of recursing: depth costs nothing, size is bounded by the bytes. */
  skip(): void {
    let owed = 1
    while (owed > 0) {
      owed--
      if (this.position >= this.end) return this.fail('truncated')
      const head = this.bytes[this.position]!
      if (head < 0x80 || head >= 0xe0) this.position++
      else if (head < 0x90) owed += 2 * this.readMap()
      else if (head < 0xa0) owed += this.readList()
      else if (head < 0xc0) this.position += 1 + (head & 0x1f)
      else if (head === 0xdc || head === 0xdd) owed += this.readList()
      else if (head === 0xde || head === 0xdf) owed += 2 * this.readMap()
      else if ((head >= 0xc4 && head <= 0xc6) || (head >= 0xd9 && head <= 0xdb)) {
        const length = this.readRun()
        this.position += length
      } else this.position += this.#scalarSize(head)
      if (this.fault) return
      // Every owed value needs a byte: more than is left can never be paid, and stopping here bounds the loop.
      if (owed > this.end - this.position || this.position > this.end) return this.fail('truncated')
    }
  }

  #scalarSize(head: number): number {
    if (head === 0xc1) {
      this.fail('bad_event')
      return 0
    }
    if (head === 0xc7) return 3 + this.#u8(1)
    if (head === 0xc8) return 4 + this.#u16(1)
    if (head === 0xc9) return 6 + this.#u32(1)
    return sizeOfHead[head - 0xc0]!
  }

  #readCount(kind: number, fixed: number, wide: number): number {
    const position = this.position
    if (position >= this.end) return this.#truncated()
    const head = this.bytes[position]!
    let count = -1
    if (head >= fixed && head < fixed + 16) {
      count = head & 0x0f
      this.position = position + 1
    } else if (head === wide) {
      count = this.#u16(1)
      this.position += 3
    } else if (head === wide + 1) {
      count = this.#u32(1)
      this.position += 5
    }
    if (this.fault) return -1
    if (count < 0) {
      this.fail('bad_event')
      return -1
    }
    // An item is at least one byte: a larger count is a lie, and believing it would reserve memory for it.
    if (kind * count > this.end - this.position) return this.#truncated()
    return count
  }

  #u8(offset: number): number {
    return this.position + offset + 1 > this.end ? this.#truncated() : this.bytes[this.position + offset]!
  }

  #u16(offset: number): number {
    return this.position + offset + 2 > this.end ? this.#truncated() : this.view.getUint16(this.position + offset)
  }

  #u32(offset: number): number {
    return this.position + offset + 4 > this.end ? this.#truncated() : this.view.getUint32(this.position + offset)
  }

  #put(low: number, high: number, size: number): boolean {
    if (this.fault) return false
    this.low = low >>> 0
    this.high = high >>> 0
    this.position += size
    return true
  }

  #truncated(): number {
    this.fail('truncated')
    return -1
  }
}

// biome-ignore format: two rows of sixteen heads, 0xc0 ... 0xdf
const shapeOfHead = Uint8Array.of(
  shape.nil, shape.none, shape.bool, shape.bool, shape.bytes, shape.bytes, shape.bytes, shape.ext, shape.ext, shape.ext, shape.float, shape.float, shape.int, shape.int, shape.int, shape.int,
  shape.int, shape.int, shape.int, shape.int, shape.ext, shape.ext, shape.ext, shape.ext, shape.ext, shape.text, shape.text, shape.text, shape.list, shape.list, shape.map, shape.map,
)

// biome-ignore format: two rows of sixteen heads, 0xc0 ... 0xdf; 0 where the size is in the value
const sizeOfHead = Uint8Array.of(
  1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 5, 9, 2, 3, 5, 9,
  2, 3, 5, 9, 3, 4, 6, 10, 18, 0, 0, 0, 0, 0, 0, 0,
)
