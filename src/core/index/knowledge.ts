/** Who holds which block under which name, and since when: the facts behind the TypeScript index. */
import type { Rank } from '../protocol/index.js'
import { BlockTrie, root } from './block-trie.js'
import type { IndexStats } from './prefix-index.js'
import { RankNames } from './rank-names.js'
import { epochSizeOf, type ShardOptions } from './shard.js'

export class Knowledge {
  readonly trie: BlockTrie
  /** Grows with every name that is added: tells a store that changed something from one that did not. */
  changes = 0
  readonly #seed: number
  readonly #ranks: (RankNames | undefined)[] = []
  #maxBlocks = Number.POSITIVE_INFINITY
  #maxPerRank = Number.POSITIVE_INFINITY
  #held = 0
  #evicted = 0
  #epoch = 0
  #epochFill = 0
  #epochSize = Number.POSITIVE_INFINITY

  constructor(options: ShardOptions) {
    this.#seed = options.seedLo ^ options.seedHi
    this.trie = new BlockTrie(options.seedLo)
    this.limit(options)
  }

  limit(options: Partial<ShardOptions>): void {
    this.#maxBlocks = options.isShard ? Number.POSITIVE_INFINITY : (options.maxBlocks ?? Number.POSITIVE_INFINITY)
    this.#maxPerRank = options.maxBlocksPerRank ?? Number.POSITIVE_INFINITY
    this.#epochSize = options.isShard ? Number.POSITIVE_INFINITY : epochSizeOf(options)
  }

  openEpoch(epoch: number): void {
    this.#epoch = epoch
  }

  /** Infinity when nobody holds anything. */
  oldestEpoch(): number {
    const rank = this.#oldestRank()
    return rank < 0 ? Number.POSITIVE_INFINITY : this.#ranks[rank]!.oldest
  }

  evictOldest(): void {
    const rank = this.#oldestRank()
    if (rank >= 0) this.#evictFrom(rank)
  }

  get rankCount(): number {
    return this.#ranks.length
  }

  names(rank: Rank): RankNames | undefined {
    return this.#ranks[rank]
  }

  find(rank: Rank, lo: number, hi: number): number {
    return this.#ranks[rank]?.find(lo, hi) ?? 0
  }

  /** What the rank calls a block that it holds. */
  nameOf(rank: Rank, node: number): [lo: number, hi: number] {
    const { externalLo, externalHi } = this.trie
    const own: [number, number] = [externalLo[node]!, externalHi[node]!]
    if (this.find(rank, own[0], own[1]) === node) return own
    return this.#ranks[rank]?.aliases.get(node)?.[0] ?? own
  }

  /** A block, drawn as often as ranks hold it; the root where nobody holds anything. */
  drawHeld(random: (below: number) => number): number {
    let hold = random(this.#held)
    const names = this.#ranks.find((it) => it !== undefined && (hold -= it.size) < 0)
    if (!names) return root
    for (;;) {
      const node = names.drawNode(random)
      if (node !== 0) return node
    }
  }

  /** All names of a rank, parents before children. */
  namesByDepth(rank: Rank): readonly (readonly [lo: number, hi: number, node: number, epoch: number])[] {
    const names = this.#ranks[rank]?.entries() ?? []
    return names.sort((a, b) => this.trie.depthOf(a[2]) - this.trie.depthOf(b[2]))
  }

  /** How many blocks of a store may come in, and opens the epoch they belong to. */
  admit(given: number): number {
    const count = Math.min(given, this.#maxBlocks, this.#maxPerRank)
    this.#evicted += given - count
    if (this.#epochFill > 0 && this.#epochFill + count > this.#epochSize) {
      this.#epoch++
      this.#epochFill = 0
    }
    this.#epochFill += count
    return count
  }

  /** The rank holds this child of `parent` under this name. Answers the child. */
  hold(rank: Rank, parent: number, localLo: number, localHi: number, lo: number, hi: number): number {
    const child = this.trie.childOf(parent, localLo, localHi) || this.trie.addChild(parent, localLo, localHi)
    this.holdNode(rank, child, lo, hi)
    return child
  }

  holdNode(rank: Rank, node: number, lo: number, hi: number): void {
    const names = (this.#ranks[rank] ??= new RankNames(this.#seed))
    const old = names.find(lo, hi)
    if (old === node) return
    const { trie } = this
    const set = trie.holders[node]!
    if (set === 0) {
      trie.externalLo[node] = lo // a block without holders has no name left
      trie.externalHi[node] = hi
    }
    // Into the set first: what goes with the old name cannot take this block along.
    if (!trie.sets.has(set, rank)) trie.setHolders(node, trie.sets.flip(set, rank))
    if (old !== 0) this.#dropName(rank, names, old, lo, hi)
    if (names.size === 0) names.oldest = this.#epoch
    names.add(lo, hi, node, this.#epoch)
    if (trie.externalLo[node] !== lo || trie.externalHi[node] !== hi) names.addAlias(node, lo, hi)
    this.#held++
    this.changes++
  }

  /** Takes one name away; answers whether the rank used it. */
  drop(rank: Rank, lo: number, hi: number): boolean {
    const names = this.#ranks[rank]
    const node = names?.find(lo, hi) ?? 0
    if (!names || node === 0) return false
    this.#dropName(rank, names, node, lo, hi)
    return true
  }

  clearRank(rank: Rank): number {
    const names = this.#ranks[rank]
    if (!names) return 0
    const entries = names.entries()
    for (const [lo, hi] of entries) this.drop(rank, lo, hi)
    this.#ranks[rank] = undefined
    return entries.length
  }

  enforceCaps(rank: Rank): void {
    while (this.#ranks[rank]!.size > this.#maxPerRank) this.#evictFrom(rank)
    while (this.#held > this.#maxBlocks) this.evictOldest()
  }

  stats(): IndexStats {
    let [aliases, bytesUsed] = [0, this.trie.bytesUsed]
    for (const names of this.#ranks) {
      aliases += names?.aliasCount ?? 0
      bytesUsed += names?.bytesUsed ?? 0
    }
    return {
      heldBlocks: this.#held,
      distinctBlocks: this.trie.nodeCount,
      holderSets: this.trie.sets.size,
      aliases,
      evictedBlocks: this.#evicted,
      bytesUsed,
    }
  }

  #dropName(rank: Rank, names: RankNames, node: number, lo: number, hi: number): void {
    const { trie } = this
    names.remove(lo, hi)
    this.#held--
    const isOwn = trie.externalLo[node] === lo && trie.externalHi[node] === hi
    if (!isOwn) names.removeAlias(node, lo, hi)
    if (names.aliasCount > 0 && names.aliases.has(node)) return
    if (!isOwn && names.find(trie.externalLo[node]!, trie.externalHi[node]!) === node) return
    trie.setHolders(node, trie.sets.flip(trie.holders[node]!, rank))
    if (trie.holders[node] === 0) trie.tryFree(node)
  }

  #evictFrom(rank: Rank): void {
    this.#refresh(rank)
    const names = this.#ranks[rank]!
    for (const [lo, hi, , epoch] of names.entries()) {
      if (epoch !== names.oldest) continue
      this.drop(rank, lo, hi)
      this.#evicted++
    }
    this.#refresh(rank)
  }

  #refresh(rank: Rank): void {
    const names = this.#ranks[rank]!
    let oldest = this.#epoch
    for (const [, , , epoch] of names.entries()) if (epoch < oldest) oldest = epoch
    names.oldest = oldest
  }

  /** What a rank says of its oldest may be gone since: only a claim that still stands counts. -1 when all are empty. */
  #oldestRank(): Rank {
    for (;;) {
      const rank = this.#rankOfOldest()
      if (rank < 0) return rank
      this.#refresh(rank)
      if (this.#rankOfOldest() === rank) return rank
    }
  }

  #rankOfOldest(): Rank {
    let best = -1
    for (const [rank, names] of this.#ranks.entries()) {
      if (names && names.size > 0 && (best < 0 || names.oldest < this.#ranks[best]!.oldest)) best = rank
    }
    return best
  }
}
