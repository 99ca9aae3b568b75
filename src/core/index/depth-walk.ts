/** Finds, for every rank, the longest prefix of a prompt that it holds. Keeps its scratch space between calls. */
import type { HashColumn } from '../protocol/index.js'
import { root } from './block-trie.js'
import type { Knowledge } from './knowledge.js'

export class DepthWalk {
  /** Ranks that hold everything so far, as bits. */
  #active = new Uint32Array(8)
  #words = 0
  #greatest = 0

  run(know: Knowledge, local: HashColumn, count: number, depths: Uint32Array, lastExternal?: HashColumn): number {
    const { trie } = know
    const { holders } = trie
    let node = root
    let set = 0
    let depth = 0
    this.#words = 0
    this.#greatest = 0
    for (; depth < count; depth++) {
      const child = trie.childOf(node, local[2 * depth]!, local[2 * depth + 1]!)
      if (child === 0) break
      trie.noteEntered(child)
      const own = holders[child]!
      if (depth === 0) this.#begin(know, own)
      else if (own !== set && !this.#narrow(know, own, node, depth, depths, lastExternal)) return this.#greatest
      if (depth === 0 && own === 0) return 0
      set = own
      node = child
    }
    if (depth > 0) this.#narrow(know, 0, node, depth, depths, lastExternal)
    return this.#greatest
  }

  #begin({ trie }: Knowledge, set: number): void {
    this.#words = trie.sets.wordCount(set)
    if (this.#words > this.#active.length) this.#active = new Uint32Array(2 * this.#words)
    for (let word = 0; word < this.#words; word++) this.#active[word] = trie.sets.word(set, word)
  }

  /** Ranks outside of `set` leave with the depth so far. False when nobody is left. */
  #narrow(know: Knowledge, set: number, node: number, depth: number, depths: Uint32Array, last?: HashColumn): boolean {
    const { sets } = know.trie
    let any = 0
    for (let word = 0; word < this.#words; word++) {
      const active = this.#active[word]!
      if (active === 0) continue
      const stay = active & sets.word(set, word)
      for (let gone = active & ~stay; gone !== 0; gone &= gone - 1) {
        const rank = 32 * word + 31 - Math.clz32(gone & -gone)
        depths[rank] = depth
        this.#greatest = depth // who leaves later leaves deeper
        if (!last) continue
        const [lo, hi] = know.nameOf(rank, node)
        last[2 * rank] = lo
        last[2 * rank + 1] = hi
      }
      this.#active[word] = stay
      any |= stay
    }
    return any !== 0
  }
}
