/**
 * The tiers below the device together: who owns what on each, and how far they extend what the device holds. A tier
 * exists from its first stored block on; until then it costs nothing, and a lookup without any tier skips the walk.
 */
import type { HashColumn, MatchColumns, Rank, RankTable, StorageTier } from '../protocol/index.js'
import { lowerTiers } from '../protocol/index.js'
import { type ApplyReport, statusCodes } from './apply-report.js'
import { type EventBatch, eventHeaderWords, eventKinds, hasParentFlag } from './event-batch.js'
import { LowerTier, type LowerTierOptions } from './lower-tier.js'
import { type Owner, TierOwners } from './tier-owners.js'
import { TierWalk } from './tier-walk.js'

export type LowerTierName = Exclude<StorageTier, 'device'>

export interface TierStats {
  /** Blocks over all owners: what the cap limits. */
  readonly heldBlocks: number
  readonly distinctBlocks: number
  readonly evictedBlocks: number
  /** Stores that ended early because they contradicted what was known. */
  readonly conflicts: number
  readonly bytesUsed: number
}

export class TierSet {
  readonly owners: TierOwners
  readonly #options: LowerTierOptions
  readonly #tiers = new Map<LowerTierName, LowerTier>()
  readonly #walk = new TierWalk()

  constructor(ranks: RankTable, options: LowerTierOptions) {
    this.owners = new TierOwners(ranks)
    this.#options = options
  }

  /** Over all tiers and owners. */
  get heldBlocks(): number {
    let sum = 0
    for (const tier of this.#tiers.values()) sum += tier.heldBlocks
    return sum
  }

  /** Undefined until something was stored there. */
  tier(name: LowerTierName): LowerTier | undefined {
    return this.#tiers.get(name)
  }

  tierForStore(name: LowerTierName): LowerTier {
    let tier = this.#tiers.get(name)
    if (!tier) this.#tiers.set(name, (tier = new LowerTier(this.#options)))
    return tier
  }

  /** One tier's share of a batch; its ranks are the owners. */
  apply(name: LowerTierName, batch: EventBatch, report: ApplyReport): void {
    const words = batch.words
    report.begin(batch.eventCount)
    for (let index = 0, at = 0; index < batch.eventCount; index++) {
      const kind = words[at]! & 0xff
      const owner = this.owners.ofRank(words[at + 1]!)
      const count = words[at + 2]!
      const blocksAt = at + eventHeaderWords
      let status: number = statusCodes.ok
      if (kind === eventKinds.stored) {
        const hasParent = (words[at]! & hasParentFlag) !== 0
        const localAt = blocksAt + 2 * count
        const tier = this.tierForStore(name)
        tier.store(owner, hasParent, words[at + 4]!, words[at + 5]!, words, words, count, blocksAt, localAt)
        at = localAt + 2 * count
      } else if (kind === eventKinds.removed) {
        const unknown = this.#tiers.get(name)?.remove(owner, words, count, blocksAt) ?? count
        if (unknown > 0) status = statusCodes.blockNotFound
        at = blocksAt + 2 * count
      } else {
        this.#tiers.get(name)?.clearOwner(owner)
        at = blocksAt
      }
      report.statuses[index] = status
    }
    report.count()
  }

  /** Fills the lower columns with what extends `into.device`, which holds the exact index's answer and nothing else. */
  extend(local: HashColumn, blockCount: number, lastExternal: HashColumn, into: MatchColumns): void {
    let isSeeded = false
    for (const name of lowerTiers) {
      const tier = this.#tiers.get(name)
      if (!tier || tier.heldBlocks === 0) continue
      if (!isSeeded) this.#walk.seed(into.device, lastExternal, into.rankCount)
      isSeeded = true
      this.#walk.extend(tier, this.owners, local, blockCount, columnOf(name, into))
    }
    into.hasLowerTiers = isSeeded
  }

  /**
   * Goes on where the rank's `from` names end, through one tier alone, and writes the names of what it holds there. Answers
   * how many names there are then.
   */
  extendChain(
    name: LowerTierName,
    rank: Rank,
    local: HashColumn,
    blockCount: number,
    names: HashColumn,
    from: number,
  ): number {
    const tier = this.#tiers.get(name)
    if (!tier) return from
    let edge = -1
    for (let block = from; block < blockCount; block++) {
      const [lo, hi] = [local[2 * block]!, local[2 * block + 1]!]
      if (edge >= 0) edge = tier.edgeAfter(edge, tier.childLo(edge), tier.childHi(edge), lo, hi)
      else if (block === 0) edge = tier.edgeFrom(false, 0, 0, lo, hi)
      else edge = tier.edgeFrom(true, names[2 * block - 2]!, names[2 * block - 1]!, lo, hi)
      if (edge < 0 || !tier.isOwnedBy(edge, this.owners, rank)) return block
      names[2 * block] = tier.childLo(edge)
      names[2 * block + 1] = tier.childHi(edge)
    }
    return blockCount
  }

  clearOwner(owner: Owner): void {
    for (const tier of this.#tiers.values()) tier.clearOwner(owner)
  }

  blocksOf(name: LowerTierName, rank: Rank): number {
    return this.#tiers.get(name)?.blocksOf(this.owners.ofRank(rank)) ?? 0
  }

  isIdle(owner: Owner): boolean {
    return [...this.#tiers.values()].every((tier) => tier.blocksOf(owner) === 0)
  }

  stats(name: LowerTierName): TierStats {
    const tier = this.#tiers.get(name)
    return {
      heldBlocks: tier?.heldBlocks ?? 0,
      distinctBlocks: tier?.distinctBlocks ?? 0,
      evictedBlocks: tier?.evictedBlocks ?? 0,
      conflicts: tier?.conflicts ?? 0,
      bytesUsed: tier?.bytesUsed ?? 0,
    }
  }
}

function columnOf(name: LowerTierName, into: MatchColumns): Uint32Array {
  switch (name) {
    case 'host_pinned':
      return into.hostPinned
    case 'disk':
      return into.disk
    case 'external':
      return into.external
  }
}
