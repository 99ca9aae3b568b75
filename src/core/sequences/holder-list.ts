/** The ranks that hold one shared run, and how often: in order of arrival, with gaps filled from the end. */

/** Above this a scan costs more than a lookup. */
const scanMax = 16

export class HolderList {
  readonly ranks: number[] = []
  /** Requests of the rank that pass through the run. */
  readonly refs: number[] = []
  /** Weight of the run's blocks on the rank, in units; -1 is weight 1. */
  readonly units: number[] = []
  /** Entries with a fraction. */
  fractionalCount = 0
  #slots: Map<number, number> | undefined

  find(rank: number): number {
    if (this.#slots !== undefined) return this.#slots.get(rank) ?? -1
    return this.ranks.indexOf(rank)
  }

  add(rank: number, refs: number, units: number): void {
    const slot = this.ranks.push(rank) - 1
    this.refs.push(refs)
    this.units.push(units)
    if (units >= 0) this.fractionalCount++
    if (this.#slots !== undefined) this.#slots.set(rank, slot)
    else if (slot >= scanMax) this.#slots = new Map(this.ranks.map((it, index) => [it, index]))
  }

  removeAt(slot: number): void {
    if (this.units[slot]! >= 0) this.fractionalCount--
    this.#slots?.delete(this.ranks[slot]!)
    const rank = this.ranks.pop()!
    const refs = this.refs.pop()!
    const units = this.units.pop()!
    if (slot === this.ranks.length) return
    this.ranks[slot] = rank
    this.refs[slot] = refs
    this.units[slot] = units
    this.#slots?.set(rank, slot)
  }

  clone(): HolderList {
    const copy = new HolderList()
    for (let slot = 0; slot < this.ranks.length; slot++)
      copy.add(this.ranks[slot]!, this.refs[slot]!, this.units[slot]!)
    return copy
  }
}
