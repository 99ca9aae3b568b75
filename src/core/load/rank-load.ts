/**
 * What one rank reported about itself, and whether that makes it busy. The decode latch of 1.1 lives here: one busy
 * signal sets it, and it clears only when every signal that went busy has reported calm. A signal that never reported
 * counts as calm.
 */
import type { LoadThresholds, MonitorVersion } from './thresholds.js'
import { unknownBatchedTokens } from './thresholds.js'

/** One report. Absent fields say nothing; they are not zero. */
export interface ActiveLoad {
  readonly workerId: bigint
  readonly dpRank: number
  readonly activeDecodeBlocks?: number
  readonly activePrefillTokens?: number
  /** Counted by the engine itself; known from 1.1 on. */
  readonly kvUsedBlocks?: number
}

export interface DecodeLatch {
  isBusy: boolean
  kvUsedCalm: boolean
  activeCalm: boolean
}

export interface RankLoad {
  activeDecodeBlocks: number | undefined
  activePrefillTokens: number | undefined
  kvUsedBlocks: number | undefined
  totalBlocks: number | undefined
  maxNumBatchedTokens: number | undefined
  latch: DecodeLatch | undefined
}

export function newRankLoad(): RankLoad {
  return {
    activeDecodeBlocks: undefined,
    activePrefillTokens: undefined,
    kvUsedBlocks: undefined,
    totalBlocks: undefined,
    maxNumBatchedTokens: undefined,
    latch: undefined,
  }
}

export function applyReport(
  rank: RankLoad,
  load: ActiveLoad,
  version: MonitorVersion,
  thresholds: LoadThresholds,
): void {
  if (load.activeDecodeBlocks !== undefined) rank.activeDecodeBlocks = load.activeDecodeBlocks
  if (load.activePrefillTokens !== undefined) rank.activePrefillTokens = load.activePrefillTokens
  if (version === '1.0') return
  if (load.kvUsedBlocks !== undefined) rank.kvUsedBlocks = load.kvUsedBlocks
  const threshold = thresholds.activeDecodeBlocksThreshold
  if (threshold !== undefined && rank.totalBlocks !== undefined && rank.totalBlocks > 0) {
    moveLatch(
      (rank.latch ??= { isBusy: false, kvUsedCalm: true, activeCalm: true }),
      load,
      threshold * rank.totalBlocks,
    )
  }
}

/** A rank known only from the runtime config has reported nothing and does not count. */
export function hasReported(rank: RankLoad): boolean {
  return (
    rank.activeDecodeBlocks !== undefined ||
    rank.activePrefillTokens !== undefined ||
    rank.kvUsedBlocks !== undefined ||
    rank.latch !== undefined
  )
}

/** Busy when any limit that is set is exceeded; all comparisons are strict. */
export function isRankBusy(rank: RankLoad, thresholds: LoadThresholds): boolean {
  return isPrefillBusy(rank, thresholds) || isDecodeBusy(rank, thresholds.activeDecodeBlocksThreshold)
}

function isPrefillBusy(rank: RankLoad, thresholds: LoadThresholds): boolean {
  const tokens = rank.activePrefillTokens
  if (tokens === undefined) return false
  const { activePrefillTokensThreshold: absolute, activePrefillTokensThresholdFrac: frac } = thresholds
  if (absolute !== undefined && tokens > absolute) return true
  return frac !== undefined && tokens > truncated(frac * (rank.maxNumBatchedTokens ?? unknownBatchedTokens))
}

function isDecodeBusy(rank: RankLoad, threshold: number | undefined): boolean {
  if (threshold === undefined) return false
  if (rank.latch) return rank.latch.isBusy
  const total = rank.totalBlocks
  if (total === undefined || total <= 0) return false
  const limit = threshold * total
  return (rank.kvUsedBlocks ?? 0) > limit || (rank.activeDecodeBlocks ?? 0) > limit
}

function moveLatch(latch: DecodeLatch, load: ActiveLoad, limit: number): void {
  const { activeDecodeBlocks: active, kvUsedBlocks: used } = load
  if (active !== undefined) latch.activeCalm = !(active > limit)
  if (used !== undefined) latch.kvUsedCalm = !(used > limit)
  if ((active !== undefined && !latch.activeCalm) || (used !== undefined && !latch.kvUsedCalm)) latch.isBusy = true
  else if (latch.activeCalm && latch.kvUsedCalm) latch.isBusy = false
}

/** A float becomes an unsigned integer: toward zero, never below it, nothing for NaN. */
function truncated(value: number): number {
  return Number.isNaN(value) ? 0 : Math.max(0, Math.trunc(value))
}
