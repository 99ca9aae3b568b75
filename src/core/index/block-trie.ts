/**
 * Blocks as nodes of a trie in typed arrays. Nodes lie in chunks of 32; a chunk belongs to one run and grows and shrinks
 * at its tail, so node i + 1 is a child of node i, and only the first node of a chunk has its parent named.
 *
 *   node  chunk * 32 + index, the root is 0 (chunk 0 stays unused)
 */
import { HolderSets } from './holder-sets.js'
import { IdTable, mixWords } from './id-table.js'

const chunkBits = 5
const chunkNodes = 1 << chunkBits
const inChunk = chunkNodes - 1
export const root = 0

export class BlockTrie {
  readonly sets = new HolderSets()
  readonly #seed: number
  #capacity = 64 * chunkNodes
  localLo = new Uint32Array(this.#capacity)
  localHi = new Uint32Array(this.#capacity)
  externalLo = new Uint32Array(this.#capacity)
  externalHi = new Uint32Array(this.#capacity)
  holders = new Int32Array(this.#capacity)
  /** Children in other chunks. */
  #kids = new Uint32Array(this.#capacity)
  #len = new Uint8Array(this.#capacity >>> chunkBits)
  #parent = new Uint32Array(this.#capacity >>> chunkBits)
  #depth = new Uint32Array(this.#capacity >>> chunkBits)
  #finds = new Uint32Array(this.#capacity >>> chunkBits)
  readonly #edges = new IdTable()
  readonly #free: number[] = []
  #chunks = 1
  #nodes = 0

  constructor(seed: number) {
    this.#seed = seed
  }

  get nodeCount(): number {
    return this.#nodes
  }

  get bytesUsed(): number {
    return this.#capacity * 24 + this.#len.length * 13 + this.#edges.bytesUsed + this.sets.bytesUsed
  }

  parentOf(node: number): number {
    return (node & inChunk) === 0 ? this.#parent[node >>> chunkBits]! : node - 1
  }

  /** Blocks from the root, this one included. */
  depthOf(node: number): number {
    return this.#depth[node >>> chunkBits]! + (node & inChunk) + 1
  }

  childOf(node: number, lo: number, hi: number): number {
    const next = node + 1
    if (node !== root && (next & inChunk) !== 0 && (next & inChunk) < this.#len[node >>> chunkBits]!) {
      if (this.localLo[next] === lo && this.localHi[next] === hi) return next
    }
    return node === root || this.#kids[node]! > 0 ? this.#edgeOf(node, lo, hi) : 0
  }

  /** A child that does not exist yet, without holders. */
  addChild(parent: number, lo: number, hi: number): number {
    const chunk = parent >>> chunkBits
    const index = (parent & inChunk) + 1
    let node = parent + 1
    if (parent === root || index === chunkNodes || this.#len[chunk] !== index) node = this.#newChunk(parent, lo, hi)
    this.#len[node >>> chunkBits] = (node & inChunk) + 1
    this.localLo[node] = lo
    this.localHi[node] = hi
    this.holders[node] = 0
    this.#kids[node] = 0
    this.#nodes++
    return node
  }

  /** Retains the new set before it releases the old one. */
  setHolders(node: number, set: number): void {
    const old = this.holders[node]!
    this.sets.retain(set)
    this.holders[node] = set
    this.sets.release(old)
  }

  /** Frees the node if nobody holds it and nothing hangs on it, and then its ancestors as far as that holds for them. */
  tryFree(from: number): void {
    let node = from
    while (node !== root && this.holders[node] === 0 && this.#kids[node] === 0) {
      const chunk = node >>> chunkBits
      if ((node & inChunk) + 1 !== this.#len[chunk]) return
      const parent = this.parentOf(node)
      this.#nodes--
      this.#len[chunk]!--
      if (this.#len[chunk] === 0) {
        this.#edges.deleteId(this.#edgeHash(parent, this.localLo[node]!, this.localHi[node]!), node)
        if (parent !== root) this.#kids[parent]!--
        this.#free.push(chunk)
      }
      node = parent
    }
  }

  /** A lookup has come to this node; it counts for the chunk whose first node it is. The next chunk may have the next number. */
  noteEntered(node: number): void {
    if ((node & inChunk) === 0) this.#finds[node >>> chunkBits]!++
  }

  /** Chunks in use as [first node, nodes, parent, lookups], those nearer to the root first. */
  runs(): { first: number; count: number; parent: number; finds: number }[] {
    const runs = []
    for (let chunk = 1; chunk < this.#chunks; chunk++) {
      const count = this.#len[chunk]!
      if (count > 0)
        runs.push({ first: chunk << chunkBits, count, parent: this.#parent[chunk]!, finds: this.#finds[chunk]! })
    }
    return runs.sort((a, b) => this.depthOf(a.first) - this.depthOf(b.first))
  }

  #newChunk(parent: number, lo: number, hi: number): number {
    const chunk = this.#free.pop() ?? this.#chunks++
    if (chunk << chunkBits >= this.#capacity) this.#grow()
    const node = chunk << chunkBits
    this.#parent[chunk] = parent
    this.#depth[chunk] = parent === root ? 0 : this.depthOf(parent)
    this.#finds[chunk] = 0
    this.#edges.add(this.#edgeHash(parent, lo, hi), node)
    if (parent !== root) this.#kids[parent]!++
    return node
  }

  #edgeOf(parent: number, lo: number, hi: number): number {
    const hash = this.#edgeHash(parent, lo, hi)
    for (let slot = this.#edges.first(hash); slot >= 0; slot = this.#edges.next(slot, hash)) {
      const node = this.#edges.idAt(slot)
      if (this.localLo[node] === lo && this.localHi[node] === hi && this.#parent[node >>> chunkBits] === parent)
        return node
    }
    return 0
  }

  #edgeHash(parent: number, lo: number, hi: number): number {
    return mixWords(this.#seed, parent, lo, hi, 0)
  }

  #grow(): void {
    this.#capacity *= 2
    this.localLo = wider(this.localLo, this.#capacity)
    this.localHi = wider(this.localHi, this.#capacity)
    this.externalLo = wider(this.externalLo, this.#capacity)
    this.externalHi = wider(this.externalHi, this.#capacity)
    this.#kids = wider(this.#kids, this.#capacity)
    const holders = new Int32Array(this.#capacity)
    holders.set(this.holders)
    this.holders = holders
    const chunks = this.#capacity >>> chunkBits
    const len = new Uint8Array(chunks)
    len.set(this.#len)
    this.#len = len
    this.#parent = wider(this.#parent, chunks)
    this.#depth = wider(this.#depth, chunks)
    this.#finds = wider(this.#finds, chunks)
  }
}

function wider(column: Uint32Array, length: number): Uint32Array<ArrayBuffer> {
  const it = new Uint32Array(length)
  it.set(column)
  return it
}
