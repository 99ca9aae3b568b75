/**
 * The runs of all prompts as nodes of one tree, in columns, found by (parent, first hash).
 *
 *   node   parent | first hash, low and high             12 bytes, 16 for the lists of children, and 20 in the arena
 *   slots  open addressing, linear probing, at most half full; a slot is a node + 1, the key is read from the columns
 *
 * Says nothing of ranks and references: `PromptChains` does.
 */
import type { HashColumn } from '../protocol/index.js'
import { growInt32, growUint32, roomFor } from './columns.js'
import { HashArena } from './hash-arena.js'
import { LinkedLists } from './linked-lists.js'

export class RunTable {
  parent = new Int32Array(0)
  /** The children of each node; top runs have no list. */
  readonly children = new LinkedLists()
  readonly #arena: HashArena
  #low = new Uint32Array(0)
  #high = new Uint32Array(0)
  #slots = new Int32Array(32)
  readonly #free: number[] = []
  #top = 0
  #liveCount = 0

  constructor(arena: HashArena = new HashArena()) {
    this.#arena = arena
  }

  get liveCount(): number {
    return this.#liveCount
  }

  /** How many hashes each node has. */
  get length(): Uint32Array {
    return this.#arena.length
  }

  get byteLength(): number {
    return 12 * this.parent.length + 4 * this.#slots.length + this.#arena.byteLength + this.children.byteLength
  }

  /** The child of `parent` (-1: a top run) that begins with this hash, or -1. */
  find(parent: number, low: number, high: number): number {
    const slot = this.#slotOf(parent, low, high)
    return this.#slots[slot]! - 1
  }

  /** How many hashes of the run equal those of the column from `start` on. */
  matched(node: number, column: HashColumn, start: number, count: number): number {
    return this.#arena.matched(node, column, start, count)
  }

  /** A new child with the hashes `start` to `start + count` of the column. */
  add(parent: number, column: HashColumn, start: number, count: number): number {
    const node = this.#newNode()
    this.#arena.add(node, column, start, count)
    this.#link(node, parent, column[2 * start]!, column[2 * start + 1]!)
    return node
  }

  /** Cuts a run after `count` hashes. The lower part keeps the node, so that whoever ends there need not be told. */
  split(node: number, count: number): number {
    const parent = this.parent[node]!
    this.#unlink(node)
    const upper = this.#newNode()
    this.#arena.cut(node, upper, count)
    this.#link(upper, parent, this.#low[node]!, this.#high[node]!)
    this.#link(node, upper, this.#arena.lowWord(node, 0), this.#arena.highWord(node, 0))
    return upper
  }

  /** Undoes a split: the parent's hashes go in front of its only child's, and the parent is gone. */
  merge(node: number): void {
    const upper = this.parent[node]!
    const parent = this.parent[upper]!
    this.#unlink(node)
    this.#unlink(upper)
    this.#arena.join(upper, node)
    this.#freeNode(upper)
    this.#link(node, parent, this.#low[upper]!, this.#high[upper]!)
  }

  remove(node: number): void {
    this.#unlink(node)
    this.#arena.release(node)
    this.#freeNode(node)
  }

  #freeNode(node: number): void {
    this.#free.push(node)
    this.#liveCount--
  }

  #newNode(): number {
    const node = this.#free.pop() ?? this.#top++
    if (node >= this.parent.length) {
      const capacity = roomFor(node + 1, this.parent.length)
      this.parent = growInt32(this.parent, capacity)
      this.#low = growUint32(this.#low, capacity)
      this.#high = growUint32(this.#high, capacity)
    }
    this.#liveCount++
    if (2 * this.#liveCount > this.#slots.length) this.#rehash()
    return node
  }

  #link(node: number, parent: number, low: number, high: number): void {
    this.parent[node] = parent
    this.#low[node] = low
    this.#high[node] = high
    if (parent >= 0) this.children.push(parent, node)
    this.#slots[this.#slotOf(parent, low, high)] = node + 1
  }

  #unlink(node: number): void {
    const parent = this.parent[node]!
    if (parent >= 0) this.children.remove(parent, node)
    this.#vacate(this.#slotOf(parent, this.#low[node]!, this.#high[node]!))
  }

  /** Where the key is, or where it would go. */
  #slotOf(parent: number, low: number, high: number): number {
    const slots = this.#slots
    const mask = slots.length - 1
    for (let slot = mix(parent, low, high) & mask; ; slot = (slot + 1) & mask) {
      const node = slots[slot]! - 1
      if (node < 0) return slot
      if (this.parent[node] === parent && this.#low[node] === low && this.#high[node] === high) return slot
    }
  }

  /** Closes the gap by moving back whatever probed past it, so that no tombstones collect. */
  #vacate(gap: number): void {
    const slots = this.#slots
    const mask = slots.length - 1
    for (let slot = (gap + 1) & mask; slots[slot] !== 0; slot = (slot + 1) & mask) {
      const home = this.#homeOf(slots[slot]! - 1) & mask
      if (((slot - home) & mask) >= ((slot - gap) & mask)) {
        slots[gap] = slots[slot]!
        gap = slot
      }
    }
    slots[gap] = 0
  }

  #homeOf(node: number): number {
    return mix(this.parent[node]!, this.#low[node]!, this.#high[node]!)
  }

  #rehash(): void {
    const old = this.#slots
    this.#slots = new Int32Array(2 * old.length)
    const mask = this.#slots.length - 1
    for (const entry of old) {
      if (entry === 0) continue
      let slot = this.#homeOf(entry - 1) & mask
      while (this.#slots[slot] !== 0) slot = (slot + 1) & mask
      this.#slots[slot] = entry
    }
  }
}

/** Spreads the key over all bits: hashes from outside may be small or alike. */
function mix(parent: number, low: number, high: number): number {
  let hash = Math.imul(low ^ Math.imul(parent + 1, 0x9e37_79b1), 0x85eb_ca6b) ^ Math.imul(high, 0xc2b2_ae35)
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b_3c6d)
  return hash ^ (hash >>> 13)
}
