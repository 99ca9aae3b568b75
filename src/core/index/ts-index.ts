/**
 * The exact index in plain TypeScript: for places without WebAssembly, and as the second implementation that the first
 * is compared with. The same contract, other structures.
 */
import { type HashColumn, newHashColumn, type Rank } from '../protocol/index.js'
import { type ApplyReport, statusCodes } from './apply-report.js'
import { root } from './block-trie.js'
import { DepthWalk } from './depth-walk.js'
import { type EventBatch, eventHeaderWords, eventKinds, hasParentFlag } from './event-batch.js'
import { Knowledge } from './knowledge.js'
import type { BlockFact, HotPrefix, IndexStats, Sharing } from './prefix-index.js'
import { factKinds, factWords } from './prefix-index.js'
import {
  checkCaps,
  type HotPath,
  type KnownRun,
  type Random,
  type Shard,
  type ShardOptions,
  type ShardSampler,
} from './shard.js'
import { trimToCaps } from './trim.js'
import { restoreKnowledge, snapshotKnowledge } from './ts-snapshot.js'

const hottestMax = 16

export class TsIndex implements Shard {
  readonly #options: ShardOptions
  #knowledge: Knowledge
  readonly #walk = new DepthWalk()
  #prompt = newHashColumn(0)

  constructor(options: ShardOptions) {
    checkCaps(options)
    this.#options = options
    this.#knowledge = new Knowledge(options)
  }

  get rankCount(): number {
    return this.#knowledge.rankCount
  }

  apply(batch: EventBatch, report: ApplyReport): void {
    const { words } = batch
    report.begin(batch.eventCount)
    for (let event = 0, at = 0; event < batch.eventCount; event++) {
      const [head, rank, count] = [words[at]!, words[at + 1]!, words[at + 2]!]
      const hashes = at + eventHeaderWords
      let status: number = statusCodes.ok
      at = hashes
      if ((head & 0xff) === eventKinds.stored) {
        status = this.#store(words, rank, (head & hasParentFlag) !== 0, hashes, count)
        at += 4 * count
      } else if ((head & 0xff) === eventKinds.removed) {
        status = this.#remove(words, rank, hashes, count)
        at += 2 * count
      } else this.clearRank(rank)
      report.statuses[event] = status
    }
    report.count()
  }

  promptColumn(blockCount: number): HashColumn {
    if (this.#prompt.length < 2 * blockCount) this.#prompt = newHashColumn(2 * blockCount)
    return this.#prompt
  }

  find(local: HashColumn, blockCount: number, depths: Uint32Array, lastExternal?: HashColumn): number {
    return this.#walk.run(this.#knowledge, local, blockCount, depths, lastExternal)
  }

  chain(rank: Rank, local: HashColumn, blockCount: number, names: HashColumn): number {
    const { trie } = this.#knowledge
    let node = root
    for (let block = 0; block < blockCount; block++) {
      node = trie.childOf(node, local[2 * block]!, local[2 * block + 1]!)
      if (node === root || !trie.sets.has(trie.holders[node]!, rank)) return block
      const [lo, hi] = this.#knowledge.nameOf(rank, node)
      names[2 * block] = lo
      names[2 * block + 1] = hi
    }
    return blockCount
  }

  holds(rank: Rank, external: HashColumn): boolean {
    return this.#knowledge.find(rank, external[0]!, external[1]!) !== 0
  }

  clearRank(rank: Rank): number {
    return this.#knowledge.clearRank(rank)
  }

  /** Clears are whole here. */
  drain(): number {
    return 0
  }

  *facts(rank: Rank): Iterable<Readonly<BlockFact>> {
    const { trie } = this.#knowledge
    const isWhole = new Map<number, boolean>([[root, true]])
    for (const [lo, hi, node] of this.#knowledge.namesByDepth(rank)) {
      const parent = trie.parentOf(node)
      if (!isWhole.get(parent)) continue
      isWhole.set(node, true)
      const [parentLo, parentHi] = parent === root ? [0, 0] : this.#knowledge.nameOf(rank, parent)
      const [localLo, localHi] = [trie.localLo[node]!, trie.localHi[node]!]
      yield { hasParent: parent !== root, parentLo, parentHi, localLo, localHi, externalLo: lo, externalHi: hi }
    }
  }

  describe(rank: Rank, names: HashColumn, count: number, facts: Uint32Array): void {
    const { trie } = this.#knowledge
    facts.fill(factKinds.absent, 0, factWords * count)
    for (let index = 0; index < count; index++) {
      const at = factWords * index
      facts[at + 6] = names[2 * index]!
      facts[at + 7] = names[2 * index + 1]!
      const node = this.#knowledge.find(rank, facts[at + 6]!, facts[at + 7]!)
      if (node === 0) continue
      const parent = trie.parentOf(node)
      if (parent !== root && !trie.sets.has(trie.holders[parent]!, rank)) continue
      const [parentLo, parentHi] = parent === root ? [0, 0] : this.#knowledge.nameOf(rank, parent)
      facts[at] = parent === root ? factKinds.atRoot : factKinds.below
      facts[at + 2] = parentLo
      facts[at + 3] = parentHi
      facts[at + 4] = trie.localLo[node]!
      facts[at + 5] = trie.localHi[node]!
    }
  }

  blocksOf(rank: Rank): number {
    return this.#knowledge.names(rank)?.size ?? 0
  }

  stats(): IndexStats {
    return this.#knowledge.stats()
  }

  sharing(): Sharing {
    return this.#knowledge.trie.sets.sharing()
  }

  hottest(): readonly HotPrefix[] {
    return this.#hottest().map(([prefix]) => prefix)
  }

  hotPaths(): readonly HotPath[] {
    return this.#hottest().map(([prefix, last]) => ({ prefix, path: this.#pathTo(last) }))
  }

  allRuns(hashesMax: number): readonly KnownRun[] | undefined {
    const { trie } = this.#knowledge
    const runs = trie.runs()
    const hashes = runs.reduce((sum, { first, count }) => sum + trie.depthOf(first + count - 1), 0)
    return hashes > hashesMax ? undefined : runs.map((it) => this.#toRun(it))
  }

  sampler(random: Random): ShardSampler {
    const runs = this.#knowledge.trie.runs()
    return {
      run: () => (runs.length > 0 ? this.#toRun(runs[random(runs.length)]!) : undefined),
      heldPath: () => {
        const node = this.#knowledge.drawHeld(random)
        return node === root ? undefined : this.#pathTo(node)
      },
    }
  }

  holdersAlong(path: HashColumn, from: number, holders: Uint32Array): number {
    const { trie } = this.#knowledge
    const blockCount = path.length >>> 1
    let node = root
    for (let block = 0; block < blockCount; block++) {
      node = trie.childOf(node, path[2 * block]!, path[2 * block + 1]!)
      if (node === root) return block
      if (block >= from) holders[block - from] = trie.sets.count(trie.holders[node]!)
    }
    return blockCount
  }

  snapshot(): Uint8Array {
    return snapshotKnowledge(this.#knowledge)
  }

  restore(snapshot: Uint8Array): void {
    const { seedLo, seedHi } = this.#options
    const fresh = new Knowledge({ seedLo, seedHi })
    restoreKnowledge(fresh, snapshot)
    this.#knowledge = fresh
    trimToCaps(this, fresh.rankCount, this.#options)
    fresh.limit(this.#options)
  }

  openEpoch(epoch: number): void {
    this.#knowledge.openEpoch(epoch)
  }

  oldestEpoch(): number {
    return this.#knowledge.oldestEpoch()
  }

  evictOldest(): void {
    this.#knowledge.evictOldest()
  }

  /** With the last node of each. */
  #hottest(): [prefix: HotPrefix, last: number][] {
    const { trie } = this.#knowledge
    const runs = trie.runs().filter((it) => it.finds > 0)
    const chunkOf = (node: number) => node >>> 5
    const led = new Map<number, number>() // chunk -> lookups of its most passed child
    for (const { parent, finds } of runs) led.set(chunkOf(parent), Math.max(finds, led.get(chunkOf(parent)) ?? 0))
    const shown = runs.filter((it) => (led.get(chunkOf(it.first)) ?? 0) < 0.9 * it.finds)
    const prefixes = shown.map(({ first, count, finds }): [HotPrefix, number] => {
      const last = first + count - 1
      const [localLo, localHi] = [trie.localLo[last]!, trie.localHi[last]!]
      return [{ finds, depth: trie.depthOf(last), ranks: trie.sets.count(trie.holders[last]!), localLo, localHi }, last]
    })
    return prefixes.sort(([a], [b]) => b.finds - a.finds || b.depth - a.depth).slice(0, hottestMax)
  }

  #toRun({ first, count }: { first: number; count: number }): KnownRun {
    return { blocks: count, path: this.#pathTo(first + count - 1), weight: 1 }
  }

  #pathTo(last: number): HashColumn {
    const { trie } = this.#knowledge
    const path = newHashColumn(trie.depthOf(last))
    for (let node = last, at = path.length - 2; node !== root; node = trie.parentOf(node), at -= 2) {
      path[at] = trie.localLo[node]!
      path[at + 1] = trie.localHi[node]!
    }
    return path
  }

  #store(words: Uint32Array, rank: Rank, hasParent: boolean, at: number, given: number): number {
    const knowledge = this.#knowledge
    let current = root
    if (hasParent) {
      const [lo, hi] = [words[at - 2]!, words[at - 1]!]
      for (let word = at; word < at + 2 * given; word += 2) {
        if (words[word] === lo && words[word + 1] === hi) return statusCodes.invalidBlock
      }
      current = knowledge.find(rank, lo, hi)
      if (current === 0) return statusCodes.parentBlockNotFound
    }
    if (given === 0) return statusCodes.ok
    const count = knowledge.admit(given)
    let changed = false
    for (let block = 0; block < count; block++) {
      const [name, local] = [at + 2 * block, at + 2 * (given + block)]
      const before = knowledge.changes
      current = knowledge.hold(rank, current, words[local]!, words[local + 1]!, words[name]!, words[name + 1]!)
      changed ||= knowledge.changes !== before
    }
    knowledge.enforceCaps(rank)
    return changed ? statusCodes.ok : statusCodes.duplicateStore
  }

  #remove(words: Uint32Array, rank: Rank, at: number, count: number): number {
    let status: number = statusCodes.ok
    for (let word = at; word < at + 2 * count; word += 2) {
      if (!this.#knowledge.drop(rank, words[word]!, words[word + 1]!)) status = statusCodes.blockNotFound
    }
    return status
  }
}
