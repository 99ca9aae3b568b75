/**
 * What every rank holds of a prompt, tier by tier, and what the cost function would credit it for: for schedulers outside
 * that want the signal and make the choice themselves. Follows `get_overlap_scores` of lib/llm/src/kv_router.rs, 1.5.0-dev.
 */
import type { MatchColumns, Rank, WorkerRank, WorkerTable } from '../protocol/index.js'
import type { CostSettings } from './cost-settings.js'
import type { SharedCacheHits } from './shared-hits.js'

export interface OverlapScore extends WorkerRank {
  readonly deviceBlocks: number
  /** Leading blocks that the device and the host hold together. */
  readonly hostPinnedBlocks: number
  /** The same with disk and external storage. */
  readonly diskBlocks: number
  readonly hostPinnedExtensionBlocks: number
  readonly diskExtensionBlocks: number
  /** Absent without an answer of the shared cache. */
  readonly sharedBeyondDeviceBlocks: number | undefined
  readonly routerCreditBlocks: number
}

export interface SharedOverlap {
  readonly isEnabled: boolean
  readonly totalHitBlocks: number
  readonly ranges: readonly (readonly [start: number, end: number])[]
  readonly error: string | undefined
}

export interface OverlapScores {
  readonly blockSize: number
  readonly numBlocks: number
  /** Every rank that a worker owns, and every other that holds something; by worker id and dp rank. */
  readonly workers: readonly OverlapScore[]
  readonly sharedCache: SharedOverlap
}

export function listOverlapScores(
  workers: WorkerTable,
  match: MatchColumns,
  settings: CostSettings,
  sharedHits: SharedCacheHits | undefined,
): OverlapScore[] {
  const { ranks, isServed } = workers
  return ranks
    .live()
    .filter((rank) => isServed[rank] === 1 || holdsAny(match, rank))
    .map((rank) => scoreOf(ranks.pairOf(rank), tiersOf(match, rank), settings, sharedHits))
}

export function sharedOverlap(
  isEnabled: boolean,
  hits: SharedCacheHits | undefined,
  error: string | undefined,
): SharedOverlap {
  return { isEnabled, totalHitBlocks: hits?.totalHits ?? 0, ranges: hits?.ranges() ?? [], error }
}

interface Tiers {
  readonly device: number
  readonly host: number
  readonly disk: number
}

function scoreOf(
  pair: WorkerRank,
  { device, host, disk }: Tiers,
  settings: CostSettings,
  sharedHits: SharedCacheHits | undefined,
): OverlapScore {
  const beyond = sharedHits?.hitsBeyond(device)
  return {
    ...pair,
    deviceBlocks: device,
    hostPinnedBlocks: device + host,
    diskBlocks: device + host + disk,
    hostPinnedExtensionBlocks: host,
    diskExtensionBlocks: disk,
    sharedBeyondDeviceBlocks: beyond,
    routerCreditBlocks:
      settings.overlapScoreCredit * device +
      settings.hostCacheHitWeight * host +
      settings.diskCacheHitWeight * disk +
      settings.sharedCacheMultiplier * (beyond ?? 0),
  }
}

/** What a chosen worker holds: the tiers of the chosen rank, and the device of each of its ranks. */
export interface SelectedTiers {
  /** Every rank of the worker, those that hold nothing included. */
  readonly deviceBlocksByRank: readonly (readonly [dpRank: number, blocks: number])[]
  readonly deviceBlocks: number
  /** Together with the device, at most 2^32 - 1 as on the wire. */
  readonly hostPinnedBlocks: number
  readonly diskBlocks: number
}

export function selectedTiers(workers: WorkerTable, match: MatchColumns, chosen: Rank): SelectedTiers {
  const { ranks, isServed } = workers
  const ofWorker = ranks.ofWorker(ranks.pairOf(chosen).workerId).filter((rank) => isServed[rank] === 1)
  const { device, host, disk } = tiersOf(match, chosen)
  return {
    deviceBlocksByRank: ofWorker.map((rank) => [ranks.pairOf(rank).dpRank, saturated(tiersOf(match, rank).device)]),
    deviceBlocks: saturated(device),
    hostPinnedBlocks: saturated(device + host),
    diskBlocks: saturated(device + host + disk),
  }
}

function tiersOf(match: MatchColumns, rank: Rank): Tiers {
  if (rank >= match.rankCount) return { device: 0, host: 0, disk: 0 }
  const device = match.device[rank]!
  if (!match.hasLowerTiers) return { device, host: 0, disk: 0 }
  return { device, host: match.hostPinned[rank]!, disk: match.disk[rank]! + match.external[rank]! }
}

function holdsAny(match: MatchColumns, rank: Rank): boolean {
  const { device, host, disk } = tiersOf(match, rank)
  return device + host + disk > 0
}

function saturated(blocks: number): number {
  return Math.min(blocks, 0xffff_ffff)
}
