/** An engine's block cache: least recently used goes first, and of one request the tail before the head. */
export class LruWorker {
  readonly #capacity: number
  /** Insertion order is age. */
  readonly #blocks = new Map<number, true>()

  constructor(capacity: number) {
    this.#capacity = capacity
  }

  prefixOf(ids: readonly number[]): number {
    let depth = 0
    while (depth < ids.length && this.#blocks.has(ids[depth]!)) depth++
    return depth
  }

  /** Blocks in use are the youngest. */
  touch(ids: readonly number[], count: number): void {
    for (let index = 0; index < count; index++) this.#renew(ids[index]!)
  }

  makeRoom(count: number): number[] {
    const gone: number[] = []
    for (const id of this.#blocks.keys()) {
      if (this.#blocks.size - gone.length + count <= this.#capacity) break
      gone.push(id)
    }
    for (const id of gone) this.#blocks.delete(id)
    return gone
  }

  add(ids: readonly number[], from: number, to: number): void {
    for (let index = from; index < to; index++) this.#blocks.set(ids[index]!, true)
  }

  /** The request is over: its tail is the first to go. */
  release(ids: readonly number[]): void {
    for (let index = ids.length - 1; index >= 0; index--) if (this.#blocks.has(ids[index]!)) this.#renew(ids[index]!)
  }

  #renew(id: number): void {
    if (this.#blocks.delete(id)) this.#blocks.set(id, true)
  }
}
