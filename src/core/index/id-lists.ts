/**
 * Many lists of small integers in three typed arrays: append, remove and first in constant time, in order of arrival.
 * An id is in at most one list of an instance. Lists are rings, so that the head's predecessor is the tail.
 *
 *   heads[list]  first id + 1, or 0        next[id], previous[id]  8 bytes per id
 */
export class IdLists {
  #heads = new Uint32Array(16)
  #next = new Uint32Array(16)
  #previous = new Uint32Array(16)

  get bytesUsed(): number {
    return this.#heads.byteLength + this.#next.byteLength + this.#previous.byteLength
  }

  /** The list's oldest id, or -1. */
  first(list: number): number {
    return list < this.#heads.length ? this.#heads[list]! - 1 : -1
  }

  /** The id that arrived after this one in its list, or -1. */
  after(list: number, id: number): number {
    const next = this.#next[id]!
    return next === this.first(list) ? -1 : next
  }

  append(list: number, id: number): void {
    if (list >= this.#heads.length) this.#heads = widened(this.#heads, list + 1)
    if (id >= this.#next.length) {
      this.#next = widened(this.#next, id + 1)
      this.#previous = widened(this.#previous, id + 1)
    }
    const head = this.#heads[list]! - 1
    if (head < 0) {
      this.#heads[list] = id + 1
      this.#next[id] = this.#previous[id] = id
      return
    }
    const tail = this.#previous[head]!
    this.#next[tail] = id
    this.#previous[id] = tail
    this.#next[id] = head
    this.#previous[head] = id
  }

  /** The id must be in this list. */
  remove(list: number, id: number): void {
    const next = this.#next[id]!
    if (next === id) {
      this.#heads[list] = 0
      return
    }
    const previous = this.#previous[id]!
    this.#next[previous] = next
    this.#previous[next] = previous
    if (this.#heads[list] === id + 1) this.#heads[list] = next + 1
  }
}

/** A copy with room for `length` entries at least: doubled, so that growing one by one stays cheap. */
export function widened(column: Uint32Array, length: number): Uint32Array<ArrayBuffer> {
  const wider = new Uint32Array(Math.max(length, 2 * column.length))
  wider.set(column)
  return wider
}
