/**
 * Small records that stand in several lists at once: payload and links of a record lie side by side in one typed array,
 * so following a list touches one cache line per record. Append, remove and first take constant time; a list keeps the
 * order of arrival. Lists are rings, so that the head's predecessor is the tail.
 *
 *   words  [ payload... | next, previous of ring 0 | next, previous of ring 1 | ... ] per record
 *
 * The heads belong to the caller: `heads[at]` holds the first id + 1 of a list, or 0. A record is in at most one list of
 * each ring.
 */
export class LinkedRecords {
  /** Record `id` begins at `stride * id`. Replaced when it grows: read it anew after `allocate`. */
  words: Uint32Array
  readonly stride: number
  readonly #payloadWords: number
  readonly #free: number[] = []
  #end = 0

  constructor(payloadWords: number, ringCount: number) {
    this.#payloadWords = payloadWords
    this.stride = payloadWords + 2 * ringCount
    this.words = new Uint32Array(16 * this.stride)
  }

  get bytesUsed(): number {
    return this.words.byteLength
  }

  allocate(): number {
    const id = this.#free.pop() ?? this.#end++
    if (this.stride * (id + 1) > this.words.length) this.words = widened(this.words, this.stride * (id + 1))
    return id
  }

  /** The record is in no list any more. */
  release(id: number): void {
    this.#free.push(id)
  }

  append(ring: number, heads: Uint32Array, at: number, id: number): void {
    const { words } = this
    const link = this.#payloadWords + 2 * ring
    const own = this.stride * id + link
    const head = heads[at]! - 1
    if (head < 0) {
      heads[at] = id + 1
      words[own] = words[own + 1] = id
      return
    }
    const first = this.stride * head + link
    const tail = words[first + 1]!
    words[own] = head
    words[own + 1] = tail
    words[first + 1] = id
    words[this.stride * tail + link] = id
  }

  /** The record must be in this list. */
  remove(ring: number, heads: Uint32Array, at: number, id: number): void {
    const { words } = this
    const link = this.#payloadWords + 2 * ring
    const own = this.stride * id + link
    const next = words[own]!
    if (next === id) {
      heads[at] = 0
      return
    }
    const previous = words[own + 1]!
    words[this.stride * previous + link] = next
    words[this.stride * next + link + 1] = previous
    if (heads[at] === id + 1) heads[at] = next + 1
  }

  /** The id that arrived after this one in its list, or -1. */
  after(ring: number, heads: Uint32Array, at: number, id: number): number {
    const next = this.words[this.stride * id + this.#payloadWords + 2 * ring]!
    return next + 1 === heads[at] ? -1 : next
  }
}

/** A copy with room for `length` entries at least: doubled, so that growing one by one stays cheap. */
export function widened(column: Uint32Array, length: number): Uint32Array<ArrayBuffer> {
  const wider = new Uint32Array(Math.max(length, 2 * column.length))
  wider.set(column)
  return wider
}
