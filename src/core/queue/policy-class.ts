/** A class of requests: its own order, thresholds, share of the queue and limits. */
import type { QueuePolicy } from '../protocol/index.js'

export interface PolicyClass {
  readonly name: string
  /** Both or neither. Neither: an explicit class, addressed by its name. */
  readonly policyFamily?: string | undefined
  readonly cacheBucket?: string | undefined
  readonly queuePolicy: QueuePolicy
  /** Share of the queue in uncached tokens per round. */
  readonly quantum: number
  /** Booked prefill tokens above which a rank counts as busy for this class. */
  readonly prefillBusyThreshold?: number | undefined
  /** The same as a multiple of the rank's engine step. */
  readonly prefillBusyThresholdFrac?: number | undefined
  readonly requestQueueLimitPerWorker?: number | undefined
  readonly rawIslTokenQueueLimitPerWorker?: number | undefined
  readonly cachedTokenQueueLimitPerWorker?: number | undefined
}

export interface QueueUsage {
  readonly requests: number
  readonly rawIslTokens: number
  readonly cachedTokens: number
}

export type LimitKind = 'requests' | 'raw_isl_tokens' | 'cached_tokens' | 'parked_requests'

/** Why a request may not wait. */
export interface QueueRejection {
  readonly policyClass: string
  readonly limitKind: LimitKind
  readonly current: number
  readonly limit: number
}

/** A class without a threshold never parks. */
export function mayPark(policy: PolicyClass): boolean {
  return policy.prefillBusyThreshold !== undefined || policy.prefillBusyThresholdFrac !== undefined
}

/** Strictly above either threshold. An idle rank is never busy, not even under a threshold of 0. */
export function isRankBusy(policy: PolicyClass, activeTokens: number, maxBatchedTokens: number): boolean {
  const { prefillBusyThreshold: absolute, prefillBusyThresholdFrac: share } = policy
  if (absolute !== undefined && activeTokens > absolute) return true
  return share !== undefined && activeTokens > share * maxBatchedTokens
}

/**
 * Compares what already waits with the limits, in a fixed order. The request that crosses a limit is still accepted;
 * the next one is not. Fewer workers lower the limit, and evict nobody.
 */
export function judgeLimits(policy: PolicyClass, usage: QueueUsage, workerCount: number): QueueRejection | undefined {
  return (
    judgeLimit(policy, 'requests', usage.requests, policy.requestQueueLimitPerWorker, workerCount) ??
    judgeLimit(policy, 'raw_isl_tokens', usage.rawIslTokens, policy.rawIslTokenQueueLimitPerWorker, workerCount) ??
    judgeLimit(policy, 'cached_tokens', usage.cachedTokens, policy.cachedTokenQueueLimitPerWorker, workerCount)
  )
}

function judgeLimit(
  policy: PolicyClass,
  limitKind: LimitKind,
  current: number,
  perWorker: number | undefined,
  workerCount: number,
): QueueRejection | undefined {
  if (perWorker === undefined) return undefined
  const limit = Math.min(Number.MAX_SAFE_INTEGER, perWorker * workerCount)
  return current >= limit ? { policyClass: policy.name, limitKind, current, limit } : undefined
}
