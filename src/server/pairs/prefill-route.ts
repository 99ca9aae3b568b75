/** What the prefill router is asked, and what its choice means for the choice of a decode worker. */
import type { WorkerConfig } from '../../core/protocol/index.js'
import type { AffinityTarget } from '../../core/sessions/index.js'
import type { PromptHashes, RouteRequest } from '../../routing/index.js'
import type { Prepared } from '../request/prepare.js'
import type { PromptTokens } from '../request/prompt.js'
import { guessedTokens } from '../request/prompt.js'
import type { RouteTerms } from '../request/route-request.js'
import { topologyTaint } from '../workers/worker.js'
import type { PrefillSide } from './prefill-side.js'

export interface PrefillQuestion {
  readonly side: PrefillSide
  readonly prepared: Prepared
  readonly prompt: PromptTokens | undefined
  readonly hashes: PromptHashes | undefined
  readonly bookingId: string
  readonly isQueryOnly: boolean
  readonly failed: ReadonlySet<bigint>
  /** Where its session prefills; a worker that the request names comes first. */
  readonly tiedTo?: AffinityTarget | undefined
  readonly signal: AbortSignal
}

export function prefillRouteRequest(question: PrefillQuestion): RouteRequest {
  const { side, prepared, prompt, hashes, bookingId, isQueryOnly, failed, signal } = question
  const { model, hints, loraName } = prepared
  const unfit = side.fleet.unfitFor(prepared.row, loraName)
  const tiedTo = question.tiedTo && !unfit.has(question.tiedTo.workerId) ? question.tiedTo : undefined
  const pin = prefillPin(question) ?? tiedTo
  const isSameBlocks = side.blockSize === model.spec.blockSize
  return {
    requestId: bookingId,
    model: model.name,
    tokens: prompt?.tokens,
    tokenCount: prompt ? undefined : guessedTokens(prepared.bytes),
    hashes: isSameBlocks ? hashes : undefined,
    encodings: isSameBlocks ? prompt?.encodings : prompt?.encodings?.map(({ workerIds }) => ({ workerIds })),
    blockMmInfos: isSameBlocks ? prompt?.blockMmInfos : undefined,
    loraName,
    cacheNamespace: hints.cacheSalt,
    priorityJump: hints.priority === undefined ? undefined : Math.max(0, hints.priority),
    strictPriority: hints.strictPriority,
    policyClass: hints.policyClass,
    pin,
    excludedWorkerIds: pin ? undefined : leftOut(side.fleet.unavailable, failed, unfit),
    requiredTaints: hints.requiredTaints,
    preferredTaints: hints.preferredTaints,
    isQueryOnly,
    signal,
  }
}

/** The backend's id counts where it names a prefill worker: by itself it names the decode worker too. */
export function prefillPin({ side, prepared }: Pick<PrefillQuestion, 'side' | 'prepared'>): RouteRequest['pin'] {
  const { prefillWorkerId, backendWorkerId, prefillDpRank, dpRank } = prepared.hints
  const backend = backendWorkerId !== undefined && side.fleet.get(backendWorkerId) ? backendWorkerId : undefined
  const workerId = prefillWorkerId ?? backend
  return workerId === undefined ? undefined : { workerId, dpRank: prefillDpRank ?? dpRank }
}

/** The decode worker must, or should, stand where the prefill worker's KV can reach it. */
export function topologyTerms(
  config: WorkerConfig | undefined,
): Pick<RouteTerms, 'requiredTaints' | 'preferredTaints'> {
  const domain = config?.kvTransferDomain
  const value = domain === undefined ? undefined : config?.topologyDomains?.[domain]
  if (domain === undefined || value === undefined) return {}
  const taint = topologyTaint(domain, value)
  if (config?.kvTransferEnforcement === 'preferred')
    return { preferredTaints: { [taint]: config.kvTransferPreferredWeight ?? 1 } }
  return { requiredTaints: [taint] }
}

function leftOut(
  unavailable: ReadonlySet<bigint>,
  failed: ReadonlySet<bigint>,
  unfit: ReadonlySet<bigint>,
): ReadonlySet<bigint> | undefined {
  if (failed.size === 0 && unfit.size === 0) return unavailable.size === 0 ? undefined : unavailable
  return new Set([...unavailable, ...failed, ...unfit])
}
