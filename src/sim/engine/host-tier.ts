/** The second level of a rank's cache: blocks that left the GPU and can be loaded back. Least recently used goes first. */

export interface HostTierListener {
  hostStored(key: number, slot: number): void
  hostRemoved(key: number): void
}

export class HostTier {
  readonly blocks: number
  readonly #listener: HostTierListener
  readonly #keys = new Set<number>() // insertion order is age: a touched key is inserted anew

  constructor(blocks: number, listener: HostTierListener) {
    this.blocks = blocks
    this.#listener = listener
  }

  get size(): number {
    return this.#keys.size
  }

  has(key: number): boolean {
    return this.#keys.has(key)
  }

  touch(key: number): void {
    if (this.#keys.delete(key)) this.#keys.add(key)
  }

  /** Called with a block that the GPU is about to lose; `slot` is where it lies until then. */
  put(key: number, slot: number): void {
    if (this.blocks === 0) return
    if (this.#keys.has(key)) return this.touch(key)
    if (this.#keys.size === this.blocks) {
      const [oldest] = this.#keys
      this.#keys.delete(oldest!)
      this.#listener.hostRemoved(oldest!)
    }
    this.#keys.add(key)
    this.#listener.hostStored(key, slot)
  }

  clear(): void {
    this.#keys.clear()
  }
}
