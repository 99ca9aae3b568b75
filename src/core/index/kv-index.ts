/**
 * Everything that is known about caches, behind one door: the exact index of the device, the tiers below it, and the
 * predictions made from our own decisions. The router asks it for a prompt's depths; event intake feeds it; recovery
 * dumps, resets and restores it.
 *
 *   events ──► TieredBatch ──► device index        decisions ──► predictions (beside the device index, or in it)
 *                        └───► lower tiers          lookup = device, extended by the tiers; then max with predictions
 *
 * Synchronous, so that a reset is ordered by being called. Time is an argument.
 */
import type { HashColumn, MatchColumns, Rank, RankTable, RouterEvent, StorageTier } from '../protocol/index.js'
import {
  hashAt,
  hashCount,
  invariant,
  lowerTiers,
  newHashColumn,
  newMatchColumns,
  resetMatchColumns,
  WarmrouteError,
} from '../protocol/index.js'
import { ApplyReport, type EventStatus } from './apply-report.js'
import { applyRouterEvents, type EventTarget } from './apply-router-events.js'
import { dumpEvents, type FactSource } from './dump-events.js'
import { EventCounts, type EventOutcome } from './event-counts.js'
import { PredictedIndex } from './predicted-index.js'
import type { HotPrefix, IndexStats, PrefixIndex, Sharing } from './prefix-index.js'
import { factKinds, factWords } from './prefix-index.js'
import type { OwnerProjection } from './tier-owners.js'
import { type LowerTierName, TierSet, type TierStats } from './tier-set.js'
import type { TieredBatch } from './tiered-batch.js'

/**
 * How an index is made.
 *
 * @example
 * import { createPrefixIndex, KvIndex, type KvIndexOptions, RankTable } from 'warmroute/core'
 *
 * // Without events: every decision is taken for true for two minutes.
 * const options: KvIndexOptions = {
 *   ranks: new RankTable(),
 *   device: createPrefixIndex({ seedLo: 1, seedHi: 2 }),
 *   approximateTtlMs: 120_000,
 *   startMs: 0,
 *   seed: 7,
 * }
 * console.log(new KvIndex(options).nextExpiryMs) // => undefined
 */
export interface KvIndexOptions {
  /** Shared with the router: the caller releases a rank after `resetRank`. */
  readonly ranks: RankTable
  readonly device: PrefixIndex
  /** Without engine events: decisions go into the device index itself, for this long. */
  readonly approximateTtlMs?: number | undefined
  /** With engine events: decisions go into an index of their own, for this long. */
  readonly predicted?: { readonly index: PrefixIndex; readonly ttlMs: number } | undefined
  /** False (`overlap_score_credit` is 0): caches do not matter, nothing is kept and every depth is 0. */
  readonly isEnabled?: boolean | undefined
  /** Expiry buckets are counted from here. */
  readonly startMs: number
  /** Keeps table positions unpredictable to those who choose hashes. */
  readonly seed: number
  /** True: `lastMatchedHash` answers after every lookup. They double its time, so without need they are not asked for. */
  readonly keepLastHashes?: boolean | undefined
  /** Per lower tier, over all owners. */
  readonly tierBlocksMax?: number | undefined
  /** Predictions over all ranks. */
  readonly predictedBlocksMax?: number | undefined
  /**
   * No call takes away much more than this of predictions that have ended, or of ranks that were reset: `expire` and `drain` take
   * the rest. The indexes have `clearBlocksMax` for their own part. Default: everything goes at once.
   */
  readonly stepBlocks?: number | undefined
}

export interface RankBlocks extends Readonly<Record<StorageTier, number>> {
  /** In the index of predictions beside the exact one. */
  readonly predicted: number
}

export interface PredictedStats {
  /** Blocks that will expire unless they are asked for again. */
  readonly predictedBlocks: number
  readonly expiredBlocks: number
  readonly evictedBlocks: number
}

export interface KvIndexStats {
  readonly device: IndexStats
  /** Of the device. */
  readonly sharing: Sharing
  readonly tiers: Readonly<Record<LowerTierName, TierStats>>
  readonly predicted: PredictedStats | undefined
  readonly bytesUsed: number
}

/** What became of a routing decision: nobody keeps decisions here, or the store's own status. */
export type DecisionOutcome = 'ignored' | EventStatus

export const tierBlocksMaxDefault = 16_000_000
export const predictedBlocksMaxDefault = 4_000_000

/**
 * What is cached where, as events tell it: feed it events, ask it for a prompt.
 *
 * @example
 * import { computeBlockHashes, createPrefixIndex, KvIndex, newMatchColumns, newRouterEvent, RankTable } from 'warmroute/core'
 *
 * const ranks = new RankTable()
 * const index = new KvIndex({ ranks, device: createPrefixIndex({ seedLo: 1, seedHi: 2 }), startMs: 0, seed: 7 })
 * const worker = { workerId: 1n, dpRank: 0 }
 * const [tokensHash] = computeBlockHashes([1, 2, 3, 4], 4)
 * const blocks = [{ blockHash: 99n, tokensHash: tokensHash!, mmExtraInfo: null }]
 * index.applyEvents([newRouterEvent(worker, 0n, { kind: 'stored', parentHash: null, startPosition: null, blocks })])
 *
 * const found = newMatchColumns()
 * const prompt = new Uint32Array(new BigUint64Array([tokensHash!]).buffer)
 * index.findMatches(prompt, 1, found)
 * console.log(found.device[ranks.find(1n, 0)!]) // => 1
 */
export class KvIndex {
  readonly counts: EventCounts = new EventCounts()
  /** Asked before plain events make a rank known that nobody named before; whoever owns the ranks may set it. */
  mayIntern: (workerId: bigint) => boolean = () => true
  readonly #ranks: RankTable
  readonly #withheld = new Set<Rank>()
  readonly #device: PrefixIndex
  readonly #tiers: TierSet
  /** In approximate mode this wraps the device index; otherwise it has an index of its own, or does not exist. */
  readonly #predictions: PredictedIndex | undefined
  readonly #isApproximate: boolean
  readonly #isEnabled: boolean
  readonly #keepsLastHashes: boolean
  readonly #reports = reportPerTier()
  readonly #target: EventTarget
  #lastExternal = newHashColumn(0)
  #hasLastHashes = false
  /** Something was cleared, perhaps, since `drain` found nothing. */
  #mayHaveLeft = false
  /** The last lookup's answer. Depths are those without predictions: the caller's column, or our copy of it. */
  #lookup: MatchColumns = newMatchColumns()
  #exactDepths: Uint32Array = new Uint32Array(0)
  #exactCopy = new Uint32Array(0)
  #predictedDepths = new Uint32Array(0)

  constructor(options: KvIndexOptions) {
    const { ranks, device, approximateTtlMs, predicted, startMs, seed, stepBlocks } = options
    if (approximateTtlMs !== undefined && predicted)
      throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: 'predictions beside an index need engine events' })
    const blocksMax = options.predictedBlocksMax ?? predictedBlocksMaxDefault
    this.#ranks = ranks
    this.#device = device
    this.#tiers = new TierSet(ranks, { seed, blocksMax: options.tierBlocksMax ?? tierBlocksMaxDefault })
    this.#isEnabled = options.isEnabled ?? true
    this.#keepsLastHashes = options.keepLastHashes ?? false
    this.#isApproximate = approximateTtlMs !== undefined
    const ttlMs = approximateTtlMs ?? predicted?.ttlMs
    if (ttlMs !== undefined)
      this.#predictions = new PredictedIndex(predicted?.index ?? device, {
        ttlMs,
        startMs,
        seed,
        blocksMax,
        stepBlocks,
      })
    this.#target = {
      ranks,
      tiers: this.#tiers,
      counts: this.counts,
      mayIntern: (workerId) => this.mayIntern(workerId),
      apply: (batch) => this.apply(batch),
      reportOf: (tier) => this.#reports[tier],
    }
  }

  /** The hot way in: one crossing per tier, however many events. */
  apply(batch: TieredBatch): void {
    if (!this.#isEnabled) return
    const { device } = batch
    if (device.eventCount > 0) {
      this.#mayHaveLeft = true
      if (this.#isApproximate) this.#predictions!.confirm(device)
      this.#device.apply(device, this.#reports.device)
      this.counts.addBatch(device, this.#reports.device, true)
    }
    for (const name of lowerTiers) {
      const events = batch.of(name)
      if (events.eventCount === 0) continue
      this.#tiers.apply(name, events, this.#reports[name])
      this.counts.addBatch(events, this.#reports[name], false)
    }
  }

  /** Events in their plain form; one outcome each, none where caches do not matter. Interns ranks that store something. */
  applyEvents(events: Iterable<RouterEvent>): readonly EventOutcome[] {
    return this.#isEnabled ? applyRouterEvents(events, this.#target) : []
  }

  /**
   * Room for a prompt's hashes where a lookup finds them without copying; one prompt at a time, and not to be kept across
   * a change of the index.
   */
  promptColumn(blockCount: number): HashColumn {
    return this.#device.promptColumn(blockCount)
  }

  /** Fills the columns with what every rank holds of the prompt's first `blockCount` blocks. Changes nothing held. */
  findMatches(local: HashColumn, blockCount: number, into: MatchColumns): void {
    invariant(local.length >= 2 * blockCount, 'a lookup has a hash for every block')
    const rankCount = this.#ranks.size
    resetMatchColumns(into, rankCount)
    if (this.#lastExternal.length < 2 * rankCount) this.#lastExternal = newHashColumn(2 * rankCount)
    const needsLast = this.#keepsLastHashes || this.#tiers.heldBlocks > 0
    this.#hasLastHashes = needsLast
    this.#lookup = into
    this.#exactDepths = into.device
    if (!this.#isEnabled || blockCount === 0) return
    this.#device.find(local, blockCount, into.device, needsLast ? this.#lastExternal : undefined)
    this.#tiers.extend(local, blockCount, this.#lastExternal, into)
    for (const rank of this.#withheld) withhold(into, rank)
    if (this.#predictions && !this.#isApproximate) this.#addPredictions(local, blockCount, into)
  }

  /**
   * While a rank's events are in doubt, what they told is kept but counts for nothing; predictions still count. Forgotten
   * with the rank's next reset.
   */
  setWithheld(rank: Rank, isWithheld: boolean): void {
    if (isWithheld) this.#withheld.add(rank)
    else this.#withheld.delete(rank)
  }

  /**
   * The engine's own hash of the last block that the last lookup credited a rank for on the device. Predictions have
   * none. Known with `keepLastHashes`, or where lower tiers had to be walked.
   */
  lastMatchedHash(rank: Rank): bigint | undefined {
    return this.#hasLastHashes && rank < this.#lookup.rankCount && this.#exactDepths[rank]! > 0
      ? hashAt(this.#lastExternal, rank)
      : undefined
  }

  /**
   * How many leading blocks the last lookup found at a rank under names that its engine gave them, on the device and on
   * from there in pinned host memory: what another worker could fetch. Predictions have no such names.
   */
  namedBlocks(rank: Rank): number {
    if (this.#isApproximate || rank >= this.#lookup.rankCount) return 0
    return this.#exactDepths[rank]! + this.#lookup.hostPinned[rank]!
  }

  /** Those names, first block first: as many as `namedBlocks` says for the same prompt. */
  namedChain(rank: Rank, local: HashColumn, blockCount: number): HashColumn {
    if (this.#isApproximate || !this.#isEnabled || this.#withheld.has(rank)) return newHashColumn(0)
    const names = newHashColumn(blockCount)
    const onDevice = this.#device.chain(rank, local, blockCount, names)
    const count = this.#tiers.extendChain('host_pinned', rank, local, blockCount, names, onDevice)
    return names.subarray(0, 2 * count)
  }

  /**
   * The request goes to this rank, which will hold its blocks. Kept where decisions are kept, for a time. Throws
   * `WR_INVALID_ARGUMENT` where the two columns do not pair up.
   */
  recordRoutingDecision(
    rank: Rank,
    local: HashColumn,
    sequence: HashColumn,
    nowMs: number,
    blockCount: number = hashCount(local),
  ): DecisionOutcome {
    if (!this.#isEnabled || !this.#predictions) return 'ignored'
    return this.#predictions.record(rank, local, sequence, nowMs, blockCount)
  }

  /**
   * Forgets decisions whose time has ended, about `blocksMax` blocks of them; answers how many blocks those were. A lookup credits
   * what is left, so it wants an `expire` that left nothing: `nextExpiryMs` lies in the future then.
   */
  expire(nowMs: number, blocksMax?: number): number {
    return this.#predictions?.expire(nowMs, blocksMax) ?? 0
  }

  /**
   * Takes away about `blocksMax` blocks of what ranks left that were reset or cleared; answers how many are left. Changes nothing
   * that a lookup finds; until it is done, `distinctBlocks` and `bytesUsed` count what is left.
   */
  drain(blocksMax: number): number {
    if (!this.#mayHaveLeft) return 0
    const beside = this.#predictions?.drain(blocksMax) ?? 0
    const left = this.#isApproximate ? beside : beside + this.#device.drain(blocksMax)
    this.#mayHaveLeft = left > 0
    return left
  }

  /** When to call `expire` next, if ever. */
  get nextExpiryMs(): number | undefined {
    return this.#predictions?.nextExpiryMs
  }

  /** Which rank each cache owner's blocks count for from now on. Throws where one owner has two. */
  projectCacheOwners(projection: OwnerProjection): void {
    this.#tiers.owners.project(projection)
  }

  /** Forgets all that the rank holds, on every tier, predictions and their timers included. Cache owners keep theirs. */
  resetRank(rank: Rank): void {
    this.#withheld.delete(rank)
    this.#mayHaveLeft = true
    this.#device.clearRank(rank)
    this.#predictions?.clearRank(rank)
    this.#tiers.clearOwner(this.#tiers.owners.ofRank(rank))
  }

  /** The same for every rank of a worker; an unknown worker holds nothing. The ranks stay interned. */
  removeWorker(workerId: bigint): void {
    for (const rank of this.#ranks.ofWorker(workerId)) this.resetRank(rank)
  }

  /** Forgets everything. */
  reset(): void {
    for (const rank of this.#ranks.live()) this.resetRank(rank)
    for (const [owner] of this.#tiers.owners.cacheOwners()) this.#tiers.clearOwner(owner)
  }

  /**
   * Everything that can be replayed, as events: the device first, then each tier; parents before children; ids from 0.
   * Predictions beside the index are left out. The index must not change while this is iterated.
   */
  dump(): Iterable<RouterEvent> {
    return dumpEvents(this.#factSources())
  }

  /** Forgets everything and applies a dump instead; one outcome per event. */
  restore(events: Iterable<RouterEvent>): readonly EventOutcome[] {
    this.reset()
    return this.applyEvents(events)
  }

  blocksOf(rank: Rank): RankBlocks {
    return {
      device: this.#device.blocksOf(rank),
      host_pinned: this.#tiers.blocksOf('host_pinned', rank),
      disk: this.#tiers.blocksOf('disk', rank),
      external: this.#tiers.blocksOf('external', rank),
      predicted: this.#isApproximate ? 0 : (this.#predictions?.index.blocksOf(rank) ?? 0),
    }
  }

  /** The prefixes of the device index that lookups passed most often, at most 16. */
  hottest(): readonly HotPrefix[] {
    return this.#device.hottest()
  }

  stats(): KvIndexStats {
    const predictions = this.#predictions
    const device = this.#device.stats()
    const tiers = {
      host_pinned: this.#tiers.stats('host_pinned'),
      disk: this.#tiers.stats('disk'),
      external: this.#tiers.stats('external'),
    }
    const beside = this.#isApproximate ? 0 : (predictions?.index.stats().bytesUsed ?? 0)
    const tierBytes = tiers.host_pinned.bytesUsed + tiers.disk.bytesUsed + tiers.external.bytesUsed
    const index = this.#device
    return {
      device,
      // When it is read: a look at every set of ranks, and metrics do without.
      get sharing() {
        return index.sharing()
      },
      tiers,
      predicted: predictions && {
        predictedBlocks: predictions.predictedBlocks,
        expiredBlocks: predictions.expiredBlocks,
        evictedBlocks: predictions.evictedBlocks,
      },
      bytesUsed: device.bytesUsed + tierBytes + beside + (predictions?.timerBytesUsed ?? 0),
    }
  }

  /** Per rank the greater of the two: engines salt their hashes, so one block would be keyed twice in a single index. */
  #addPredictions(local: HashColumn, blockCount: number, into: MatchColumns): void {
    const { rankCount } = into
    if (this.#predictedDepths.length < rankCount) {
      this.#predictedDepths = new Uint32Array(into.device.length)
      this.#exactCopy = new Uint32Array(into.device.length)
    }
    const exact = this.#exactCopy
    this.#exactDepths = exact
    const predicted = this.#predictedDepths.fill(0, 0, rankCount)
    this.#predictions!.index.find(local, blockCount, predicted)
    for (let rank = 0; rank < rankCount; rank++) {
      const depth = (exact[rank] = into.device[rank]!)
      if (predicted[rank]! > depth) into.device[rank] = predicted[rank]!
    }
  }

  /** What a rank's names stand for on one tier, by events alone: see `PrefixIndex.describe`. */
  describe(tier: StorageTier, rank: Rank, names: HashColumn, count: number, facts: Uint32Array): void {
    if (tier === 'device') return this.#device.describe(rank, names, count, facts)
    const held = this.#tiers.tier(tier)
    if (held) held.describe(this.#tiers.owners.ofRank(rank), names, count, facts)
    else facts.fill(factKinds.absent, 0, factWords * count)
  }

  *#factSources(): Iterable<FactSource> {
    for (const rank of this.#ranks.live())
      yield { pair: this.#ranks.pairOf(rank), tier: 'device', facts: this.#device.facts(rank) }
    for (const tier of lowerTiers) {
      const held = this.#tiers.tier(tier)
      if (!held) continue
      for (const rank of this.#ranks.live())
        yield { pair: this.#ranks.pairOf(rank), tier, facts: held.facts(this.#tiers.owners.ofRank(rank)) }
      for (const [owner, id] of this.#tiers.owners.cacheOwners())
        yield { pair: { workerId: 0n, dpRank: 0 }, tier, owner: id, facts: held.facts(owner) }
    }
  }
}

function reportPerTier(): Readonly<Record<StorageTier, ApplyReport>> {
  return {
    device: new ApplyReport(),
    host_pinned: new ApplyReport(),
    disk: new ApplyReport(),
    external: new ApplyReport(),
  }
}

function withhold(columns: MatchColumns, rank: Rank): void {
  if (rank >= columns.rankCount) return
  columns.device[rank] = 0
  columns.hostPinned[rank] = 0
  columns.disk[rank] = 0
  columns.external[rank] = 0
}
