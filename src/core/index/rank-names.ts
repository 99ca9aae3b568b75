/**
 * What one rank calls the blocks it holds: external hash -> node, open addressing with 16 bytes per slot. Names that are
 * not the block's own are listed by node as well, so that a block can be named back and its last name is noticed.
 *
 *   slots  [ lo, hi, node, epoch ]    node 0: free
 */
const slotWords = 4

export class RankNames {
  readonly #seed: number
  #slots = new Uint32Array(slotWords * 16)
  #mask = 15
  #size = 0
  /** Node -> names [lo, hi] that are not its own. */
  readonly aliases = new Map<number, [lo: number, hi: number][]>()
  aliasCount = 0
  /** No name is older than this epoch. */
  oldest = 0

  constructor(seed: number) {
    this.#seed = seed
  }

  get size(): number {
    return this.#size
  }

  get bytesUsed(): number {
    return this.#slots.byteLength + 64 * this.aliasCount
  }

  /** The node under this name; 0 when the rank does not use it. */
  find(lo: number, hi: number): number {
    const slots = this.#slots
    for (let slot = this.#home(lo, hi); ; slot = (slot + 1) & this.#mask) {
      const at = slotWords * slot
      if (slots[at + 2] === 0) return 0
      if (slots[at] === lo && slots[at + 1] === hi) return slots[at + 2]!
    }
  }

  /** The rank does not use this name yet. */
  add(lo: number, hi: number, node: number, epoch: number): void {
    if (this.#size * 5 >= (this.#mask + 1) * 3) this.#resize(2 * (this.#mask + 1))
    this.#place(lo, hi, node, epoch)
    this.#size++
  }

  /** The rank uses this name. */
  remove(lo: number, hi: number): void {
    const slots = this.#slots
    const mask = this.#mask
    let hole = this.#home(lo, hi)
    while (slots[slotWords * hole] !== lo || slots[slotWords * hole + 1] !== hi) hole = (hole + 1) & mask
    for (let slot = (hole + 1) & mask; slots[slotWords * slot + 2] !== 0; slot = (slot + 1) & mask) {
      const at = slotWords * slot
      const home = this.#home(slots[at]!, slots[at + 1]!)
      if (((slot - home) & mask) < ((slot - hole) & mask)) continue
      const to = slotWords * hole
      slots[to] = slots[at]!
      slots[to + 1] = slots[at + 1]!
      slots[to + 2] = slots[at + 2]!
      slots[to + 3] = slots[at + 3]!
      hole = slot
    }
    slots[slotWords * hole + 2] = 0
    this.#size--
    if (this.#mask > 15 && this.#size * 8 < this.#mask) this.#resize((this.#mask + 1) / 2)
  }

  addAlias(node: number, lo: number, hi: number): void {
    const names = this.aliases.get(node)
    if (names) names.push([lo, hi])
    else this.aliases.set(node, [[lo, hi]])
    this.aliasCount++
  }

  removeAlias(node: number, lo: number, hi: number): void {
    const names = this.aliases.get(node)
    const index = names?.findIndex((it) => it[0] === lo && it[1] === hi) ?? -1
    if (!names || index < 0) return
    names.splice(index, 1)
    if (names.length === 0) this.aliases.delete(node)
    this.aliasCount--
  }

  /** The node in a slot that is drawn by chance; 0 where it is free. */
  drawNode(random: (below: number) => number): number {
    return this.#slots[slotWords * random(this.#mask + 1) + 2]!
  }

  /** All names as [lo, hi, node, epoch], as they are now. */
  entries(): [lo: number, hi: number, node: number, epoch: number][] {
    const all: [number, number, number, number][] = []
    const slots = this.#slots
    for (let at = 0; at < slots.length; at += slotWords) {
      if (slots[at + 2] !== 0) all.push([slots[at]!, slots[at + 1]!, slots[at + 2]!, slots[at + 3]!])
    }
    return all
  }

  #home(lo: number, hi: number): number {
    let it = Math.imul(lo ^ this.#seed, 0x9e37_79b1) ^ hi
    it = Math.imul(it ^ (it >>> 16), 0x85eb_ca6b)
    return (it ^ (it >>> 13)) & this.#mask
  }

  #place(lo: number, hi: number, node: number, epoch: number): void {
    const slots = this.#slots
    let slot = this.#home(lo, hi)
    while (slots[slotWords * slot + 2] !== 0) slot = (slot + 1) & this.#mask
    const at = slotWords * slot
    slots[at] = lo
    slots[at + 1] = hi
    slots[at + 2] = node
    slots[at + 3] = epoch
  }

  #resize(slotCount: number): void {
    const old = this.#slots
    this.#slots = new Uint32Array(slotWords * slotCount)
    this.#mask = slotCount - 1
    for (let at = 0; at < old.length; at += slotWords) {
      if (old[at + 2] !== 0) this.#place(old[at]!, old[at + 1]!, old[at + 2]!, old[at + 3]!)
    }
  }
}
