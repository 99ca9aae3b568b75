/**
 * Many doubly linked lists over one pool of items, without objects: an item is in at most one list.
 *
 *   head, tail [list]     next, prev [item]     -1 ends a list on either side
 *
 * 8 bytes per list, 8 per item. Lists and items are small integers that the caller hands out.
 */
import { growInt32, roomFor } from './columns.js'

export class LinkedLists {
  #head = new Int32Array(0)
  #tail = new Int32Array(0)
  #next = new Int32Array(0)
  #prev = new Int32Array(0)

  first(list: number): number {
    return list < this.#head.length ? this.#head[list]! : -1
  }

  next(item: number): number {
    return this.#next[item]!
  }

  /** The list has exactly one item. */
  isSingle(list: number): boolean {
    const head = this.first(list)
    return head >= 0 && head === this.#tail[list]
  }

  push(list: number, item: number): void {
    this.#makeRoom(list, item)
    const last = this.#tail[list]!
    this.#next[item] = -1
    this.#prev[item] = last
    if (last < 0) this.#head[list] = item
    else this.#next[last] = item
    this.#tail[list] = item
  }

  remove(list: number, item: number): void {
    const next = this.#next[item]!
    const prev = this.#prev[item]!
    if (prev < 0) this.#head[list] = next
    else this.#next[prev] = next
    if (next < 0) this.#tail[list] = prev
    else this.#prev[next] = prev
  }

  get byteLength(): number {
    return 8 * (this.#head.length + this.#next.length)
  }

  #makeRoom(list: number, item: number): void {
    if (list >= this.#head.length) {
      const length = roomFor(list + 1, this.#head.length)
      this.#head = growInt32(this.#head, length, -1)
      this.#tail = growInt32(this.#tail, length, -1)
    }
    if (item >= this.#next.length) {
      const length = roomFor(item + 1, this.#next.length)
      this.#next = growInt32(this.#next, length)
      this.#prev = growInt32(this.#prev, length)
    }
  }
}
