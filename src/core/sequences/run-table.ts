/**
 * The runs of all prompts as nodes of one tree, in columns, found by (parent, first hash).
 *
 *   node   parent | offset and length in the arena       12 bytes, and 16 for the lists of children
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
  length = new Uint32Array(0)
  /** The children of each node; top runs have no list. */
  readonly children = new LinkedLists()
  readonly #arena = new HashArena()
  #offset = new Uint32Array(0)
  #slots = new Int32Array(32)
  readonly #free: number[] = []
  #top = 0
  #liveCount = 0

  get liveCount(): number {
    return this.#liveCount
  }

  get byteLength(): number {
    const columns = 4 * (this.parent.length + this.length.length + this.#offset.length + this.#slots.length)
    return columns + this.#arena.words.byteLength + this.children.byteLength
  }

  /** The child of `parent` (-1: a top run) that begins with this hash, or -1. */
  find(parent: number, low: number, high: number): number {
    const slot = this.#slotOf(parent, low, high)
    return this.#slots[slot]! - 1
  }

  /** How many hashes of the run equal those of the column from `start` on. */
  matched(node: number, column: HashColumn, start: number, count: number): number {
    const words = this.#arena.words
    const base = 2 * this.#offset[node]!
    const from = 2 * start
    const wordCount = 2 * Math.min(this.length[node]!, count - start)
    for (let at = 0; at < wordCount; at += 2)
      if (words[base + at] !== column[from + at] || words[base + at + 1] !== column[from + at + 1]) return at >>> 1
    return wordCount >>> 1
  }

  /** A new child with the hashes `start` to `start + count` of the column. */
  add(parent: number, column: HashColumn, start: number, count: number): number {
    const node = this.#newNode()
    const offset = this.#allocate(count)
    this.#arena.write(offset, column, start, count)
    this.#place(node, offset, count)
    this.#link(node, parent)
    return node
  }

  /** Cuts a run after `count` hashes. The lower part keeps the node, so that whoever ends there need not be told. */
  split(node: number, count: number): number {
    const parent = this.parent[node]!
    this.#unlink(node)
    const upper = this.#newNode()
    const upperOffset = this.#allocate(count)
    this.#arena.move(this.#offset[node]!, upperOffset, count)
    this.#place(upper, upperOffset, count)
    const rest = this.length[node]! - count
    const lowerOffset = this.#allocate(rest)
    this.#arena.move(this.#offset[node]! + count, lowerOffset, rest)
    this.#arena.release(this.#offset[node]!, this.length[node]!)
    this.#place(node, lowerOffset, rest)
    this.#link(upper, parent)
    this.#link(node, upper)
    return upper
  }

  /** Undoes a split: the parent's hashes go in front of its only child's, and the parent is gone. */
  merge(node: number): void {
    const upper = this.parent[node]!
    const parent = this.parent[upper]!
    const above = this.length[upper]!
    const below = this.length[node]!
    const offset = this.#allocate(above + below)
    this.#unlink(node)
    this.#arena.move(this.#offset[upper]!, offset, above)
    this.#arena.move(this.#offset[node]!, offset + above, below)
    this.#arena.release(this.#offset[node]!, below)
    this.#place(node, offset, above + below)
    this.remove(upper)
    this.#link(node, parent)
  }

  remove(node: number): void {
    this.#unlink(node)
    this.#arena.release(this.#offset[node]!, this.length[node]!)
    this.length[node] = 0
    this.#free.push(node)
    this.#liveCount--
  }

  #newNode(): number {
    const node = this.#free.pop() ?? this.#top++
    if (node >= this.parent.length) {
      const capacity = roomFor(node + 1, this.parent.length)
      this.parent = growInt32(this.parent, capacity)
      this.length = growUint32(this.length, capacity)
      this.#offset = growUint32(this.#offset, capacity)
    }
    this.#liveCount++
    if (2 * this.#liveCount > this.#slots.length) this.#rehash()
    return node
  }

  #allocate(count: number): number {
    const offset = this.#arena.allocate(count)
    if (offset >= 0) return offset
    this.#arena.rebuild(count, this.#offset, this.length, this.#top)
    return this.#arena.allocate(count)
  }

  #place(node: number, offset: number, count: number): void {
    this.#offset[node] = offset
    this.length[node] = count
  }

  #link(node: number, parent: number): void {
    this.parent[node] = parent
    if (parent >= 0) this.children.push(parent, node)
    const words = this.#arena.words
    const at = 2 * this.#offset[node]!
    this.#slots[this.#slotOf(parent, words[at]!, words[at + 1]!)] = node + 1
  }

  #unlink(node: number): void {
    const parent = this.parent[node]!
    if (parent >= 0) this.children.remove(parent, node)
    const words = this.#arena.words
    const at = 2 * this.#offset[node]!
    this.#vacate(this.#slotOf(parent, words[at]!, words[at + 1]!))
  }

  /** Where the key is, or where it would go. */
  #slotOf(parent: number, low: number, high: number): number {
    const slots = this.#slots
    const mask = slots.length - 1
    const words = this.#arena.words
    for (let slot = mix(parent, low, high) & mask; ; slot = (slot + 1) & mask) {
      const node = slots[slot]! - 1
      if (node < 0) return slot
      const at = 2 * this.#offset[node]!
      if (this.parent[node] === parent && words[at] === low && words[at + 1] === high) return slot
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
    const words = this.#arena.words
    const at = 2 * this.#offset[node]!
    return mix(this.parent[node]!, words[at]!, words[at + 1]!)
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
