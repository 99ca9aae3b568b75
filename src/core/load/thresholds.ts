/**
 * The three limits that make a worker count as busy, in the two generations that exist.
 *
 * 1.1 (follows lib/llm/src/discovery/worker_monitor.rs at v1.1.0): every limit is optional, an unset one is never checked.
 * 1.0 (the same file at v1.0.2): every limit is always set, and fractions are kept as ten-thousandths in 32 bits.
 */

/** Which generation's rules apply; chosen per model. */
export type MonitorVersion = '1.1' | '1.0'

/**
 * When a worker counts as busy. Unset fields are absent, not null.
 *
 * @example
 * import { LoadMonitor, type LoadThresholds } from 'warmroute/core'
 *
 * const thresholds: LoadThresholds = { activePrefillTokensThreshold: 8192 }
 * console.log(new LoadMonitor({ thresholds }).isConfigured) // => true
 */
export interface LoadThresholds {
  /** Share of a rank's KV blocks, 0 to 1: busy when more than this is in use. */
  readonly activeDecodeBlocksThreshold?: number
  /** Prefill tokens of one rank: busy when more than this is under way. */
  readonly activePrefillTokensThreshold?: number
  /** The same as a multiple of the rank's `max_num_batched_tokens`. */
  readonly activePrefillTokensThresholdFrac?: number
}

/** Stands in for an unknown `max_num_batched_tokens`: so high that no realistic load is a fraction of it. */
export const unknownBatchedTokens = 10_000_000

/** What the command line of 1.1 and 1.2 sets where nothing is said. That of 1.0 sets nothing, that of later versions neither. */
export const commandLineThresholds: Required<LoadThresholds> = {
  activeDecodeBlocksThreshold: 1,
  activePrefillTokensThreshold: unknownBatchedTokens,
  activePrefillTokensThresholdFrac: 10,
}

/** A change to some of them: a number sets, null takes back, an absent field stays as it is. */
export type ThresholdChange = { readonly [Name in keyof LoadThresholds]?: number | null | undefined }

export function isConfigured(thresholds: LoadThresholds): boolean {
  return (
    thresholds.activeDecodeBlocksThreshold !== undefined ||
    thresholds.activePrefillTokensThreshold !== undefined ||
    thresholds.activePrefillTokensThresholdFrac !== undefined
  )
}

/** What a new monitor of this generation starts with. */
export function initialThresholds(version: MonitorVersion, given: LoadThresholds): LoadThresholds {
  if (version === '1.1') return { ...given }
  const { activeDecodeBlocksThreshold, activePrefillTokensThreshold, activePrefillTokensThresholdFrac } = given
  return asStored('1.0', {
    activeDecodeBlocksThreshold: activeDecodeBlocksThreshold ?? 1,
    activePrefillTokensThreshold: activePrefillTokensThreshold ?? unknownBatchedTokens,
    activePrefillTokensThresholdFrac: activePrefillTokensThresholdFrac ?? 1.5,
  })
}

/** A partial update: present fields change, absent ones stay. A limit taken back is what it is in a monitor that was never told it. */
export function updateThresholds(
  version: MonitorVersion,
  before: LoadThresholds,
  change: ThresholdChange,
): LoadThresholds {
  const kept = Object.entries(before).filter(([name]) => change[name as keyof LoadThresholds] !== null)
  const set = Object.entries(change).filter(([, value]) => value !== undefined && value !== null)
  return {
    ...initialThresholds(version, {}),
    ...Object.fromEntries(kept), // not stored once more: 0.0003 read as ten-thousandths again would be 0.0002
    ...asStored(version, Object.fromEntries(set)),
  }
}

const scale = 10_000
const scaledMax = 2 ** 32 - 1

function asStored(version: MonitorVersion, thresholds: LoadThresholds): LoadThresholds {
  if (version === '1.1') return thresholds
  const { activeDecodeBlocksThreshold: decode, activePrefillTokensThresholdFrac: frac } = thresholds
  return {
    ...thresholds,
    ...(decode === undefined ? {} : { activeDecodeBlocksThreshold: inTenThousandths(decode) }),
    ...(frac === undefined ? {} : { activePrefillTokensThresholdFrac: inTenThousandths(frac) }),
  }
}

/** Truncates toward zero and saturates: 0.12345 reads back as 0.1234, anything below 0 (or not a number) as 0. */
function inTenThousandths(value: number): number {
  const scaled = Math.trunc(value * scale)
  return Number.isNaN(scaled) ? 0 : Math.min(Math.max(scaled, 0), scaledMax) / scale
}
