/**
 * Finds small integers by a 32-bit hash: open addressing in one typed array. It keeps no keys; the caller compares the
 * candidates with its own columns, so one table serves any kind of key.
 *
 *   slots  [ hash, id + 1 | hash, id + 1 | ... ]    8 bytes per slot, at most half full; 0 marks a free slot
 *
 * A slot's number grows with the hash, so a table moves to twice its size from front to back, a few slots with every
 * addition: what lies before the frontier is in the new slots, the rest still in the old ones (decision 0233). Deleting
 * shifts the cluster back, so there are no tombstones and a table at constant size stays as fast as it was.
 */
const slotBitsMin = 4
/** Old slots that an addition moves. Half of them are taken, so the move is over when the old slots are two thirds full at most. */
const slotsPerAddition = 4

export class IdTable {
  #slots = new Uint32Array(2 << slotBitsMin)
  #shift = 32 - slotBitsMin // a hash's home is its first bits
  #size = 0
  /** While the table moves: the old slots from `#start` on, which was free, have moved as far as `#moved` says. */
  #old: Uint32Array<ArrayBuffer> | undefined
  #start = 0
  #moved = 0
  /** Where the last hash was sought: the numbers of slots are those of its own. */
  #sought = this.#slots
  #soughtShift = this.#shift

  get size(): number {
    return this.#size
  }

  get bytesUsed(): number {
    return this.#slots.byteLength + (this.#old?.byteLength ?? 0)
  }

  /** The caller knows that the id is not in the table yet. */
  add(hash: number, id: number): void {
    if (this.#old !== undefined) this.#move(this.#old)
    else if (4 * (this.#size + 1) > this.#slots.length) this.#grow()
    this.#turnTo(hash)
    place(this.#sought, this.#soughtShift, hash >>> 0, id + 1)
    this.#size++
  }

  /** The slot of the first candidate, or -1. */
  first(hash: number): number {
    this.#turnTo(hash)
    return seek(this.#sought, hash >>> this.#soughtShift, hash >>> 0)
  }

  /** The slot of the candidate after this one, or -1. The table must not change, nor be asked for another hash, in between. */
  next(slot: number, hash: number): number {
    return seek(this.#sought, slot + 1, hash >>> 0)
  }

  idAt(slot: number): number {
    return this.#sought[2 * slot + 1]! - 1
  }

  /** Removes the candidate that `first` or `next` answered with. */
  deleteAt(slot: number): void {
    remove(this.#sought, this.#soughtShift, slot)
    this.#size--
  }

  deleteId(hash: number, id: number): void {
    for (let slot = this.first(hash); slot >= 0; slot = this.next(slot, hash))
      if (this.idAt(slot) === id) return this.deleteAt(slot)
  }

  /** To the slots in which this hash is, or would be. */
  #turnTo(hash: number): void {
    const old = this.#old
    const isOld = old !== undefined && (((hash >>> (this.#shift + 1)) - this.#start) & maskOf(old)) >= this.#moved
    this.#sought = isOld ? old : this.#slots
    this.#soughtShift = isOld ? this.#shift + 1 : this.#shift
  }

  #grow(): void {
    const old = this.#slots
    this.#old = old
    this.#start = 0
    while (old[2 * this.#start + 1] !== 0) this.#start++ // half of them are free
    this.#moved = 0
    this.#slots = new Uint32Array(2 * old.length)
    this.#shift--
    this.#move(old)
  }

  /**
   * Stops in front of a free slot only, so that no cluster is parted: what lies behind it has its home there as well. Of what
   * came since the start, the last may have gone round the end, and so to the start again.
   */
  #move(old: Uint32Array): void {
    const mask = maskOf(old)
    const enough = Math.min(this.#moved + slotsPerAddition, mask + 1)
    let moved = this.#moved
    for (;;) {
      const word = 2 * ((this.#start + moved) & mask)
      const value = old[word + 1]!
      if (value !== 0) {
        place(this.#slots, this.#shift, old[word]!, value)
        old[word + 1] = 0
      } else if (moved >= enough) break
      moved++
    }
    this.#moved = moved
    if (moved > mask) this.#old = undefined
  }
}

function maskOf(slots: Uint32Array): number {
  return (slots.length >>> 1) - 1
}

function seek(slots: Uint32Array, from: number, hash: number): number {
  const mask = maskOf(slots)
  for (let at = from & mask; ; at = (at + 1) & mask) {
    if (slots[2 * at + 1] === 0) return -1
    if (slots[2 * at] === hash) return at
  }
}

function place(slots: Uint32Array, shift: number, hash: number, value: number): void {
  const mask = maskOf(slots)
  let at = hash >>> shift
  while (slots[2 * at + 1] !== 0) at = (at + 1) & mask
  slots[2 * at] = hash
  slots[2 * at + 1] = value
}

function remove(slots: Uint32Array, shift: number, slot: number): void {
  const mask = maskOf(slots)
  let hole = slot
  for (let at = (hole + 1) & mask; slots[2 * at + 1] !== 0; at = (at + 1) & mask) {
    // An entry may move back into the hole unless its home lies behind the hole, seen from where it is now.
    const home = slots[2 * at]! >>> shift
    if (((at - home) & mask) < ((at - hole) & mask)) continue
    slots[2 * hole] = slots[2 * at]!
    slots[2 * hole + 1] = slots[2 * at + 1]!
    hole = at
  }
  slots[2 * hole + 1] = 0
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
