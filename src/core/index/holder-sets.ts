/**
 * Which ranks hold a block, as interned sets: equal sets have equal ids. 0 is the empty set, -1 - rank a set of one; both
 * need no memory. Any other id has bits, and counts the blocks that use it.
 */
import { IdTable } from './id-table.js'
import type { Sharing } from './prefix-index.js'

export class HolderSets {
  readonly #bits: (Uint32Array | undefined)[] = [undefined]
  readonly #refs: number[] = [0]
  readonly #hashes: number[] = [0]
  readonly #free: number[] = []
  readonly #table = new IdTable()
  // The last transition: runs of blocks mostly share one set.
  #memoFrom = Number.NaN
  #memoRank = 0
  #memoTo = 0

  /** Sets of two or more. */
  get size(): number {
    return this.#table.size
  }

  get bytesUsed(): number {
    return this.#bits.reduce((sum, bits) => sum + (bits ? bits.byteLength + 32 : 8), this.#table.bytesUsed)
  }

  static single(rank: number): number {
    return -1 - rank
  }

  has(set: number, rank: number): boolean {
    if (set <= 0) return set === -1 - rank
    return ((this.#bits[set]![rank >>> 5]! >>> (rank & 31)) & 1) === 1
  }

  /** How many words of bits the set has. */
  wordCount(set: number): number {
    if (set <= 0) return set === 0 ? 0 : ((-1 - set) >>> 5) + 1
    return this.#bits[set]!.length
  }

  word(set: number, index: number): number {
    if (set > 0) return this.#bits[set]![index] ?? 0
    const rank = -1 - set
    return set < 0 && rank >>> 5 === index ? (1 << (rank & 31)) >>> 0 : 0
  }

  count(set: number): number {
    if (set <= 0) return set === 0 ? 0 : 1
    return this.#bits[set]!.reduce((sum, word) => sum + popcount(word), 0)
  }

  sharing(): Sharing {
    let [sharedBlocks, holds] = [0, 0]
    for (let set = 1; set < this.#bits.length; set++) {
      if (!this.#bits[set]) continue
      sharedBlocks += this.#refs[set]!
      holds += this.#refs[set]! * this.count(set)
    }
    return { sharedBlocks, ranksPerSharedBlock: sharedBlocks && holds / sharedBlocks }
  }

  /** `set` with the bit of `rank` turned over. `retain` the answer before the next call. */
  flip(set: number, rank: number): number {
    if (set === 0) return -1 - rank
    if (set === -1 - rank) return 0
    if (set === this.#memoFrom && rank === this.#memoRank) return this.#memoTo
    const bits = new Uint32Array(Math.max(this.wordCount(set), (rank >>> 5) + 1))
    for (let index = 0; index < bits.length; index++) bits[index] = this.word(set, index)
    bits[rank >>> 5]! ^= 1 << (rank & 31)
    const to = this.intern(bits)
    this.#memoFrom = set
    this.#memoRank = rank
    this.#memoTo = to
    return to
  }

  intern(bits: Uint32Array): number {
    let end = bits.length
    while (end > 0 && bits[end - 1] === 0) end--
    const own = bits.length === end ? bits : bits.slice(0, end)
    const total = own.reduce((sum, word) => sum + popcount(word), 0)
    if (total === 0) return 0
    if (total === 1) return -1 - (32 * (end - 1) + 31 - Math.clz32(own[end - 1]!))
    const hash = hashOf(own)
    for (let slot = this.#table.first(hash); slot >= 0; slot = this.#table.next(slot, hash)) {
      if (isSame(this.#bits[this.#table.idAt(slot)]!, own)) return this.#table.idAt(slot)
    }
    const id = this.#free.pop() ?? this.#bits.length
    this.#bits[id] = own === bits ? bits.slice() : own
    this.#refs[id] = 0
    this.#hashes[id] = hash
    this.#table.add(hash, id)
    return id
  }

  retain(set: number): void {
    if (set > 0) this.#refs[set]!++
  }

  release(set: number): void {
    if (set <= 0 || --this.#refs[set]! > 0) return
    this.#table.deleteId(this.#hashes[set]!, set)
    this.#bits[set] = undefined
    this.#free.push(set)
    this.#memoFrom = Number.NaN // ids are reused
  }
}

function hashOf(bits: Uint32Array): number {
  let hash = bits.length
  for (const word of bits) hash = Math.imul(hash ^ word, 0x9e37_79b1) ^ (hash >>> 15)
  return hash >>> 0
}

function isSame(a: Uint32Array, b: Uint32Array): boolean {
  return a.length === b.length && a.every((word, index) => word === b[index])
}

function popcount(word: number): number {
  let it = word - ((word >>> 1) & 0x5555_5555)
  it = (it & 0x3333_3333) + ((it >>> 2) & 0x3333_3333)
  return Math.imul((it + (it >>> 4)) & 0x0f0f_0f0f, 0x0101_0101) >>> 24
}
