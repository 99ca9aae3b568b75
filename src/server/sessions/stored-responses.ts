/**
 * Which worker answered which response: an engine that keeps responses keeps them in its own memory, so that only the worker
 * that gave one can go on with it. Workers that left stay in it, to be told from ids that nobody ever gave.
 */
export class StoredResponses {
  readonly #countMax: number
  readonly #onForgotten: () => void
  /** The oldest first. */
  readonly #holders = new Map<string, bigint>()

  constructor(countMax: number, onForgotten: () => void) {
    this.#countMax = countMax
    this.#onForgotten = onForgotten
  }

  keep(id: string, workerId: bigint): void {
    if (this.#countMax === 0) return
    this.#holders.delete(id)
    this.#holders.set(id, workerId)
    if (this.#holders.size <= this.#countMax) return
    this.#holders.delete(this.#holders.keys().next().value!)
    this.#onForgotten()
  }

  /** Its worker was told to. */
  forget(id: string): void {
    this.#holders.delete(id)
  }

  holderOf(id: string): bigint | undefined {
    return this.#holders.get(id)
  }
}
