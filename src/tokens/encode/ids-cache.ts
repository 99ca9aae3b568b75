/**
 * Remembers the ids of byte strings, within a fixed number of bytes. Used for pieces (many, short) and for segments (few, long).
 *
 * Two generations of flat tables: a full young one becomes the old one and the old one is forgotten, so what is used
 * stays and nothing is ever scanned. An entry read from the old one moves to the young one. Both are made at their full size, as growing
 * would hold the loop for as long as it takes to copy them; memory that nobody has written to is none yet. The two then take turns.
 *
 *   slots   u32[2^k]      place of an entry in `data`, in words, plus 1; 0 for empty
 *   data    u32[]         hash, byte length, id count, ids..., bytes...
 */
export interface CacheCounts {
  hits: number
  misses: number
  /** Entries forgotten to stay within the bound. */
  evictions: number
}

const headerWords = 3

export class IdsCache {
  readonly counts: CacheCounts = { hits: 0, misses: 0, evictions: 0 }
  readonly #entryWordsMax: number
  #young: Generation
  #old: Generation
  /** Entries of the old generation that the young one has, too: they are not forgotten with it. */
  #moved = 0

  /** `bytesMax` bounds both generations together; `entryBytesMax` is the longest key that is kept. */
  constructor(bytesMax: number, entryBytesMax: number) {
    const share = Math.max(1024, Math.floor(bytesMax / 2))
    // A third for slots, two thirds for data.
    const slotCount = 2 ** Math.floor(Math.log2(share / 3 / 4))
    const wordCount = Math.floor((share - slotCount * 4) / 4)
    this.#entryWordsMax = Math.min(wordCount, headerWords + Math.ceil(entryBytesMax / 4) + entryBytesMax)
    this.#young = new Generation(slotCount, wordCount)
    this.#old = new Generation(slotCount, wordCount)
  }

  get byteLength(): number {
    return this.#young.byteLength + this.#old.byteLength
  }

  get entryCount(): number {
    return this.#young.count + this.#old.count - this.#moved
  }

  /** Copies the ids of `key[from..to)` to `out` at `at`; answers how many, or -1 when the key is unknown. `out` has room for `to - from`. */
  read(hash: number, key: Uint8Array, from: number, to: number, out: Uint32Array, at: number): number {
    let place = this.#young.find(hash, key, from, to)
    if (place >= 0) {
      this.counts.hits++
      return this.#young.copyIds(place, out, at)
    }
    place = this.#old.find(hash, key, from, to)
    if (place < 0) {
      this.counts.misses++
      return -1
    }
    this.counts.hits++
    const count = this.#old.copyIds(place, out, at)
    this.#moved++
    this.write(hash, key, from, to, out, at, count)
    return count
  }

  /** Remembers that `key[from..to)` has the ids `ids[at .. at + count)`. A key that is too long is not kept. */
  write(hash: number, key: Uint8Array, from: number, to: number, ids: Uint32Array, at: number, count: number): void {
    const words = headerWords + count + ((to - from + 3) >>> 2)
    if (words > this.#entryWordsMax) return
    if (!this.#young.hasRoom(words)) {
      this.counts.evictions += this.#old.count - this.#moved
      this.#moved = 0
      const forgotten = this.#old
      forgotten.clear()
      this.#old = this.#young
      this.#young = forgotten
    }
    this.#young.add(hash, key, from, to, ids, at, count)
  }

  /** What was counted since the last call. */
  takeCounts(): CacheCounts {
    const counted = { ...this.counts }
    Object.assign(this.counts, { hits: 0, misses: 0, evictions: 0 })
    return counted
  }

  clear(): void {
    this.#young.clear()
    this.#old.clear()
    this.#moved = 0
  }
}

class Generation {
  count = 0
  #used = 0
  readonly #slots: Uint32Array
  readonly #mask: number
  readonly #data: Uint32Array
  readonly #bytes: Uint8Array

  constructor(slotCount: number, wordCount: number) {
    this.#slots = new Uint32Array(slotCount)
    this.#mask = slotCount - 1
    this.#data = new Uint32Array(wordCount)
    this.#bytes = new Uint8Array(this.#data.buffer)
  }

  /** Of what it holds. */
  get byteLength(): number {
    return this.count === 0 ? 0 : this.#slots.byteLength + this.#used * 4
  }

  hasRoom(words: number): boolean {
    return this.#used + words <= this.#data.length && this.count * 4 < this.#slots.length * 3
  }

  clear(): void {
    if (this.count > 0) this.#slots.fill(0)
    this.count = 0
    this.#used = 0
  }

  find(hash: number, key: Uint8Array, from: number, to: number): number {
    const slots = this.#slots
    const data = this.#data
    const bytes = this.#bytes
    const length = to - from
    for (let slot = hash & this.#mask; ; slot = (slot + 1) & this.#mask) {
      const entry = slots[slot]!
      if (entry === 0) return -1
      const place = entry - 1
      if (data[place] !== hash || data[place + 1] !== length) continue
      const start = (place + headerWords + data[place + 2]!) * 4
      let index = 0
      while (index < length && bytes[start + index] === key[from + index]) index++
      if (index === length) return place
    }
  }

  copyIds(place: number, out: Uint32Array, at: number): number {
    const data = this.#data
    const count = data[place + 2]!
    const start = place + headerWords
    for (let index = 0; index < count; index++) out[at + index] = data[start + index]!
    return count
  }

  add(hash: number, key: Uint8Array, from: number, to: number, ids: Uint32Array, at: number, count: number): void {
    const data = this.#data
    const place = this.#used
    const length = to - from
    data[place] = hash
    data[place + 1] = length
    data[place + 2] = count
    for (let index = 0; index < count; index++) data[place + headerWords + index] = ids[at + index]!
    const start = (place + headerWords + count) * 4
    const bytes = this.#bytes
    for (let index = 0; index < length; index++) bytes[start + index] = key[from + index]!
    this.#used = place + headerWords + count + ((length + 3) >>> 2)
    this.count++
    let slot = hash & this.#mask
    while (this.#slots[slot] !== 0) slot = (slot + 1) & this.#mask
    this.#slots[slot] = place + 1
  }
}
