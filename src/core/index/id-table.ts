/**
 * Finds small integers by a 32-bit hash: open addressing in one typed array. It keeps no keys; the caller compares the
 * candidates with its own columns, so one table serves any kind of key.
 *
 *   slots  [ hash, id + 1 | hash, id + 1 | ... ]    8 bytes per slot, at most half full; 0 marks a free slot
 *
 * Deleting shifts the cluster back, so there are no tombstones and a table at constant size stays as fast as it was.
 */
const slotsMin = 16

export class IdTable {
  #slots = new Uint32Array(2 * slotsMin)
  #mask = slotsMin - 1
  #size = 0

  get size(): number {
    return this.#size
  }

  get bytesUsed(): number {
    return this.#slots.byteLength
  }

  /** The caller knows that the id is not in the table yet. */
  add(hash: number, id: number): void {
    if (2 * (this.#size + 1) > this.#mask + 1) this.#resize(2 * (this.#mask + 1))
    this.#place(hash >>> 0, id + 1)
    this.#size++
  }

  /** The slot of the first candidate, or -1. */
  first(hash: number): number {
    return this.#seek(hash & this.#mask, hash >>> 0)
  }

  /** The slot of the candidate after this one, or -1. The table must not change in between. */
  next(slot: number, hash: number): number {
    return this.#seek((slot + 1) & this.#mask, hash >>> 0)
  }

  idAt(slot: number): number {
    return this.#slots[2 * slot + 1]! - 1
  }

  /** Removes the candidate that `first` or `next` answered with. */
  deleteAt(slot: number): void {
    const slots = this.#slots
    const mask = this.#mask
    let hole = slot
    for (let at = (hole + 1) & mask; slots[2 * at + 1] !== 0; at = (at + 1) & mask) {
      // An entry may move back into the hole unless its home lies behind the hole, seen from where it is now.
      const home = slots[2 * at]! & mask
      if (((at - home) & mask) < ((at - hole) & mask)) continue
      slots[2 * hole] = slots[2 * at]!
      slots[2 * hole + 1] = slots[2 * at + 1]!
      hole = at
    }
    slots[2 * hole + 1] = 0
    this.#size--
  }

  deleteId(hash: number, id: number): void {
    for (let slot = this.first(hash); slot >= 0; slot = this.next(slot, hash))
      if (this.idAt(slot) === id) return this.deleteAt(slot)
  }

  #seek(from: number, hash: number): number {
    const slots = this.#slots
    const mask = this.#mask
    for (let at = from; ; at = (at + 1) & mask) {
      if (slots[2 * at + 1] === 0) return -1
      if (slots[2 * at] === hash) return at
    }
  }

  #place(hash: number, value: number): void {
    const slots = this.#slots
    const mask = this.#mask
    let at = hash & mask
    while (slots[2 * at + 1] !== 0) at = (at + 1) & mask
    slots[2 * at] = hash
    slots[2 * at + 1] = value
  }

  #resize(slotCount: number): void {
    const old = this.#slots
    this.#slots = new Uint32Array(2 * slotCount)
    this.#mask = slotCount - 1
    for (let at = 0; at < old.length; at += 2) if (old[at + 1] !== 0) this.#place(old[at]!, old[at + 1]!)
  }
}

/** Folds words into a well-spread 32-bit hash (the finaliser of MurmurHash3). The seed keeps it unpredictable to senders. */
export function mixWords(seed: number, a: number, b: number, c: number, d: number): number {
  let hash = mixWord(seed ^ a)
  hash = mixWord(hash ^ b)
  hash = mixWord(hash ^ c)
  return mixWord(hash ^ d) >>> 0
}

function mixWord(word: number): number {
  let it = Math.imul(word ^ (word >>> 16), 0x85eb_ca6b)
  it = Math.imul(it ^ (it >>> 13), 0xc2b2_ae35)
  return (it ^ (it >>> 16)) + 0x9e37_79b9
}
