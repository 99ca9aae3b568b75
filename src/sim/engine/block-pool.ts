/**
 * The KV memory of one rank: a fixed number of slots, each empty, or holding a cached block that is in use or may be evicted.
 * It knows nothing of tokens: a block is a key (an integer below 2^53, equal for equal content behind equal content).
 *
 *   free list   head ◄── next to be taken                      released last ──► tail
 *               [empty] [empty] [key 7] [key 9] [key 3] …      links: two Int32 columns over the slots
 *   table       key ──► slot of its oldest copy ──► nextCopy ──► …   open addressing, at most half full
 *   node        [key 1]─►[key 2]─►[key 3]  a run of blocks that was stored together and was not split since
 *
 * A block is released after the blocks behind it, so the head of the list is always a leaf, and the last of its node.
 *
 * 50 to 80 bytes per slot. The plain twin in `block-pool.test.ts` is the specification.
 */
import { invariant } from '../../core/protocol/index.js'

/** What happens when a block is completed whose content is cached already. */
export type CopyPolicy =
  /** Each copy is stored and later removed on its own: vLLM. */
  | 'each'
  /** Copies take room, but only the first is stored and only the last is removed: Dynamo's simulator. */
  | 'first-and-last'
  /** The new copy is dropped and the cached one is used: SGLang. */
  | 'merge'

export interface BlockPoolOptions {
  readonly blocks: number
  readonly copies: CopyPolicy
  /** Where an emptied slot goes: `head` evicts only when nothing is empty; `tail` is vLLM's one queue for all free slots. */
  readonly emptied: 'head' | 'tail'
  /** What goes at a time: one block, or the node it belongs to, as in SGLang's radix tree; that needs `merge` and `head`. */
  readonly evicts: 'block' | 'node'
}

/** Hears of evictions. A removal happens while a block is being allocated, before the store that displaced it. */
export interface EvictionListener {
  removed(key: number, slot: number): void
}

const none = -1

export class BlockPool {
  readonly blocks: number
  readonly #copies: CopyPolicy
  readonly #emptied: 'head' | 'tail'
  readonly #evictsNodes: boolean
  readonly #listener: EvictionListener
  readonly #keys: Float64Array // per slot; -1 is empty or private
  readonly #references: Int32Array
  readonly #next: Int32Array
  readonly #previous: Int32Array
  readonly #nextCopy: Int32Array
  readonly #nodeNext: Int32Array // the block behind this one in its node, or -1
  readonly #nodePrevious: Int32Array // the block before this one in its node, or -1
  readonly #table: Int32Array // slots by key hash; -1 is vacant
  readonly #mask: number
  #head = none
  #tail = none
  #freeCount = 0
  #cachedCount = 0

  constructor(options: BlockPoolOptions, listener: EvictionListener) {
    const { blocks } = options
    const isTree = options.evicts === 'node'
    invariant(
      !isTree || (options.copies === 'merge' && options.emptied === 'head'),
      'a tree has one copy of each block',
    )
    this.blocks = blocks
    this.#copies = options.copies
    this.#emptied = options.emptied
    this.#evictsNodes = isTree
    this.#listener = listener
    this.#keys = new Float64Array(blocks).fill(none)
    this.#references = new Int32Array(blocks)
    this.#next = new Int32Array(blocks)
    this.#previous = new Int32Array(blocks)
    this.#nextCopy = new Int32Array(blocks).fill(none)
    this.#nodeNext = new Int32Array(blocks).fill(none)
    this.#nodePrevious = new Int32Array(blocks).fill(none)
    const capacity = 2 ** Math.ceil(Math.log2(Math.max(8, blocks * 2)))
    this.#table = new Int32Array(capacity).fill(none)
    this.#mask = capacity - 1
    for (let slot = 0; slot < blocks; slot++) this.#append(slot)
  }

  /** Slots that a request holds. */
  get activeCount(): number {
    return this.blocks - this.#freeCount
  }

  /** Slots that could be taken now, by eviction if need be. */
  get freeCount(): number {
    return this.#freeCount
  }

  /** Slots with a key: what a prefix can hit. */
  get cachedCount(): number {
    return this.#cachedCount
  }

  /** The slot of the oldest copy, or -1. */
  find(key: number): number {
    const table = this.#table
    const keys = this.#keys
    let place = hashOf(key) & this.#mask
    for (;;) {
      const slot = table[place]!
      if (slot === none || keys[slot] === key) return slot
      place = (place + 1) & this.#mask
    }
  }

  isActive(slot: number): boolean {
    return this.#references[slot]! > 0
  }

  /** One more user of a cached slot. */
  hold(slot: number): void {
    if (this.#references[slot]!++ === 0) this.#unlink(slot)
  }

  /** A slot of one's own, evicting the block that waited longest; -1 when every slot is held. */
  take(): number {
    let slot = this.#head
    if (slot === none) return none
    if (this.#evictsNodes && this.#keys[slot] !== none) {
      this.#evictNode(slot)
      slot = this.#head
    }
    this.#unlink(slot)
    if (this.#keys[slot] !== none) this.#evict(slot)
    this.#references[slot] = 1
    return slot
  }

  /** A prefix that ends with this block has been used on its own: what comes behind it is a node of its own. */
  split(slot: number): void {
    const next = this.#nodeNext[slot]!
    if (next === none) return
    this.#nodeNext[slot] = none
    this.#nodePrevious[next] = none
  }

  /** The block in `slot` was stored together with the one in `before`. */
  join(before: number, slot: number): void {
    this.#nodeNext[before] = slot
    this.#nodePrevious[slot] = before
  }

  /**
   * A slot's block is complete and can be hit from now on. Answers the slot to use instead, which differs only under
   * `merge`; `isNew` afterwards says whether this is to be announced.
   */
  complete(slot: number, key: number): number {
    invariant(this.#references[slot]! > 0 && this.#keys[slot] === none, 'a block is completed once, by its holder')
    const place = this.#placeOf(key)
    const oldest = this.#table[place]!
    if (oldest !== none && this.#copies === 'merge') {
      this.hold(oldest)
      this.release(slot)
      this.isNew = false
      return oldest
    }
    this.#keys[slot] = key
    this.#cachedCount++
    if (oldest === none) this.#table[place] = slot
    else this.#appendCopy(oldest, slot)
    this.isNew = oldest === none || this.#copies === 'each'
    return slot
  }

  /** Whether the last `complete` made a block resident that has to be announced. */
  isNew = false

  /** One user less. The last one leaves a cached block behind for as long as the room is not needed. */
  release(slot: number): void {
    const references = --this.#references[slot]!
    invariant(references >= 0, 'a slot is released as often as it was held')
    if (references > 0) return
    if (this.#keys[slot] === none && this.#emptied === 'head') this.#prepend(slot)
    else this.#append(slot)
  }

  /** Forgets every block that nobody holds; false, and nothing happens, while any slot is held. */
  clear(): boolean {
    if (this.activeCount > 0) return false
    this.#keys.fill(none)
    this.#nextCopy.fill(none)
    this.#nodeNext.fill(none)
    this.#nodePrevious.fill(none)
    this.#table.fill(none)
    this.#cachedCount = 0
    return true
  }

  /** Every cached key with the number of its copies: what an index should know of this rank. */
  cachedKeys(): Map<number, number> {
    const counts = new Map<number, number>()
    for (const key of this.#keys) if (key !== none) counts.set(key, (counts.get(key) ?? 0) + 1)
    return counts
  }

  eachCached(visit: (slot: number, key: number) => void): void {
    this.#keys.forEach((key, slot) => {
      if (key !== none) visit(slot, key)
    })
  }

  /** Empties the node that ends with `last`, roots first; its slots are the next to be taken. */
  #evictNode(last: number): void {
    let first = last
    while (this.#nodePrevious[first] !== none) first = this.#nodePrevious[first]!
    for (let slot = first; slot !== none; ) {
      const next = this.#nodeNext[slot]!
      this.#nodeNext[slot] = this.#nodePrevious[slot] = none
      this.#evict(slot)
      this.#unlink(slot)
      this.#prepend(slot)
      slot = next
    }
  }

  #evict(slot: number): void {
    const key = this.#keys[slot]!
    const place = this.#placeOf(key)
    const oldest = this.#table[place]!
    const heir = this.#nextCopy[oldest]!
    if (oldest !== slot) this.#removeCopy(oldest, slot)
    else if (heir === none) this.#vacate(place)
    else this.#table[place] = heir
    this.#nextCopy[slot] = none
    this.#keys[slot] = none
    this.#cachedCount--
    const isLast = oldest === slot && heir === none
    if (isLast || this.#copies === 'each') this.#listener.removed(key, slot)
  }

  #appendCopy(oldest: number, slot: number): void {
    let last = oldest
    while (this.#nextCopy[last] !== none) last = this.#nextCopy[last]!
    this.#nextCopy[last] = slot
  }

  #removeCopy(oldest: number, slot: number): void {
    let before = oldest
    while (this.#nextCopy[before] !== slot) before = this.#nextCopy[before]!
    this.#nextCopy[before] = this.#nextCopy[slot]!
  }

  /** The place that holds `key`, or the vacant one where it belongs. */
  #placeOf(key: number): number {
    let place = hashOf(key) & this.#mask
    for (;;) {
      const slot = this.#table[place]!
      if (slot === none || this.#keys[slot] === key) return place
      place = (place + 1) & this.#mask
    }
  }

  /** Moves later entries of the run into the gap, so that no tombstones slow down lookups. */
  #vacate(place: number): void {
    const table = this.#table
    const mask = this.#mask
    let gap = place
    let probe = place
    for (;;) {
      probe = (probe + 1) & mask
      const slot = table[probe]!
      if (slot === none) break
      const home = hashOf(this.#keys[slot]!) & mask
      // An entry may move back only as far as its home: not if its home lies cyclically in (gap, probe].
      if (((probe - home) & mask) < ((probe - gap) & mask)) continue
      table[gap] = slot
      gap = probe
    }
    table[gap] = none
  }

  #append(slot: number): void {
    this.#previous[slot] = this.#tail
    this.#next[slot] = none
    if (this.#tail === none) this.#head = slot
    else this.#next[this.#tail] = slot
    this.#tail = slot
    this.#freeCount++
  }

  #prepend(slot: number): void {
    this.#next[slot] = this.#head
    this.#previous[slot] = none
    if (this.#head === none) this.#tail = slot
    else this.#previous[this.#head] = slot
    this.#head = slot
    this.#freeCount++
  }

  #unlink(slot: number): void {
    const previous = this.#previous[slot]!
    const next = this.#next[slot]!
    if (previous === none) this.#head = next
    else this.#next[previous] = next
    if (next === none) this.#tail = previous
    else this.#previous[next] = previous
    this.#freeCount--
  }
}

/** Mixes both halves of an integer below 2^53: trace keys are dense and would cluster otherwise. */
function hashOf(key: number): number {
  const low = key >>> 0
  const high = ((key - low) / 4294967296) >>> 0
  let mixed = Math.imul(low ^ Math.imul(high, 0x85ebca6b), 0x9e3779b1)
  mixed ^= mixed >>> 15
  mixed = Math.imul(mixed, 0x2c1b3c6d)
  return (mixed ^ (mixed >>> 13)) >>> 0
}
