/**
 * Small records that stand in several lists at once: payload and links of a record lie side by side in one typed array,
 * so following a list touches one cache line per record. Append, remove and first take constant time; a list keeps the
 * order of arrival. Lists are rings, so that the head's predecessor is the tail.
 *
 *   record   [ payload... | next, previous of ring 0 | next, previous of ring 1 | ... ]
 *   segment  8,192 records; only the first one is ever copied, while it grows to that
 *
 * The heads belong to the caller: `heads[at]` holds the first id + 1 of a list, or 0. A record is in at most one list of
 * each ring.
 */
const segmentBits = 13
const segmentRecords = 1 << segmentBits
const inSegment = segmentRecords - 1

export class LinkedRecords {
  readonly #segments: Uint32Array[]
  readonly #stride: number
  readonly #payloadWords: number
  /** The record that was released last, + 1; its first word leads to the one before. */
  #free = 0
  #end = 0

  constructor(payloadWords: number, ringCount: number) {
    this.#payloadWords = payloadWords
    this.#stride = payloadWords + 2 * ringCount
    this.#segments = [new Uint32Array(16 * this.#stride)]
  }

  get bytesUsed(): number {
    return this.#segments.reduce((sum, segment) => sum + segment.byteLength, 0)
  }

  allocate(): number {
    if (this.#free !== 0) {
      const id = this.#free - 1
      this.#free = this.get(id, 0)
      return id
    }
    const id = this.#end++
    const segment = id >>> segmentBits
    const own = this.#segments[segment]
    if (own === undefined) this.#segments.push(new Uint32Array(segmentRecords * this.#stride))
    else if (this.#placeOf(id) >= own.length) this.#segments[segment] = widened(own, 2 * own.length)
    return id
  }

  /** The record is in no list any more. */
  release(id: number): void {
    this.set(id, 0, this.#free)
    this.#free = id + 1
  }

  /** A word of a record: of its payload, or behind that the next and the previous id of each ring. */
  get(id: number, word: number): number {
    return this.#segments[id >>> segmentBits]![this.#placeOf(id) + word]!
  }

  set(id: number, word: number, value: number): void {
    this.#segments[id >>> segmentBits]![this.#placeOf(id) + word] = value
  }

  append(ring: number, heads: Uint32Array, at: number, id: number): void {
    const next = this.#payloadWords + 2 * ring
    const head = heads[at]! - 1
    if (head < 0) {
      heads[at] = id + 1
      this.set(id, next, id)
      this.set(id, next + 1, id)
      return
    }
    const tail = this.get(head, next + 1)
    this.set(id, next, head)
    this.set(id, next + 1, tail)
    this.set(head, next + 1, id)
    this.set(tail, next, id)
  }

  /** The record must be in this list. */
  remove(ring: number, heads: Uint32Array, at: number, id: number): void {
    const link = this.#payloadWords + 2 * ring
    const next = this.get(id, link)
    if (next === id) {
      heads[at] = 0
      return
    }
    const previous = this.get(id, link + 1)
    this.set(previous, link, next)
    this.set(next, link + 1, previous)
    if (heads[at] === id + 1) heads[at] = next + 1
  }

  /** The id that arrived after this one in its list, or -1. */
  after(ring: number, heads: Uint32Array, at: number, id: number): number {
    const next = this.get(id, this.#payloadWords + 2 * ring)
    return next + 1 === heads[at] ? -1 : next
  }

  #placeOf(id: number): number {
    return this.#stride * (id & inSegment)
  }
}

/** A copy with room for `length` entries at least: doubled, so that growing one by one stays cheap. */
export function widened(column: Uint32Array, length: number): Uint32Array<ArrayBuffer> {
  const wider = new Uint32Array(Math.max(length, 2 * column.length))
  wider.set(column)
  return wider
}
