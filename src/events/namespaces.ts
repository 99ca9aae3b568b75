/**
 * Engines tell a prompt's salt only with its first block; later blocks name a parent. This carries the namespace down the
 * chain, and refuses to guess where one hash was seen under two.
 */
import type { FrozenTable } from './hash-table.js'
import { HashTable } from './hash-table.js'

const ambiguous = 1
const firstName = 2
const namesMax = 65_536

/** The namespaces of one feed's fleet as small numbers. Shared between ranks; bounded. */
export class NamespaceNames {
  readonly #numbers = new Map<string, number>()
  readonly #names: string[] = []

  /** Undefined: too many. */
  numberOf(name: string): number | undefined {
    const known = this.#numbers.get(name)
    if (known !== undefined) return known
    if (this.#names.length >= namesMax) return undefined
    const number = firstName + this.#names.length
    this.#numbers.set(name, number)
    this.#names.push(name)
    return number
  }

  nameOf(number: number): string {
    return this.#names[number - firstName]!
  }
}

export interface NamespaceDump {
  readonly entries: Uint32Array
  readonly names: Readonly<Record<number, string>>
}

export class Namespaces {
  readonly #names: NamespaceNames
  readonly #ofHash: HashTable

  constructor(names: NamespaceNames, seed: number) {
    this.#names = names
    this.#ofHash = new HashTable(seed)
  }

  /** Nothing is namespaced: the common case, in which none of this costs anything. */
  get isEmpty(): boolean {
    return this.#ofHash.size === 0
  }

  get size(): number {
    return this.#ofHash.size
  }

  /** The namespace that a store without one inherits; undefined: none, null: it cannot be known. */
  inherited(parentLow: number, parentHigh: number): string | undefined | null {
    const number = this.#ofHash.get(parentLow, parentHigh)
    if (number === 0) return undefined
    return number === ambiguous ? null : this.#names.nameOf(number)
  }

  /** Records a store. False: there are more namespaces than can be kept apart. */
  stored(name: string | undefined, hashes: Uint32Array, from: number, count: number): boolean {
    if (name === undefined) {
      if (this.isEmpty) return true
      for (let at = 2 * from; at < 2 * (from + count); at += 2) {
        if (this.#ofHash.get(hashes[at]!, hashes[at + 1]!) !== 0)
          this.#ofHash.set(hashes[at]!, hashes[at + 1]!, ambiguous)
      }
      return true
    }
    const number = this.#names.numberOf(name)
    if (number === undefined) return false
    for (let at = 2 * from; at < 2 * (from + count); at += 2) {
      const before = this.#ofHash.get(hashes[at]!, hashes[at + 1]!)
      this.#ofHash.set(hashes[at]!, hashes[at + 1]!, before === 0 || before === number ? number : ambiguous)
    }
    return true
  }

  /** A removed hash is forgotten, except an ambiguous one: the other prompt's block may still be there. */
  removed(low: number, high: number): void {
    if (!this.isEmpty && this.#ofHash.get(low, high) > ambiguous) this.#ofHash.delete(low, high)
  }

  clear(): void {
    this.#ofHash.clear()
  }

  /** As they are now, for somebody who reads them while these change. */
  freeze(): FrozenTable {
    return this.#ofHash.freeze()
  }

  /** Triples of hash and number, and the names those numbers stand for. */
  *dump(frozen: FrozenTable): Generator<undefined, NamespaceDump, void> {
    const entries = yield* frozen.dump()
    const names: Record<number, string> = {}
    for (let at = 2; at < entries.length; at += 3) {
      if (at % 12_288 === 2) yield
      if (entries[at] !== ambiguous) names[entries[at]!] ??= this.#names.nameOf(entries[at]!)
    }
    return { entries, names }
  }

  /** Into empty ones, in steps. */
  *load({ entries, names }: NamespaceDump): Generator<undefined, void, void> {
    yield* this.#ofHash.load(entries, (number) => {
      const name = names[number]
      return name === undefined ? ambiguous : (this.#names.numberOf(name) ?? ambiguous)
    })
  }
}
