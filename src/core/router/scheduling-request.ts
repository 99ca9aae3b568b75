/** What a decision is asked for: a prompt that is hashed already, and everything that limits where it may go. */
import type {
  CompatMode,
  HashColumn,
  JsonInput,
  RouterConfigOverride,
  RoutingConstraints,
  WorkerRank,
} from '../protocol/index.js'
import { completeOverride, entriesOf, WarmrouteError } from '../protocol/index.js'
import type { SharedCacheHits } from '../selection/index.js'

export interface SchedulingRequest {
  /** Needed unless it is a query only. */
  readonly requestId?: string | undefined
  readonly promptTokens: number
  /** Hashes of the complete blocks; kept while parked, so that a long wait can look the prompt up again. */
  readonly localHashes?: HashColumn | undefined
  /** One column of hashes cannot look it up again: after a long wait it comes back as a dispatch of kind `refresh`. */
  readonly isLookedUpOutside?: boolean | undefined
  /** Names of the blocks it will occupy. Absent: blocks are not tracked. Columns may be longer than `blockCount`. */
  readonly sequenceHashes?: HashColumn | undefined
  readonly blockCount: number
  /** True: answer, but book nothing. */
  readonly isQueryOnly: boolean
  readonly loraName?: string | undefined
  readonly expectedOutputTokens?: number | undefined
  /** Nobody will see its first token: its answer comes in one piece, and its prompt is taken to be computed when it should be. */
  readonly isWhole?: boolean | undefined
  readonly pin?: WorkerRank | undefined
  readonly allowedWorkerIds?: ReadonlySet<bigint> | undefined
  readonly excludedWorkerIds?: ReadonlySet<bigint> | undefined
  readonly constraints?: RoutingConstraints | undefined
  readonly priorityJump?: number | undefined
  readonly strictPriority?: number | undefined
  readonly policyClass?: string | undefined
  readonly override?: RouterConfigOverride | undefined
  readonly sharedHits?: SharedCacheHits | undefined
  readonly wantReceipt?: boolean | undefined
  /** Whatever a custom selection policy should see. Plain, so that a log can hold it. */
  readonly session?: JsonInput | undefined
}

/** Why a request cannot even be considered; nothing when it can. */
export function judgeRequest(request: SchedulingRequest, compat: CompatMode): WarmrouteError | undefined {
  const { requestId, promptTokens, blockCount, localHashes, sequenceHashes } = request
  if (!request.isQueryOnly && (requestId === undefined || requestId === ''))
    return invalid('context_id must be provided when update_states is true', 'requestId', requestId)
  if (!Number.isSafeInteger(promptTokens) || promptTokens <= 0)
    return invalid('a prompt has at least one token', 'promptTokens', promptTokens)
  if (!Number.isSafeInteger(blockCount) || blockCount < 0 || blockCount > promptTokens)
    return invalid('a prompt has at most one block per token', 'blockCount', blockCount)
  if ((localHashes?.length ?? Infinity) < 2 * blockCount || (sequenceHashes?.length ?? Infinity) < 2 * blockCount)
    return invalid('there are fewer hashes than blocks', 'blockCount', blockCount)
  if (!isFinite(request.priorityJump)) return invalid('it is no number', 'priorityJump', request.priorityJump)
  if (!isFinite(request.strictPriority)) return invalid('it is no number', 'strictPriority', request.strictPriority)
  const expected = request.expectedOutputTokens
  if (!isFinite(expected) || (expected ?? 0) < 0) return invalid('it is no count', 'expectedOutputTokens', expected)
  for (const [taint, weight] of entriesOf(request.constraints?.preferredTaints ?? {}))
    if (!Number.isFinite(weight)) return invalid(`the weight of taint ${taint} is no number`, 'preferredTaints', weight)
  return request.override === undefined ? undefined : judgeOverride(request.override, compat)
}

function judgeOverride(override: RouterConfigOverride, compat: CompatMode): WarmrouteError | undefined {
  try {
    completeOverride(override, compat)
    return undefined
  } catch (error) {
    return error as WarmrouteError
  }
}

function isFinite(value: number | undefined): boolean {
  return value === undefined || Number.isFinite(value)
}

function invalid(reason: string, field: string, value: unknown): WarmrouteError {
  return new WarmrouteError('WR_INVALID_ARGUMENT', { reason, field, value })
}
