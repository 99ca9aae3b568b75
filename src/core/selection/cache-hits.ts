/**
 * What a rank's caches are worth to a request. Follows lib/llm/src/kv_router.rs at v1.2.0: the device counts in full, host
 * and disk by weight, and external storage weighs as disk.
 */
import type { MatchColumns, Rank } from '../protocol/index.js'

export interface TierWeights {
  readonly hostCacheHitWeight: number
  readonly diskCacheHitWeight: number
}

/** The caches as one request sees them. */
export interface CacheView {
  /** Blocks by tier. */
  readonly match: MatchColumns
  /**
   * Weighted blocks by rank from a source that knows no tiers; `match` is then not read, and the default policy takes
   * these for device blocks.
   */
  readonly effectiveBlocks?: Float64Array | undefined
}

export interface CacheHit {
  readonly effectiveOverlapBlocks: number
  readonly cachedTokens: number
}

export function effectiveBlocksOf(cache: CacheView, rank: Rank, weights: TierWeights): number {
  if (cache.effectiveBlocks) return cache.effectiveBlocks[rank] ?? 0
  const { match } = cache
  if (rank >= match.rankCount) return 0
  const device = match.device[rank]!
  if (!match.hasLowerTiers) return device
  const disk = match.disk[rank]! + match.external[rank]!
  return device + match.hostPinned[rank]! * weights.hostCacheHitWeight + disk * weights.diskCacheHitWeight
}

export function cachedTokensOf(effectiveBlocks: number, blockTokens: number): number {
  return Math.max(0, Math.round(effectiveBlocks * blockTokens))
}

export function cacheHitOf(cache: CacheView, rank: Rank, weights: TierWeights, blockTokens: number): CacheHit {
  const effectiveOverlapBlocks = effectiveBlocksOf(cache, rank, weights)
  return { effectiveOverlapBlocks, cachedTokens: cachedTokensOf(effectiveOverlapBlocks, blockTokens) }
}

/** Cached tokens of every rank below `out.length`; for lists and for queries that compare ranks. */
export function fillCachedTokens(out: Float64Array, cache: CacheView, weights: TierWeights, blockTokens: number): void {
  for (let rank = 0; rank < out.length; rank++)
    out[rank] = cachedTokensOf(effectiveBlocksOf(cache, rank, weights), blockTokens)
}
