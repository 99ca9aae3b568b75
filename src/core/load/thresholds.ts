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

/** A partial update: present fields change, absent ones stay. There is no way to unset a field again. */
export function updateThresholds(
  version: MonitorVersion,
  before: LoadThresholds,
  change: LoadThresholds,
): LoadThresholds {
  const present = Object.fromEntries(
    Object.entries(change).filter(([, value]) => value !== undefined),
  ) as LoadThresholds
  return { ...before, ...asStored(version, present) }
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
