/**
 * Byte-pair merging of one piece: always the merge of lowest rank, the leftmost of equals, until none applies.
 * Short pieces rescan a small array; long ones use a heap, so that a megabyte without a single cut point costs n log n.
 */
import type { Vocabulary } from '../vocabulary/vocabulary.js'
import { findMerge, noToken } from '../vocabulary/vocabulary.js'

/** Up to here a rescan beats the heap (bench `tokens.merge`). */
const rescanLengthMax = 48

export class Merger {
  readonly #mergeSlots: Uint32Array
  readonly #mergeMask: number
  /** The caller writes its symbols here, from 0; `merge` leaves the merged ones in the same place. */
  symbols: Uint32Array<ArrayBuffer> = new Uint32Array(256)
  #ranks = new Uint32Array(rescanLengthMax + 1)
  #merged = new Uint32Array(rescanLengthMax + 1)

  constructor(vocabulary: Vocabulary) {
    this.#mergeSlots = vocabulary.mergeSlots
    this.#mergeMask = vocabulary.mergeMask
  }

  /** Makes room for `count` symbols. Long pieces are rare, so the room is given back by `shrink`. */
  reserve(count: number): void {
    if (this.symbols.length < count) this.symbols = new Uint32Array(Math.max(count, this.symbols.length * 2))
  }

  shrink(): void {
    if (this.symbols.length > 1 << 16) this.symbols = new Uint32Array(256)
  }

  /** Merges the first `count` symbols; answers how many are left. */
  merge(count: number): number {
    if (count < 2) return count
    return count <= rescanLengthMax ? this.#rescan(count) : this.#heap(count)
  }

  #rescan(count: number): number {
    const symbols = this.symbols
    const ranks = this.#ranks
    const merged = this.#merged
    const slots = this.#mergeSlots
    const mask = this.#mergeMask
    for (let index = 0; index + 1 < count; index++) {
      const at = findMerge(slots, mask, symbols[index]!, symbols[index + 1]!)
      ranks[index] = at < 0 ? noToken : slots[at + 2]!
      merged[index] = at < 0 ? noToken : slots[at + 3]!
    }
    for (;;) {
      let best = noToken
      let where = 0
      for (let index = 0; index + 1 < count; index++) {
        const rank = ranks[index]!
        if (rank < best) {
          best = rank
          where = index
        }
      }
      if (best === noToken) return count
      symbols[where] = merged[where]!
      count--
      for (let index = where + 1; index < count; index++) {
        symbols[index] = symbols[index + 1]!
        ranks[index] = ranks[index + 1]!
        merged[index] = merged[index + 1]!
      }
      if (where > 0) {
        const at = findMerge(slots, mask, symbols[where - 1]!, symbols[where]!)
        ranks[where - 1] = at < 0 ? noToken : slots[at + 2]!
        merged[where - 1] = at < 0 ? noToken : slots[at + 3]!
      }
      if (where + 1 < count) {
        const at = findMerge(slots, mask, symbols[where]!, symbols[where + 1]!)
        ranks[where] = at < 0 ? noToken : slots[at + 2]!
        merged[where] = at < 0 ? noToken : slots[at + 3]!
      }
    }
  }

  /** Heap keys are rank * 2^27 + position: the order of merging is the order of the keys, and a double holds them exactly. */
  #heap(count: number): number {
    const symbols = this.symbols
    const slots = this.#mergeSlots
    const mask = this.#mergeMask
    const next = new Int32Array(count)
    const before = new Int32Array(count)
    const ranks = new Uint32Array(count) // rank of the pair that begins here; noToken once nothing begins here
    const merged = new Uint32Array(count)
    const heap = new KeyHeap(count)
    const rate = (at: number): void => {
      const right = next[at]!
      const slot = right < count ? findMerge(slots, mask, symbols[at]!, symbols[right]!) : -1
      ranks[at] = slot < 0 ? noToken : slots[slot + 2]!
      if (slot < 0) return
      merged[at] = slots[slot + 3]!
      heap.push(slots[slot + 2]! * positions + at)
    }
    for (let index = 0; index < count; index++) {
      next[index] = index + 1
      before[index] = index - 1
    }
    for (let index = 0; index < count; index++) rate(index)
    while (heap.size > 0) {
      const key = heap.pop()
      const rank = Math.floor(key / positions)
      const at = key - rank * positions
      if (ranks[at] !== rank) continue // its pair has changed since
      const right = next[at]!
      symbols[at] = merged[at]!
      ranks[right] = noToken
      const after = next[right]!
      next[at] = after
      if (after < count) before[after] = at
      rate(at)
      if (before[at]! >= 0) rate(before[at]!)
    }
    let left = 0
    for (let index = 0; index < count; index = next[index]!) symbols[left++] = symbols[index]!
    return left
  }
}

/** More bytes than a text may have; and 2^26 ranks are more than a file of the size that we read can list. */
const positions = 2 ** 27

class KeyHeap {
  size = 0
  #keys: Float64Array

  constructor(capacity: number) {
    this.#keys = new Float64Array(capacity + 16)
  }

  push(key: number): void {
    if (this.size === this.#keys.length) {
      const larger = new Float64Array(this.#keys.length * 2)
      larger.set(this.#keys)
      this.#keys = larger
    }
    const keys = this.#keys
    let at = this.size++
    while (at > 0) {
      const parent = (at - 1) >>> 1
      if (keys[parent]! <= key) break
      keys[at] = keys[parent]!
      at = parent
    }
    keys[at] = key
  }

  pop(): number {
    const keys = this.#keys
    const top = keys[0]!
    const last = keys[--this.size]!
    const size = this.size
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= size) break
      if (child + 1 < size && keys[child + 1]! < keys[child]!) child++
      if (keys[child]! >= last) break
      keys[at] = keys[child]!
      at = child
    }
    keys[at] = last
    return top
  }
}
