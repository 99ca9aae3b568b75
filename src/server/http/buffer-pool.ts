/**
 * Memory for long bodies, used again: a prompt of 220 KB otherwise costs the pages of two new buffers per request, and
 * the collector counts every one of them. Whoever lends a buffer gives it back when nobody reads it any more; one that is
 * never given back is simply collected.
 *
 * A body of many megabytes makes V8 collect whenever memory is taken for it (docs/decisions/0230). Of that size a few are kept, for as long as
 * there are such bodies.
 */

/** Shorter ones are cheap to make. */
export const pooledBytesMin = 32 * 1024
/** Longer ones are kept for a while only. */
export const shortBytesMax: number = 1024 * 1024
const keptBytesMax = 16 * 1024 * 1024

/** Two of the longest that there are by default. */
const keptLongBytesMax = 96 * 1024 * 1024
const keptLongMs = 10_000
const longStep = 1024 * 1024

export class BufferPool {
  /** By power of two. */
  readonly #free = new Map<number, ArrayBuffer[]>()
  readonly #lent = new WeakSet<ArrayBuffer>()
  #keptBytes = 0
  /** The shortest first. */
  readonly #freeLong: ArrayBuffer[] = []
  #keptLongBytes = 0
  #forget: NodeJS.Timeout | undefined
  #isClosed = false

  /** Memory that is kept for the next one. */
  get keptBytes(): number {
    return this.#keptBytes + this.#keptLongBytes
  }

  /** A buffer of exactly this length, its contents undefined. Begins where words of any size may begin. */
  take(bytes: number): Buffer {
    if (bytes < pooledBytesMin) return Buffer.allocUnsafeSlow(bytes)
    const memory = bytes > shortBytesMax ? this.#takeLong(bytes) : this.#takeShort(bytes)
    this.#lent.add(memory)
    return Buffer.from(memory, 0, bytes)
  }

  /** Anything may be given; what was not lent here, or came back before, is left alone. */
  give(buffer: ArrayBufferView): void {
    const memory = buffer.buffer as ArrayBuffer
    if (!this.#lent.delete(memory)) return
    if (memory.byteLength > shortBytesMax) this.#keepLong(memory)
    else this.#keepShort(memory)
  }

  /** Nothing long is kept any more. */
  close(): void {
    this.#isClosed = true
    clearTimeout(this.#forget)
    this.#forgetLong()
  }

  #takeShort(bytes: number): ArrayBuffer {
    const size = 2 ** Math.ceil(Math.log2(bytes))
    const memory = this.#free.get(size)?.pop()
    if (!memory) return newMemory(size)
    this.#keptBytes -= size
    return memory
  }

  #keepShort(memory: ArrayBuffer): void {
    const size = memory.byteLength
    if (this.#keptBytes + size > keptBytesMax) return
    this.#keptBytes += size
    const free = this.#free.get(size)
    if (free) free.push(memory)
    else this.#free.set(size, [memory])
  }

  #takeLong(bytes: number): ArrayBuffer {
    this.#forget?.refresh()
    const at = this.#freeLong.findIndex(({ byteLength }) => byteLength >= bytes)
    if (at < 0) return newMemory(Math.ceil(bytes / longStep) * longStep)
    const [memory] = this.#freeLong.splice(at, 1) as [ArrayBuffer]
    this.#keptLongBytes -= memory.byteLength
    return memory
  }

  /** Longer ones are kept in place of shorter ones: they can be lent for either. */
  #keepLong(memory: ArrayBuffer): void {
    if (this.#isClosed) return
    const free = this.#freeLong
    free.push(memory)
    free.sort((one, other) => one.byteLength - other.byteLength)
    this.#keptLongBytes += memory.byteLength
    while (this.#keptLongBytes > keptLongBytesMax) this.#keptLongBytes -= free.shift()!.byteLength
    this.#forget ??= setTimeout(() => this.#forgetLong(), keptLongMs).unref()
    this.#forget.refresh()
  }

  /** To the collector, which frees memory in a thread of its own: here it would hold the loop for 4 to 8 ms. */
  #forgetLong(): void {
    this.#freeLong.length = 0
    this.#keptLongBytes = 0
    this.#forget = undefined
  }
}

function newMemory(bytes: number): ArrayBuffer {
  return Buffer.allocUnsafeSlow(bytes).buffer as ArrayBuffer
}
