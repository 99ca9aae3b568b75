/**
 * Which rank holds which blocks of which active prompts. Prompts are chains: a sequence hash stands for all tokens up to
 * its block, so two prompts that share a hash share everything before it, and one tree of runs holds them all. A block
 * is the same block where it stands at the same place of the same chain (docs/decisions/0030).
 *
 *        [ system prompt, 64 ]   held by ranks 0, 3, 7
 *         /                 \
 *   [ user A, 448 ] rank 3   [ user B, 20 ] ranks 0, 7
 *
 * A request ends at the last block of a node, never inside one: a run is cut where a prompt ends or two prompts part.
 * Hence all blocks of a node have the same holders, references and weight on a rank, and adding or freeing a request
 * costs one step per node and one comparison or copy per block. A rank that holds a node holds every node above it.
 */
import type { HashColumn } from '../protocol/index.js'
import { growInt32, growUint32, roomFor } from './columns.js'
import { HolderList } from './holder-list.js'
import { LinkedLists } from './linked-lists.js'
import type { Crowds } from './load-columns.js'
import type { RankBlocks } from './rank-blocks.js'
import { RunTable } from './run-table.js'

export class PromptChains {
  readonly #runs = new RunTable()
  readonly #blocks: RankBlocks
  /** References over all ranks. */
  #refs = new Uint32Array(0)
  /** The one rank that holds the node, and its weight there; -1 where `#lists` has several. */
  #soleRank = new Int32Array(0)
  #soleUnits = new Int32Array(0)
  readonly #lists: (HolderList | undefined)[] = []
  /** The requests whose prompt ends with the node. */
  readonly #endings = new LinkedLists()
  #pathLength = 0
  #pathNodes = new Int32Array(64)
  #pathEnds = new Uint32Array(64)

  constructor(blocks: RankBlocks) {
    this.#blocks = blocks
  }

  get nodeCount(): number {
    return this.#runs.liveCount
  }

  get byteLength(): number {
    return this.#runs.byteLength + this.#endings.byteLength + 12 * this.#refs.length
  }

  /** Adds one reference to each of `count` blocks, for a request of this rank. Returns the node where the prompt ends. */
  acquire(request: number, rank: number, column: HashColumn, count: number): number {
    const runs = this.#runs
    let node = -1
    for (let at = 0; at < count; ) {
      let child = runs.find(node, column[2 * at]!, column[2 * at + 1]!)
      if (child < 0) {
        child = runs.add(node, column, at, count - at)
        this.#openNode(child, rank, -1)
        this.#refs[child] = 1
        this.#blocks.gain(rank, count - at)
        at = count
      } else {
        const matched = runs.matched(child, column, at, count)
        if (matched < runs.length[child]!) child = this.#split(child, matched)
        this.#addReference(child, rank)
        at += matched
      }
      node = child
    }
    this.#endings.push(node, request)
    return node
  }

  /** Takes the references of one request back. */
  release(request: number, rank: number, leaf: number): void {
    this.#endings.remove(leaf, request)
    for (let node = leaf; node >= 0; ) {
      const above = this.#runs.parent[node]!
      this.#dropReference(node, rank)
      if (this.#refs[node] === 0) this.#closeNode(node)
      else this.#mergeIntoOnlyChild(node)
      node = above
    }
  }

  /** Gives the blocks of a request that no other request of the rank holds a new weight. */
  weigh(rank: number, leaf: number, units: number): void {
    // References never grow on the way down, so the first shared node ends the exclusive part.
    for (let node = leaf; node >= 0; node = this.#runs.parent[node]!) {
      const list = this.#lists[node]
      if (list === undefined) {
        if (this.#refs[node]! > 1) return
        this.#blocks.weigh(rank, this.#runs.length[node]!, this.#soleUnits[node]!, units)
        this.#soleUnits[node] = units
        continue
      }
      const slot = list.find(rank)
      if (list.refs[slot]! > 1) return
      const before = list.units[slot]!
      if (before < 0) list.fractionalCount++
      this.#blocks.weigh(rank, this.#runs.length[node]!, before, units)
      list.units[slot] = units
    }
  }

  /**
   * Raises `depth[rank]` to the number of leading query blocks that the rank holds; the caller has zeroed it. False:
   * nobody holds the first block. A node whose ranks all go on costs one comparison. Where ranks leave the query's path
   * the cheaper of two lists is walked: all holders of the node, or the requests that leave there. So a query costs its
   * blocks, plus per cut the smaller of ranks and leaving requests; never ranks times blocks.
   */
  matchDepths(column: HashColumn, count: number, depth: Uint32Array, rankOf: Int32Array): boolean {
    const pathLength = (this.#pathLength = this.#walk(column, count))
    for (let step = pathLength - 1; step >= 0; step--) {
      const node = this.#pathNodes[step]!
      const next = step + 1 < pathLength ? this.#pathNodes[step + 1]! : -1
      const holders = this.#holderCount(node)
      if (next >= 0 && holders === this.#holderCount(next)) continue
      const leaving = this.#refs[node]! - (next < 0 ? 0 : this.#refs[next]!)
      const end = this.#pathEnds[step]!
      if (holders <= leaving) this.#raiseHolders(node, end, depth)
      else this.#raiseLeaving(node, next, end, depth, rankOf)
    }
    return pathLength > 0
  }

  /** How crowded the query of the last `matchDepths` is, stretch by stretch. */
  fillCrowds(out: Crowds): void {
    const count = this.#pathLength
    if (out.ends.length < count) {
      out.ends = new Uint32Array(2 * count)
      out.perHolder = new Float64Array(2 * count)
    }
    out.count = count
    for (let step = 0; step < count; step++) {
      const node = this.#pathNodes[step]!
      out.ends[step] = this.#pathEnds[step]!
      out.perHolder[step] = this.#refs[node]! / this.#holderCount(node)
    }
  }

  /** Records the nodes along the query, with the number of query blocks that match up to the end of each. */
  #walk(column: HashColumn, count: number): number {
    const runs = this.#runs
    let length = 0
    let node = -1
    for (let at = 0; at < count; ) {
      const child = runs.find(node, column[2 * at]!, column[2 * at + 1]!)
      if (child < 0) break
      const matched = runs.matched(child, column, at, count)
      at += matched
      if (length === this.#pathNodes.length) {
        this.#pathNodes = growInt32(this.#pathNodes, 2 * length)
        this.#pathEnds = growUint32(this.#pathEnds, 2 * length)
      }
      this.#pathNodes[length] = child
      this.#pathEnds[length] = at
      length++
      if (matched < runs.length[child]!) break // the query leaves inside the run, so what lies below it is another prompt
      node = child
    }
    return length
  }

  #raiseHolders(node: number, end: number, depth: Uint32Array): void {
    const list = this.#lists[node]
    if (list === undefined) {
      const rank = this.#soleRank[node]!
      if (depth[rank]! < end) depth[rank] = end
      return
    }
    const ranks = list.ranks
    for (let slot = 0; slot < ranks.length; slot++) if (depth[ranks[slot]!]! < end) depth[ranks[slot]!] = end
  }

  #raiseLeaving(node: number, next: number, end: number, depth: Uint32Array, rankOf: Int32Array): void {
    for (let request = this.#endings.first(node); request >= 0; request = this.#endings.next(request)) {
      const rank = rankOf[request]!
      if (depth[rank]! < end) depth[rank] = end
    }
    const children = this.#runs.children
    for (let child = children.first(node); child >= 0; child = children.next(child))
      if (child !== next) this.#raiseHolders(child, end, depth)
  }

  #holderCount(node: number): number {
    return this.#lists[node]?.ranks.length ?? 1
  }

  #addReference(node: number, rank: number): void {
    this.#refs[node]!++
    const list = this.#lists[node]
    if (list === undefined) {
      if (this.#soleRank[node] === rank) return
      const several = new HolderList()
      several.add(this.#soleRank[node]!, this.#refs[node]! - 1, this.#soleUnits[node]!)
      several.add(rank, 1, -1)
      this.#lists[node] = several
    } else {
      const slot = list.find(rank)
      if (slot >= 0) {
        list.refs[slot]!++
        return
      }
      list.add(rank, 1, -1)
    }
    this.#blocks.gain(rank, this.#runs.length[node]!)
  }

  #dropReference(node: number, rank: number): void {
    const refs = --this.#refs[node]!
    const length = this.#runs.length[node]!
    const list = this.#lists[node]
    if (list === undefined) {
      if (refs === 0) this.#blocks.lose(rank, length, this.#soleUnits[node]!)
      return
    }
    const slot = list.find(rank)
    if (--list.refs[slot]! > 0) return
    this.#blocks.lose(rank, length, list.units[slot]!)
    list.removeAt(slot)
    if (list.ranks.length > 1) return
    this.#soleRank[node] = list.ranks[0]!
    this.#soleUnits[node] = list.units[0]!
    this.#lists[node] = undefined
  }

  #openNode(node: number, rank: number, units: number): void {
    if (node >= this.#refs.length) {
      const capacity = roomFor(node + 1, this.#refs.length)
      this.#refs = growUint32(this.#refs, capacity)
      this.#soleRank = growInt32(this.#soleRank, capacity)
      this.#soleUnits = growInt32(this.#soleUnits, capacity)
    }
    this.#soleRank[node] = rank
    this.#soleUnits[node] = units
    this.#lists[node] = undefined
  }

  #closeNode(node: number): void {
    this.#runs.remove(node)
    this.#lists[node] = undefined
  }

  #split(node: number, count: number): number {
    const upper = this.#runs.split(node, count)
    this.#openNode(upper, this.#soleRank[node]!, this.#soleUnits[node]!)
    this.#refs[upper] = this.#refs[node]!
    this.#lists[upper] = this.#lists[node]?.clone()
    return upper
  }

  /** Once everybody who holds a node goes on into its only child, the cut between them serves nobody. */
  #mergeIntoOnlyChild(node: number): void {
    if (!this.#runs.children.isSingle(node)) return
    const child = this.#runs.children.first(node)
    if (this.#refs[child] !== this.#refs[node]) return
    const list = this.#lists[node]
    if (list === undefined) {
      if (this.#soleUnits[node] !== this.#soleUnits[child]) return
    } else if (list.fractionalCount > 0 || this.#lists[child]!.fractionalCount > 0) return
    this.#runs.merge(child)
    this.#lists[node] = undefined
  }
}
