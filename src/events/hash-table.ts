/**
 * 64-bit hash -> u32, for what the intake must remember of each block: open addressing, linear probing, deletion by
 * shifting back, so no tombstones gather under turnover. Twelve bytes a slot, at most two thirds full.
 *
 *   slots   [ lo, hi, value ]*      value 0 marks a free slot, so stored values are 1 and above
 *
 * The home slot mixes in a seed: engine hashes are attacker-chosen where clients choose prompts.
 */
const slotWords = 3
const slotsMin = 64
/** Slots that are copied together, and looked at in one step of a long walk. */
const pageSlots = 4096
const pageWords = slotWords * pageSlots
/** Words that are loaded in one step: each entry is a line of memory that no cache has. */
const loadedWords = slotWords * 2048

export class HashTable {
  #slots: Uint32Array = new Uint32Array(slotWords * slotsMin)
  #mask = slotsMin - 1
  #size = 0
  readonly #seed: number
  #frozen: FrozenTable | undefined

  /** With room for so many entries before it grows. */
  constructor(seed = 0x9e37_79b9, entries = 0) {
    this.#seed = seed | 1
    this.#reserve(entries)
  }

  get size(): number {
    return this.#size
  }

  get bytesUsed(): number {
    return this.#slots.byteLength
  }

  /** 0: absent. */
  get(low: number, high: number): number {
    const slots = this.#slots
    for (let at = slotWords * this.#home(low, high); ; at = this.#next(at)) {
      const value = slots[at + 2]!
      if (value === 0 || (slots[at] === low && slots[at + 1] === high)) return value
    }
  }

  /** `value` is at least 1. */
  set(low: number, high: number, value: number): void {
    const at = this.#find(low, high)
    if (this.#slots[at + 2] === 0) return this.#claim(at, low, high, value)
    this.#frozen?.keep(at)
    this.#slots[at + 2] = value
  }

  /** One more copy, perhaps with a mark that stays. Answers how many there were. Such an entry is 2 x copies + mark. */
  countUp(low: number, high: number, mark: number): number {
    const at = this.#find(low, high)
    const value = this.#slots[at + 2]!
    if (value === 0) this.#claim(at, low, high, 2 + mark)
    else if (value < 0xffff_fffe) {
      this.#frozen?.keep(at)
      this.#slots[at + 2] = (value + 2) | mark
    }
    return value >>> 1
  }

  /** One copy less. Answers how many are left; with the last one the entry goes. -1: there was none. */
  countDown(low: number, high: number): number {
    const at = this.#find(low, high)
    const value = this.#slots[at + 2]!
    if (value === 0) return -1
    if (value < 4) this.#release(at)
    else {
      this.#frozen?.keep(at)
      this.#slots[at + 2] = value - 2
    }
    return (value >>> 1) - 1
  }

  delete(low: number, high: number): boolean {
    const at = this.#find(low, high)
    if (this.#slots[at + 2] === 0) return false
    this.#release(at)
    return true
  }

  clear(): void {
    if (this.#size === 0) return
    // A table that was well used will be again; a large one that was not gives its memory back.
    if (this.#mask >= 4096 && 8 * this.#size < this.#mask) {
      this.#slots = new Uint32Array(slotWords * slotsMin)
      this.#mask = slotsMin - 1
    } else if (this.#frozen) this.#slots = new Uint32Array(this.#slots.length)
    else this.#slots.fill(0)
    this.#frozen = undefined // it has the old slots for itself
    this.#size = 0
  }

  /**
   * As it is now, for somebody who reads it in parts while this one changes: nothing is copied but the pages that change
   * before they were read. One at a time; give it back with `release`.
   */
  freeze(): FrozenTable {
    this.#frozen?.release()
    const frozen = new FrozenTable(this.#slots, this.#size, () => {
      if (this.#frozen === frozen) this.#frozen = undefined
    })
    return (this.#frozen = frozen)
  }

  /** Entries as `FrozenTable.dump` gives them, into an empty table and in steps; perhaps under another value, of which 0 is none. */
  *load(triples: Uint32Array, valueOf?: (value: number) => number): Generator<undefined, void, void> {
    this.#reserve(triples.length / slotWords)
    for (let at = 0; at + 2 < triples.length; at += slotWords) {
      if (at % loadedWords === loadedWords - slotWords) yield
      const value = valueOf ? valueOf(triples[at + 2]!) : triples[at + 2]!
      if (value > 0) this.set(triples[at]!, triples[at + 1]!, value)
    }
    yield
  }

  /** So that a table that is empty does not grow while so many entries come. */
  #reserve(entries: number): void {
    let slots = slotsMin
    while (3 * entries > 2 * slots) slots *= 2
    if (slots <= this.#mask + 1) return
    this.#mask = slots - 1
    this.#slots = new Uint32Array(slotWords * slots)
  }

  #home(low: number, high: number): number {
    let mixed = Math.imul(low ^ this.#seed, 0x85eb_ca6b) ^ Math.imul(high, 0xc2b2_ae35)
    mixed ^= mixed >>> 15
    mixed = Math.imul(mixed, 0x2c1b_3c6d)
    return (mixed ^ (mixed >>> 13)) & this.#mask
  }

  #next(at: number): number {
    const next = at + slotWords
    return next === this.#slots.length ? 0 : next
  }

  #find(low: number, high: number): number {
    const slots = this.#slots
    for (let at = slotWords * this.#home(low, high); ; at = this.#next(at)) {
      if (slots[at + 2] === 0 || (slots[at] === low && slots[at + 1] === high)) return at
    }
  }

  #claim(at: number, low: number, high: number, value: number): void {
    this.#frozen?.keep(at)
    this.#slots[at] = low
    this.#slots[at + 1] = high
    this.#slots[at + 2] = value
    this.#size++
    if (3 * this.#size > 2 * (this.#mask + 1)) this.#grow()
  }

  /** Shifts later entries of the run back into the hole, so that every entry stays reachable from its home. */
  #release(hole: number): void {
    const slots = this.#slots
    const frozen = this.#frozen
    let at = this.#next(hole)
    while (slots[at + 2] !== 0) {
      const home = slotWords * this.#home(slots[at]!, slots[at + 1]!)
      // Movable when the home does not lie cyclically in (hole, at].
      const staysBehind = hole <= at ? home > hole && home <= at : home > hole || home <= at
      if (!staysBehind) {
        frozen?.keep(hole)
        slots[hole] = slots[at]!
        slots[hole + 1] = slots[at + 1]!
        slots[hole + 2] = slots[at + 2]!
        hole = at
      }
      at = this.#next(at)
    }
    frozen?.keep(hole)
    slots[hole + 2] = 0
    this.#size--
  }

  #grow(): void {
    const old = this.#slots
    this.#frozen = undefined // it has the old slots for itself
    this.#mask = 2 * (this.#mask + 1) - 1
    this.#slots = new Uint32Array(slotWords * (this.#mask + 1))
    this.#size = 0
    for (let at = 0; at < old.length; at += slotWords) {
      if (old[at + 2] !== 0) this.#claim(this.#find(old[at]!, old[at + 1]!), old[at]!, old[at + 1]!, old[at + 2]!)
    }
  }
}

/** A table as it was at one moment. */
export class FrozenTable {
  readonly size: number
  readonly #slots: Uint32Array
  readonly #pages: (Uint32Array | undefined)[] = []
  readonly #onRelease: () => void

  constructor(slots: Uint32Array, size: number, onRelease: () => void) {
    this.#slots = slots
    this.size = size
    this.#onRelease = onRelease
  }

  /** Before the word is written to. */
  keep(at: number): void {
    const page = Math.floor(at / pageWords)
    this.#pages[page] ??= this.#slots.slice(page * pageWords, (page + 1) * pageWords)
  }

  release(): void {
    this.#onRelease()
  }

  /** Entries as triples, page by page; `triples` has room for `triplesPerPage` of them and is reused. */
  *pages(triples: Uint32Array): Generator<number, void, void> {
    for (let from = 0; from < this.#slots.length; from += pageWords) {
      const page = this.#pages[from / pageWords] ?? this.#slots.subarray(from, from + pageWords)
      let to = 0
      for (let at = 0; at < page.length; at += slotWords) {
        if (page[at + 2] === 0) continue
        triples[to] = page[at]!
        triples[to + 1] = page[at + 1]!
        triples[to + 2] = page[at + 2]!
        to += slotWords
      }
      yield to / slotWords
    }
  }

  /** All entries as triples, for a snapshot. */
  *dump(): Generator<undefined, Uint32Array, void> {
    const out = new Uint32Array(slotWords * this.size)
    const triples = new Uint32Array(pageWords)
    let to = 0
    for (const count of this.pages(triples)) {
      out.set(triples.subarray(0, slotWords * count), to)
      to += slotWords * count
      yield
    }
    return out
  }
}

export const triplesPerPage: number = pageSlots
