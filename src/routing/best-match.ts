/** What `findBestMatch` is asked and answers, by upstream's names. */
import type { HashColumn, RouterConfigOverrideInput, WorkerRank } from '../core/protocol/index.js'
import type { Receipt, SchedulingRequest } from '../core/router/index.js'
import type { SharedCacheHits } from '../core/selection/index.js'
import type { Prompt } from './prompt.js'
import type { RouteRequest } from './router-port.js'

/** A prompt and what may be asked for it: as anybody who routes says it, but for what has another name here. */
type Asked = Omit<RouteRequest, 'requestId' | 'model' | 'pin' | 'override' | 'isQueryOnly'>

export interface FindBestMatch extends Asked {
  /** Names the request; needed with `updateStates`. */
  readonly contextId?: string | undefined
  /** May use the deprecated name `overlapScoreWeight`. */
  readonly routerConfigOverride?: RouterConfigOverrideInput | undefined
  /** True: the request is booked on the worker it gets. */
  readonly updateStates: boolean
  readonly pinnedWorker?: WorkerRank | undefined
  /** Where decisions are remembered, this one is: always, or when the worker that was chosen is one to predict. */
  readonly recordsDecision?: boolean | ((worker: WorkerRank) => boolean) | undefined
}

export interface BestMatchDetails {
  readonly worker: WorkerRank
  readonly effectiveOverlapBlocks: number
  readonly cachedTokens: number
  readonly waitedMs: number
  readonly receipt: Receipt | undefined
}

export interface WorkerCacheHitEstimate {
  readonly effectiveOverlapBlocks: number
  readonly cachedTokens: number
}

/** Whole blocks, halves up. */
export function roundedOverlapBlocks(estimate: { readonly effectiveOverlapBlocks: number }): number {
  return Math.round(estimate.effectiveOverlapBlocks)
}

export function toSchedulingRequest(
  input: FindBestMatch,
  prompt: Prompt,
  named: { readonly names: HashColumn | undefined; readonly count: number },
  sharedHits: SharedCacheHits | undefined,
): SchedulingRequest {
  const { requiredTaints, preferredTaints } = input
  return {
    requestId: input.contextId,
    promptTokens: prompt.tokenCount,
    localHashes: prompt.local,
    sequenceHashes: named.names,
    blockCount: named.count,
    isQueryOnly: !input.updateStates,
    loraName: input.loraName,
    expectedOutputTokens: input.expectedOutputTokens,
    isWhole: input.isWhole,
    pin: input.pinnedWorker,
    allowedWorkerIds: input.allowedWorkerIds,
    excludedWorkerIds: input.excludedWorkerIds,
    constraints: requiredTaints || preferredTaints ? { requiredTaints, preferredTaints } : undefined,
    priorityJump: input.priorityJump,
    strictPriority: input.strictPriority,
    policyClass: input.policyClass,
    override: input.routerConfigOverride,
    sharedHits,
    wantReceipt: input.wantReceipt,
    session: input.session,
  }
}
