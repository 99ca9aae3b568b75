/**
 * Takes events in their plain form to the index they concern, in order. Meant for the edges (recovery, peers, tests):
 * a feed that decodes into batches calls `KvIndex.apply` itself.
 *
 * Dispatch: what is unsupported is counted and passed over; a clear concerns every tier of its domain; everything else
 * goes to its tier. Cache owners have no rank, so their events are applied one by one, between batches.
 */
import {
  type CacheOwnerId,
  type KvCacheEventData,
  ownerOf,
  type RankTable,
  resetScopeOf,
  type RouterEvent,
  setHashAt,
  type StorageTier,
  type StoredData,
  toHashColumn,
} from '../protocol/index.js'
import type { ApplyReport } from './apply-report.js'
import { type EventBatch, ranksMax } from './event-batch.js'
import type { EventCounts, EventOutcome } from './event-counts.js'
import type { TierSet } from './tier-set.js'
import { TieredBatch } from './tiered-batch.js'

/** What the dispatch needs of the index. */
export interface EventTarget {
  readonly ranks: RankTable
  readonly tiers: TierSet
  readonly counts: EventCounts
  /** Whether a rank that nobody has named yet may be kept from now on. */
  mayIntern(workerId: bigint): boolean
  apply(batch: TieredBatch): void
  /** The statuses of the last applied batch. */
  reportOf(tier: StorageTier): ApplyReport
}

/** Blocks per crossing: bounds the copy however long the list is. */
const flushBlocks = 65_536

/** One outcome per event, in order. */
export function applyRouterEvents(events: Iterable<RouterEvent>, target: EventTarget): EventOutcome[] {
  const outcomes: EventOutcome[] = []
  const batch = new TieredBatch()
  const waiting: { outcome: number; tier: StorageTier; index: number }[] = []

  for (const event of events) {
    const { data } = event.event
    const owner = ownerOf(event)
    if (owner?.domain === 'worker') {
      addToBatch(event, data)
      if (batch.blockCount >= flushBlocks) flush()
      continue
    }
    flush()
    const outcome = owner ? applyOwnerEvent(target, owner.owner, event) : 'unsupported_residency_domain'
    target.counts.add(data.kind, outcome)
    outcomes.push(outcome)
  }
  flush()
  return outcomes

  function addToBatch(event: RouterEvent, data: KvCacheEventData): void {
    const { ranks } = target
    const tier = data.kind === 'cleared' ? 'device' : event.storageTier
    const { workerId } = event
    const { dpRank } = event.event
    const known = ranks.find(workerId, dpRank)
    if (data.kind === 'cleared' && resetScopeOf(event) === 'all' && event.stateSource) {
      flush()
      clearCacheOwner(target, event.stateSource)
    }
    if (data.kind !== 'stored' && known === undefined) {
      return settle(data.kind, data.kind === 'removed' && data.blockHashes.length > 0 ? 'block_not_found' : 'ok')
    }
    if (known === undefined && !target.mayIntern(workerId)) return settle(data.kind, 'unknown_worker')
    const rank = known ?? ranks.intern(workerId, dpRank)
    if (rank >= ranksMax) {
      if (known === undefined) ranks.release(rank)
      return settle(data.kind, 'capacity_exhausted')
    }
    waiting.push({ outcome: outcomes.length, tier, index: batch.of(tier).eventCount })
    outcomes.push('ok')
    if (data.kind === 'stored') packStored(batch.of(tier), rank, data)
    else if (data.kind === 'removed') packRemoved(batch.of(tier), rank, data.blockHashes)
    else batch.cleared(rank)
  }

  /** The event has met its end without the index. */
  function settle(kind: KvCacheEventData['kind'], outcome: EventOutcome): void {
    target.counts.add(kind, outcome)
    outcomes.push(outcome)
  }

  function flush(): void {
    if (waiting.length === 0) return
    target.apply(batch)
    for (const it of waiting) outcomes[it.outcome] = target.reportOf(it.tier).statusOf(it.index)
    waiting.length = 0
    batch.clear()
  }
}

function packStored(batch: EventBatch, rank: number, data: StoredData): void {
  const { parentHash, blocks } = data
  const parent = toHashColumn([parentHash ?? 0n])
  const at = batch.openStored(rank, blocks.length, parentHash !== null, parent[0]!, parent[1]!) >>> 1
  for (const [index, block] of blocks.entries()) {
    setHashAt(batch.words, at + index, block.blockHash)
    setHashAt(batch.words, at + blocks.length + index, block.tokensHash)
  }
}

function packRemoved(batch: EventBatch, rank: number, hashes: readonly bigint[]): void {
  const at = batch.openRemoved(rank, hashes.length) >>> 1
  for (const [index, hash] of hashes.entries()) setHashAt(batch.words, at + index, hash)
}

function applyOwnerEvent(target: EventTarget, id: CacheOwnerId, event: RouterEvent): EventOutcome {
  const { tiers } = target
  const { data } = event.event
  if (data.kind === 'cleared') return clearCacheOwner(target, id)
  const name = event.storageTier
  if (name === 'device') return 'unsupported_residency_domain'
  if (data.kind === 'removed') {
    const owner = tiers.owners.find(id)
    const tier = tiers.tier(name)
    const { length } = data.blockHashes
    const unknown = owner === undefined || !tier ? length : tier.remove(owner, toHashColumn(data.blockHashes))
    return unknown > 0 ? 'block_not_found' : 'ok'
  }
  const owner = tiers.owners.intern(id, (it) => tiers.isIdle(it))
  if (owner === undefined) return 'capacity_exhausted'
  const parent = toHashColumn([data.parentHash ?? 0n])
  const external = toHashColumn(data.blocks.map((it) => it.blockHash))
  const local = toHashColumn(data.blocks.map((it) => it.tokensHash))
  tiers.tierForStore(name).store(owner, data.parentHash !== null, parent[0]!, parent[1]!, external, local)
  return 'ok'
}

function clearCacheOwner(target: EventTarget, id: CacheOwnerId): EventOutcome {
  const owner = target.tiers.owners.find(id)
  if (owner !== undefined) target.tiers.clearOwner(owner)
  return 'ok'
}
