/**
 * Which names and short texts V8 has in its table, and how many more may come. The table grows until a full collection, and is built anew in
 * one go when it is full: 3 ms for a hundred thousand, 14 for four (docs/decisions/0273). So all requests have one share of it.
 */
import { randomInt } from 'node:crypto'

/**
 * What may come between two full collections. What comes while the collector is at work outlives it, so V8 has twice as many at most,
 * beside the names of the program.
 */
const shareMax = 1 << 16
/** Times between collections are told apart as long as so many are remembered. */
const agesMax = 63
const placeMask = (1 << 17) - 1

export type Newness = 'kept' | 'known' | 'new'

/** Texts are known by their hashes. One falls out when another takes its place, and is then new again. */
export class KeptTable {
  /** V8 has one table, too. */
  static readonly ofProcess: KeptTable = new KeptTable()

  static mix(hash: number, unit: number, next: number): number {
    return Math.imul(hash ^ unit ^ (next << 8), 0x01000193)
  }

  /** Heads and bodies that were read so that V8 keeps nothing of them. */
  readonly unkept = { head: 0, body: 0 }
  /** What every hash begins with: nobody can tell which texts look alike here. */
  readonly seed: number = randomInt(2 ** 32)
  /** Of each text its hash, with the age in which V8 got it in place of the lowest bits; none: it need not have it. */
  readonly #lately = new Uint32Array(placeMask + 1)
  readonly #share: number
  #kept = 0
  #age = 1

  constructor(share: number = shareMax) {
    this.#share = share
  }

  /** Known: it came lately, but V8 need not have it. A new one is known from now on. */
  look(hash: number): Newness {
    const mixed = finish(hash)
    const place = mixed & placeMask
    const found = this.#lately[place]!
    if ((found | agesMax) === (mixed | agesMax)) return (found & agesMax) === this.#age ? 'kept' : 'known'
    this.#lately[place] = mixed & ~agesMax
    return 'new'
  }

  hasRoom(count: number): boolean {
    return this.#kept + count <= this.#share
  }

  /** V8 is about to have it. One that is not told by its hash counts each time. */
  keep(hash: number | undefined): void {
    if (hash !== undefined) {
      const mixed = finish(hash)
      const place = mixed & placeMask
      const text = (mixed & ~agesMax) | this.#age
      if (this.#lately[place] === text >>> 0) return
      this.#lately[place] = text
    }
    this.#kept++
  }

  /** There was a full collection: V8 has let go of what nobody has. */
  collected(): void {
    this.#kept = 0
    this.#age = (this.#age % agesMax) + 1
  }
}

function finish(hash: number): number {
  return (hash ^ (hash >>> 15)) >>> 0
}

/** An object of which the registry alone knows goes with every full collection, and with no other. */
const collections = new FinalizationRegistry<KeptTable>((table) => {
  table.collected()
  watch(table)
})

function watch(table: KeptTable): void {
  collections.register({}, table)
}

watch(KeptTable.ofProcess)
