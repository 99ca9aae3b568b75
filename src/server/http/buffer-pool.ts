/**
 * Memory for long bodies, used again: a prompt of 220 KB otherwise costs the pages of two new buffers per request, and
 * the collector counts every one of them. Whoever lends a buffer gives it back when nobody reads it any more; one that is
 * never given back is simply collected.
 */

/** Shorter ones are cheap to make, longer ones too dear to keep. */
export const pooledBytesMin = 32 * 1024
const pooledBytesMax = 1024 * 1024
const keptBytesMax = 16 * 1024 * 1024

export class BufferPool {
  /** By power of two. */
  readonly #free = new Map<number, ArrayBuffer[]>()
  readonly #lent = new WeakSet<ArrayBuffer>()
  #keptBytes = 0

  /** Memory that is kept for the next one. */
  get keptBytes(): number {
    return this.#keptBytes
  }

  /** A buffer of exactly this length, its contents undefined. Begins where words of any size may begin. */
  take(bytes: number): Buffer {
    if (bytes < pooledBytesMin || bytes > pooledBytesMax) return Buffer.allocUnsafeSlow(bytes)
    const size = 2 ** Math.ceil(Math.log2(bytes))
    let memory = this.#free.get(size)?.pop()
    if (memory) this.#keptBytes -= size
    else memory = Buffer.allocUnsafeSlow(size).buffer as ArrayBuffer
    this.#lent.add(memory)
    return Buffer.from(memory, 0, bytes)
  }

  /** Anything may be given; what was not lent here, or came back before, is left alone. */
  give(buffer: ArrayBufferView): void {
    const memory = buffer.buffer as ArrayBuffer
    if (!this.#lent.delete(memory)) return
    const size = memory.byteLength
    if (this.#keptBytes + size > keptBytesMax) return
    this.#keptBytes += size
    const free = this.#free.get(size)
    if (free) free.push(memory)
    else this.#free.set(size, [memory])
  }
}
