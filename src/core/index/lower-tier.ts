/**
 * What lies in one tier below the device. Not a tree: a set of edges, because engines move single blocks between tiers
 * and the blocks around them may lie elsewhere. Follows lib/kv-router/src/indexer/lower_tier.rs at 1.5.0.
 *
 *   edge   (parent's external hash or root, local hash) -> the child's external hash      one per pair, first one wins
 *   hold   one owner holds one edge                                                       one per (owner, child)
 *
 * Columns: 32 bytes per edge, 8 per hold and 24 for its three lists (of the edge, of the owner, by age), 16 or more per
 * edge and per hold in the tables. Storing, removing and walking a block each take one or two table lookups.
 */
import { type HashColumn, hashCount } from '../protocol/index.js'
import { IdLists, widened } from './id-lists.js'
import { IdTable, mixWords } from './id-table.js'
import type { Owner } from './tier-owners.js'

/** What one owner holds, for dumps. Reused between steps. */
export interface EdgeFact {
  hasParent: boolean
  parentLo: number
  parentHi: number
  localLo: number
  localHi: number
  externalLo: number
  externalHi: number
}

export interface LowerTierOptions {
  /** Keeps table positions unpredictable to those who choose hashes. */
  readonly seed: number
  /** Holds over all owners; past it the oldest goes, and is counted. */
  readonly blocksMax: number
}

const edgeWords = 8 // parentLo, parentHi, localLo, localHi, childLo, childHi, hasParent, unused
const noParent = 0
const withParent = 1

export class LowerTier {
  readonly #seed: number
  readonly #blocksMax: number
  #edges = new Uint32Array(edgeWords * 16)
  #holds = new Uint32Array(2 * 16) // owner, edge
  readonly #freeEdges: number[] = []
  readonly #freeHolds: number[] = []
  #edgeEnd = 0
  #holdEnd = 0
  readonly #edgeTable = new IdTable()
  readonly #holdTable = new IdTable()
  readonly #ofEdge = new IdLists()
  readonly #ofOwner = new IdLists()
  readonly #byAge = new IdLists()
  #blocksOf = new Uint32Array(16) // by owner
  #evictedBlocks = 0
  #conflicts = 0

  constructor(options: LowerTierOptions) {
    this.#seed = options.seed
    this.#blocksMax = Math.max(1, options.blocksMax)
  }

  /** Holds over all owners. */
  get heldBlocks(): number {
    return this.#holdTable.size
  }

  get distinctBlocks(): number {
    return this.#edgeTable.size
  }

  get evictedBlocks(): number {
    return this.#evictedBlocks
  }

  /** Stores that ended early because an edge or a block was known otherwise. */
  get conflicts(): number {
    return this.#conflicts
  }

  get bytesUsed(): number {
    const lists = this.#ofEdge.bytesUsed + this.#ofOwner.bytesUsed + this.#byAge.bytesUsed
    const tables = this.#edgeTable.bytesUsed + this.#holdTable.bytesUsed
    return this.#edges.byteLength + this.#holds.byteLength + this.#blocksOf.byteLength + lists + tables
  }

  blocksOf(owner: Owner): number {
    return owner < this.#blocksOf.length ? this.#blocksOf[owner]! : 0
  }

  /**
   * Blocks in chain order below a parent, which need not be known. Stops at the first block that contradicts what is
   * known: the owner has it under another edge, or the edge leads elsewhere. Answers how many blocks fitted.
   */
  store(
    owner: Owner,
    hasParent: boolean,
    parentLo: number,
    parentHi: number,
    external: HashColumn,
    local: HashColumn,
    count: number = hashCount(external),
    externalAt = 0, // in words: the two columns may be parts of one buffer
    localAt = 0,
  ): number {
    let kind = hasParent ? withParent : noParent
    let lo = hasParent ? parentLo : 0
    let hi = hasParent ? parentHi : 0
    for (let block = 0; block < count; block++) {
      const childLo = external[externalAt + 2 * block]!
      const childHi = external[externalAt + 2 * block + 1]!
      const localLo = local[localAt + 2 * block]!
      const localHi = local[localAt + 2 * block + 1]!
      if (!this.#storeOne(owner, kind, lo, hi, localLo, localHi, childLo, childHi)) {
        this.#conflicts++
        return block
      }
      kind = withParent
      lo = childLo
      hi = childHi
    }
    return count
  }

  /** Takes the owner off each block's edge; edges behind a hole stay. Answers how many hashes were unknown. */
  remove(owner: Owner, external: HashColumn, count: number = hashCount(external), externalAt = 0): number {
    let unknown = 0
    for (let block = 0; block < count; block++) {
      const at = externalAt + 2 * block
      const hold = this.#findHold(owner, external[at]!, external[at + 1]!)
      if (hold < 0) unknown++
      else this.#drop(hold)
    }
    return unknown
  }

  /** Forgets all that one owner holds; answers how many blocks that were. */
  clearOwner(owner: Owner): number {
    let count = 0
    for (let hold = this.#ofOwner.first(owner); hold >= 0; hold = this.#ofOwner.first(owner), count++) this.#drop(hold)
    return count
  }

  /** The edge from the root, or from a block, for this content; -1 where there is none. */
  edgeFrom(hasParent: boolean, parentLo: number, parentHi: number, localLo: number, localHi: number): number {
    return this.#findEdge(hasParent ? withParent : noParent, parentLo, parentHi, localLo, localHi)
  }

  childLo(edge: number): number {
    return this.#edges[edgeWords * edge + 4]!
  }

  childHi(edge: number): number {
    return this.#edges[edgeWords * edge + 5]!
  }

  /** An edge's holds, one by one: -1 ends the list. */
  firstHold(edge: number): number {
    return this.#ofEdge.first(edge)
  }

  nextHold(edge: number, hold: number): number {
    return this.#ofEdge.after(edge, hold)
  }

  ownerOfHold(hold: number): Owner {
    return this.#holds[2 * hold]!
  }

  /** Everything that one owner holds, in order of arrival. The tier must not change meanwhile; `fact` is reused. */
  *facts(owner: Owner): Iterable<Readonly<EdgeFact>> {
    const fact = { hasParent: false, parentLo: 0, parentHi: 0, localLo: 0, localHi: 0, externalLo: 0, externalHi: 0 }
    for (let hold = this.#ofOwner.first(owner); hold >= 0; hold = this.#ofOwner.after(owner, hold)) {
      const at = edgeWords * this.#holds[2 * hold + 1]!
      fact.parentLo = this.#edges[at]!
      fact.parentHi = this.#edges[at + 1]!
      fact.localLo = this.#edges[at + 2]!
      fact.localHi = this.#edges[at + 3]!
      fact.externalLo = this.#edges[at + 4]!
      fact.externalHi = this.#edges[at + 5]!
      fact.hasParent = this.#edges[at + 6] === withParent
      yield fact
    }
  }

  #storeOne(
    owner: Owner,
    kind: number,
    parentLo: number,
    parentHi: number,
    localLo: number,
    localHi: number,
    childLo: number,
    childHi: number,
  ): boolean {
    let edge = this.#findEdge(kind, parentLo, parentHi, localLo, localHi)
    const hold = this.#findHold(owner, childLo, childHi)
    if (hold >= 0) return this.#holds[2 * hold + 1] === edge
    if (edge >= 0) {
      if (this.childLo(edge) !== childLo || this.childHi(edge) !== childHi) return false
    } else edge = this.#newEdge(kind, parentLo, parentHi, localLo, localHi, childLo, childHi)
    this.#newHold(owner, edge)
    if (this.#holdTable.size > this.#blocksMax) {
      this.#drop(this.#byAge.first(0))
      this.#evictedBlocks++
    }
    return true
  }

  #findEdge(kind: number, parentLo: number, parentHi: number, localLo: number, localHi: number): number {
    const table = this.#edgeTable
    const edges = this.#edges
    const hash = this.#edgeHash(kind, parentLo, parentHi, localLo, localHi)
    for (let slot = table.first(hash); slot >= 0; slot = table.next(slot, hash)) {
      const edge = table.idAt(slot)
      const at = edgeWords * edge
      if (edges[at] === parentLo && edges[at + 1] === parentHi && edges[at + 2] === localLo)
        if (edges[at + 3] === localHi && edges[at + 6] === kind) return edge
    }
    return -1
  }

  #findHold(owner: Owner, childLo: number, childHi: number): number {
    const table = this.#holdTable
    const hash = this.#holdHash(owner, childLo, childHi)
    for (let slot = table.first(hash); slot >= 0; slot = table.next(slot, hash)) {
      const hold = table.idAt(slot)
      if (this.#holds[2 * hold] !== owner) continue
      const edge = this.#holds[2 * hold + 1]!
      if (this.childLo(edge) === childLo && this.childHi(edge) === childHi) return hold
    }
    return -1
  }

  #newEdge(
    kind: number,
    parentLo: number,
    parentHi: number,
    localLo: number,
    localHi: number,
    childLo: number,
    childHi: number,
  ): number {
    const edge = this.#freeEdges.pop() ?? this.#edgeEnd++
    const at = edgeWords * edge
    if (at + edgeWords > this.#edges.length) this.#edges = widened(this.#edges, at + edgeWords)
    const edges = this.#edges
    edges[at] = parentLo
    edges[at + 1] = parentHi
    edges[at + 2] = localLo
    edges[at + 3] = localHi
    edges[at + 4] = childLo
    edges[at + 5] = childHi
    edges[at + 6] = kind
    this.#edgeTable.add(this.#edgeHash(kind, parentLo, parentHi, localLo, localHi), edge)
    return edge
  }

  #newHold(owner: Owner, edge: number): void {
    const hold = this.#freeHolds.pop() ?? this.#holdEnd++
    if (2 * hold + 2 > this.#holds.length) this.#holds = widened(this.#holds, 2 * hold + 2)
    if (owner >= this.#blocksOf.length) this.#blocksOf = widened(this.#blocksOf, owner + 1)
    this.#holds[2 * hold] = owner
    this.#holds[2 * hold + 1] = edge
    this.#holdTable.add(this.#holdHash(owner, this.childLo(edge), this.childHi(edge)), hold)
    this.#ofEdge.append(edge, hold)
    this.#ofOwner.append(owner, hold)
    this.#byAge.append(0, hold)
    this.#blocksOf[owner]!++
  }

  #drop(hold: number): void {
    const owner = this.#holds[2 * hold]!
    const edge = this.#holds[2 * hold + 1]!
    this.#holdTable.deleteId(this.#holdHash(owner, this.childLo(edge), this.childHi(edge)), hold)
    this.#ofEdge.remove(edge, hold)
    this.#ofOwner.remove(owner, hold)
    this.#byAge.remove(0, hold)
    this.#blocksOf[owner]!--
    this.#freeHolds.push(hold)
    if (this.#ofEdge.first(edge) >= 0) return
    const at = edgeWords * edge
    const edges = this.#edges
    const hash = this.#edgeHash(edges[at + 6]!, edges[at]!, edges[at + 1]!, edges[at + 2]!, edges[at + 3]!)
    this.#edgeTable.deleteId(hash, edge)
    this.#freeEdges.push(edge)
  }

  #edgeHash(kind: number, parentLo: number, parentHi: number, localLo: number, localHi: number): number {
    return mixWords(this.#seed ^ kind, parentLo, parentHi, localLo, localHi)
  }

  #holdHash(owner: Owner, childLo: number, childHi: number): number {
    return mixWords(this.#seed, owner, childLo, childHi, 0)
  }
}
