/**
 * A binary heap whose items know their place in it, so that one can be taken out of the middle in O(log n). The item that
 * `isBefore` all others is the first. Items are objects and not rows of a table: a heap of 100,000 costs 0.2 us to enter
 * and 0.6 us to leave (bench/core/queue), and every parked request is an object anyway.
 */
export interface HeapItem {
  /** Place in the heap, or -1 outside of it. Written by the heap alone. */
  heapIndex: number
}

export class IndexedHeap<Item extends HeapItem> {
  readonly #items: Item[] = []
  readonly #isBefore: (a: Item, b: Item) => boolean

  constructor(isBefore: (a: Item, b: Item) => boolean) {
    this.#isBefore = isBefore
  }

  get size(): number {
    return this.#items.length
  }

  first(): Item | undefined {
    return this.#items[0]
  }

  add(item: Item): void {
    this.#items.push(item)
    this.#rise(item, this.#items.length - 1)
  }

  remove(item: Item): void {
    const at = item.heapIndex
    const last = this.#items.pop()!
    item.heapIndex = -1
    if (last !== item) this.#settle(last, at)
  }

  /** After the item's key changed. */
  moved(item: Item): void {
    this.#settle(item, item.heapIndex)
  }

  /** Every item, in no order. */
  *[Symbol.iterator](): IterableIterator<Item> {
    yield* this.#items
  }

  #settle(item: Item, at: number): void {
    if (at > 0 && this.#isBefore(item, this.#items[(at - 1) >> 1]!)) this.#rise(item, at)
    else this.#sink(item, at)
  }

  #rise(item: Item, from: number): void {
    const items = this.#items
    let at = from
    while (at > 0) {
      const parentAt = (at - 1) >> 1
      const parent = items[parentAt]!
      if (!this.#isBefore(item, parent)) break
      items[at] = parent
      parent.heapIndex = at
      at = parentAt
    }
    items[at] = item
    item.heapIndex = at
  }

  #sink(item: Item, from: number): void {
    const items = this.#items
    const { length } = items
    let at = from
    for (let child = 2 * at + 1; child < length; child = 2 * at + 1) {
      if (child + 1 < length && this.#isBefore(items[child + 1]!, items[child]!)) child++
      const candidate = items[child]!
      if (!this.#isBefore(candidate, item)) break
      items[at] = candidate
      candidate.heapIndex = at
      at = child
    }
    items[at] = item
    item.heapIndex = at
  }
}
