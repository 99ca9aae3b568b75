/**
 * What lies in one tier below the device. Not a tree: a set of edges, because engines move single blocks between tiers
 * and the blocks around them may lie elsewhere. Follows lib/kv-router/src/indexer/lower_tier.rs at 1.5.0.
 *
 *   edge   (parent's external hash or root, local hash) -> the child's external hash      one per pair, first one wins
 *   hold   one owner holds one edge                                                       one per (owner, child)
 *
 * Every owner has a random 64-bit sign and an edge the exclusive or of its owners' signs, so that a walk sees at once that
 * the next edge has the same owners. Two sets that differ share a sign once in 2^64.
 *
 * 40 bytes per edge, 32 per hold (owner, edge, and its places in the lists of the edge, of the owner and by age), 16 to
 * 32 per edge and per hold in the tables. Storing, removing and walking a block each take one or two table lookups.
 */
import { type HashColumn, hashCount, type Rank } from '../protocol/index.js'
import { IdTable, mixWords } from './id-table.js'
import { LinkedRecords, widened } from './linked-records.js'
import type { BlockFact } from './prefix-index.js'
import { factKinds, factWords } from './prefix-index.js'
import type { Owner, TierOwners } from './tier-owners.js'

export interface LowerTierOptions {
  /** Keeps table positions unpredictable to those who choose hashes. */
  readonly seed: number
  /** Holds over all owners; past it the oldest goes, and is counted. */
  readonly blocksMax: number
}

const edgeWords = 10 // parentLo, parentHi, localLo, localHi, childLo, childHi, hasParent, first hold + 1, sign of its owners
const edgeHead = 7
const segmentBits = 13 // 320 KB
const inSegment = (1 << segmentBits) - 1
export const edgeChild = 4
export const edgeSign = 8 // edges with the same owners share it
const ownerWords = 4 // first hold + 1, count of holds, sign
const ownerSign = 2
const holdOwner = 0 // words of a hold: owner, edge, then next and previous in each of three rings
const holdEdge = 1
const nextOfEdge = 2
const ofEdge = 0
const ofOwner = 1
const byAge = 2
const noParent = 0
const withParent = 1

export class LowerTier {
  readonly #seed: number
  readonly #blocksMax: number
  /** Edges lie in segments: only the first is ever copied, while it grows. */
  readonly #edges: Uint32Array[] = [new Uint32Array(16 * edgeWords)]
  readonly #freeEdges: number[] = []
  #edgeEnd = 0
  readonly #holds = new LinkedRecords(2, 3)
  readonly #edgeTable = new IdTable()
  readonly #holdTable = new IdTable()
  #owners = new Uint32Array(ownerWords * 16)
  readonly #oldest = new Uint32Array(1)
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
    const tables = this.#edgeTable.bytesUsed + this.#holdTable.bytesUsed
    const edges = this.#edges.reduce((sum, segment) => sum + segment.byteLength, 0)
    return edges + this.#holds.bytesUsed + this.#owners.byteLength + tables
  }

  blocksOf(owner: Owner): number {
    return ownerWords * owner < this.#owners.length ? this.#owners[ownerWords * owner + 1]! : 0
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
    for (let hold = this.#firstOf(owner); hold >= 0; hold = this.#firstOf(owner), count++) this.#drop(hold)
    return count
  }

  /** The edge from the root, or from a block, for this content; -1 where there is none. */
  edgeFrom(hasParent: boolean, parentLo: number, parentHi: number, localLo: number, localHi: number): number {
    return this.#findEdge(hasParent ? withParent : noParent, parentLo, parentHi, localLo, localHi)
  }

  /**
   * The edge from a block that `edge` leads to. A chain that was stored at once lies side by side (backwards where it
   * took the places of a removed one), so the neighbours are tried before the table: no hashing, memory read in order.
   */
  edgeAfter(edge: number, lo: number, hi: number, localLo: number, localHi: number): number {
    const edges = this.#edges[edge >>> segmentBits]!
    const at = placeOf(edge)
    // A neighbour in another segment, one in thousands, is found by the table.
    if (isEdgeFrom(edges, at + edgeWords, lo, hi, localLo, localHi)) return edge + 1
    if (isEdgeFrom(edges, at - edgeWords, lo, hi, localLo, localHi)) return edge - 1
    return this.#findEdge(withParent, lo, hi, localLo, localHi)
  }

  childLo(edge: number): number {
    return this.#edges[edge >>> segmentBits]![placeOf(edge) + 4]!
  }

  childHi(edge: number): number {
    return this.#edges[edge >>> segmentBits]![placeOf(edge) + 5]!
  }

  /** The words around an edge, which begins at `placeOf(edge)`: for the loop of a lookup, which reads four of them. */
  wordsOf(edge: number): Uint32Array {
    return this.#edges[edge >>> segmentBits]!
  }

  /**
   * Writes `mark` for every rank that owns the edge, itself or through its cache owner. It reads the ring
   * directly: this is the innermost loop of a lookup.
   */
  markRanks(edge: number, owners: TierOwners, marks: Uint32Array, mark: number): void {
    const holds = this.#holds
    const first = this.#edges[edge >>> segmentBits]![placeOf(edge) + edgeHead]! - 1
    let hold = first
    do {
      const owner = holds.get(hold, holdOwner)
      const rank = (owner & 1) === 0 ? owner >>> 1 : owners.rankOf(owner)
      if (rank >= 0 && rank < marks.length) marks[rank] = mark
      hold = holds.get(hold, nextOfEdge)
    } while (hold !== first)
  }

  /** Does the rank own the edge, itself or through its cache owner? */
  isOwnedBy(edge: number, owners: TierOwners, rank: Rank): boolean {
    const holds = this.#holds
    const first = this.#edges[edge >>> segmentBits]![placeOf(edge) + edgeHead]! - 1
    let hold = first
    do {
      if (owners.rankOf(holds.get(hold, holdOwner)) === rank) return true
      hold = holds.get(hold, nextOfEdge)
    } while (hold !== first)
    return false
  }

  /** Everything that one owner holds, in order of arrival. The tier must not change meanwhile; `fact` is reused. */
  *facts(owner: Owner): Iterable<Readonly<BlockFact>> {
    const fact = { hasParent: false, parentLo: 0, parentHi: 0, localLo: 0, localHi: 0, externalLo: 0, externalHi: 0 }
    for (
      let hold = this.#firstOf(owner);
      hold >= 0;
      hold = this.#holds.after(ofOwner, this.#owners, ownerWords * owner, hold)
    ) {
      const edge = this.#edgeOf(hold)
      const edges = this.#edges[edge >>> segmentBits]!
      const at = placeOf(edge)
      fact.parentLo = edges[at]!
      fact.parentHi = edges[at + 1]!
      fact.localLo = edges[at + 2]!
      fact.localHi = edges[at + 3]!
      fact.externalLo = edges[at + 4]!
      fact.externalHi = edges[at + 5]!
      fact.hasParent = edges[at + 6] === withParent
      yield fact
    }
  }

  /** As `PrefixIndex.describe`: an edge needs no parent that is held, so only names that nobody knows are absent. */
  describe(owner: Owner, names: HashColumn, count: number, facts: Uint32Array): void {
    for (let index = 0; index < count; index++) {
      const at = factWords * index
      const hold = this.#findHold(owner, names[2 * index]!, names[2 * index + 1]!)
      facts[at + 6] = names[2 * index]!
      facts[at + 7] = names[2 * index + 1]!
      facts[at] = factKinds.absent
      if (hold < 0) continue
      const edge = this.#edgeOf(hold)
      const edges = this.#edges[edge >>> segmentBits]!
      const from = placeOf(edge)
      facts[at] = edges[from + 6] === withParent ? factKinds.below : factKinds.atRoot
      for (let word = 0; word < 4; word++) facts[at + 2 + word] = edges[from + word]!
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
    if (hold >= 0) return this.#edgeOf(hold) === edge
    if (edge >= 0) {
      if (this.childLo(edge) !== childLo || this.childHi(edge) !== childHi) return false
    } else edge = this.#newEdge(kind, parentLo, parentHi, localLo, localHi, childLo, childHi)
    this.#newHold(owner, edge)
    if (this.#holdTable.size > this.#blocksMax) {
      this.#drop(this.#oldest[0]! - 1)
      this.#evictedBlocks++
    }
    return true
  }

  #findEdge(kind: number, parentLo: number, parentHi: number, localLo: number, localHi: number): number {
    const table = this.#edgeTable
    const hash = this.#edgeHash(kind, parentLo, parentHi, localLo, localHi)
    for (let slot = table.first(hash); slot >= 0; slot = table.next(slot, hash)) {
      const edge = table.idAt(slot)
      const edges = this.#edges[edge >>> segmentBits]!
      const at = placeOf(edge)
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
      if (this.#ownerOf(hold) !== owner) continue
      const edge = this.#edgeOf(hold)
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
    this.#makeRoomFor(edge)
    const edges = this.#edges[edge >>> segmentBits]!
    const at = placeOf(edge)
    edges[at] = parentLo
    edges[at + 1] = parentHi
    edges[at + 2] = localLo
    edges[at + 3] = localHi
    edges[at + 4] = childLo
    edges[at + 5] = childHi
    edges[at + 6] = kind
    edges[at + edgeHead] = edges[at + edgeSign] = edges[at + edgeSign + 1] = 0
    this.#edgeTable.add(this.#edgeHash(kind, parentLo, parentHi, localLo, localHi), edge)
    return edge
  }

  #makeRoomFor(edge: number): void {
    const segment = edge >>> segmentBits
    const own = this.#edges[segment]
    if (own === undefined) this.#edges.push(new Uint32Array(edgeWords << segmentBits))
    else if (placeOf(edge) >= own.length) this.#edges[segment] = widened(own, 2 * own.length)
  }

  #newHold(owner: Owner, edge: number): void {
    const hold = this.#holds.allocate()
    const ownerAt = ownerWords * owner
    if (ownerAt + ownerWords > this.#owners.length) this.#owners = widened(this.#owners, ownerAt + ownerWords)
    if (this.#owners[ownerAt] === 0) this.#signOwner(owner)
    this.#holds.set(hold, holdOwner, owner)
    this.#holds.set(hold, holdEdge, edge)
    this.#holdTable.add(this.#holdHash(owner, this.childLo(edge), this.childHi(edge)), hold)
    this.#holds.append(ofEdge, this.#edges[edge >>> segmentBits]!, placeOf(edge) + edgeHead, hold)
    this.#holds.append(ofOwner, this.#owners, ownerAt, hold)
    this.#holds.append(byAge, this.#oldest, 0, hold)
    this.#owners[ownerAt + 1]!++
    this.#flipSign(edge, owner)
  }

  #drop(hold: number): void {
    const owner = this.#ownerOf(hold)
    const edge = this.#edgeOf(hold)
    const edges = this.#edges[edge >>> segmentBits]!
    const at = placeOf(edge)
    this.#holdTable.deleteId(this.#holdHash(owner, this.childLo(edge), this.childHi(edge)), hold)
    this.#holds.remove(ofEdge, edges, at + edgeHead, hold)
    this.#holds.remove(ofOwner, this.#owners, ownerWords * owner, hold)
    this.#holds.remove(byAge, this.#oldest, 0, hold)
    this.#holds.release(hold)
    this.#owners[ownerWords * owner + 1]!--
    this.#flipSign(edge, owner)
    if (edges[at + edgeHead] !== 0) return
    const hash = this.#edgeHash(edges[at + 6]!, edges[at]!, edges[at + 1]!, edges[at + 2]!, edges[at + 3]!)
    this.#edgeTable.deleteId(hash, edge)
    this.#freeEdges.push(edge)
  }

  /** A sign depends on the seed and the owner alone, so an owner that comes back has the sign it had. */
  #signOwner(owner: Owner): void {
    this.#owners[ownerWords * owner + ownerSign] = mixWords(this.#seed, owner, 1, 0, 0)
    this.#owners[ownerWords * owner + ownerSign + 1] = mixWords(this.#seed, owner, 2, 0, 0)
  }

  #flipSign(edge: number, owner: Owner): void {
    const edges = this.#edges[edge >>> segmentBits]!
    const at = placeOf(edge) + edgeSign
    edges[at]! ^= this.#owners[ownerWords * owner + ownerSign]!
    edges[at + 1]! ^= this.#owners[ownerWords * owner + ownerSign + 1]!
  }

  #firstOf(owner: Owner): number {
    return ownerWords * owner < this.#owners.length ? this.#owners[ownerWords * owner]! - 1 : -1
  }

  #ownerOf(hold: number): Owner {
    return this.#holds.get(hold, holdOwner)
  }

  #edgeOf(hold: number): number {
    return this.#holds.get(hold, holdEdge)
  }

  #edgeHash(kind: number, parentLo: number, parentHi: number, localLo: number, localHi: number): number {
    return mixWords(this.#seed ^ kind, parentLo, parentHi, localLo, localHi)
  }

  #holdHash(owner: Owner, childLo: number, childHi: number): number {
    return mixWords(this.#seed, owner, childLo, childHi, 0)
  }
}

/** Where an edge begins in its segment. */
export function placeOf(edge: number): number {
  return edgeWords * (edge & inSegment)
}

/** A free edge keeps its words, but nobody holds it; outside of the segment there is none. */
function isEdgeFrom(
  edges: Uint32Array,
  at: number,
  parentLo: number,
  parentHi: number,
  localLo: number,
  localHi: number,
): boolean {
  if (at < 0 || at >= edges.length || edges[at] !== parentLo || edges[at + 1] !== parentHi) return false
  if (edges[at + 2] !== localLo || edges[at + 3] !== localHi) return false
  return edges[at + 6] === withParent && edges[at + edgeHead] !== 0
}
