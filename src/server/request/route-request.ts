/** What the router is asked: the prompt, the request's own wishes, and who is left out right now. */
import type { RouterConfigOverride } from '../../core/protocol/index.js'
import type { PromptHashes, RouteRequest } from '../../routing/index.js'
import type { Prepared } from './prepare.js'
import type { PromptTokens } from './prompt.js'

/** What a remote prefill, or its absence, adds to the choice of a worker. */
export interface RouteTerms {
  readonly override?: RouterConfigOverride | undefined
  readonly excluded?: ReadonlySet<bigint> | undefined
  readonly requiredTaints?: readonly string[] | undefined
  readonly preferredTaints?: Readonly<Record<string, number>> | undefined
}

const noTerms: RouteTerms = {}

export function routeRequestOf(
  requestId: string,
  prepared: Prepared,
  prompt: PromptTokens | undefined,
  hashes: PromptHashes | undefined,
  failed: ReadonlySet<bigint>,
  signal: AbortSignal,
  terms: RouteTerms = noTerms,
): RouteRequest {
  const { model, hints, loraName } = prepared
  const named = hints.decodeWorkerId ?? backendOf(prepared)
  const workerId = named ?? model.agents.resolve(hints.sessionControl)
  return {
    requestId,
    model: model.name,
    tokens: prompt?.tokens,
    tokenCount: prompt ? undefined : Math.ceil(prepared.bytes.length / 4),
    hashes,
    blockMmInfos: prompt?.blockMmInfos,
    loraName,
    cacheNamespace: hints.cacheSalt,
    priorityJump: hints.priority === undefined ? undefined : Math.max(0, hints.priority),
    strictPriority: hints.strictPriority,
    policyClass: hints.policyClass,
    expectedOutputTokens: hints.expectedOutputTokens,
    pin: workerId === undefined ? undefined : { workerId, dpRank: hints.dpRank },
    excludedWorkerIds: workerId === undefined ? leftOut(prepared, failed, terms.excluded) : undefined,
    requiredTaints: terms.requiredTaints
      ? [...(hints.requiredTaints ?? []), ...terms.requiredTaints]
      : hints.requiredTaints,
    preferredTaints: terms.preferredTaints
      ? { ...terms.preferredTaints, ...hints.preferredTaints }
      : hints.preferredTaints,
    override: terms.override,
    isQueryOnly: hints.isDryRun,
    signal,
  }
}

/** A backend that only prefills is meant for the other half of the request. */
export function backendOf({ hints, model }: Prepared): bigint | undefined {
  const { backendWorkerId: id } = hints
  return id !== undefined && model.prefill?.fleet.get(id) ? undefined : id
}

/** Usually nobody, and then no set is made. A pin goes to its worker whatever we think of it. */
function leftOut(
  { model }: Prepared,
  failed: ReadonlySet<bigint>,
  excluded: ReadonlySet<bigint> | undefined,
): ReadonlySet<bigint> | undefined {
  const { unavailable } = model.fleet
  const busy = model.monitor.isConfigured ? model.monitor.excludedWorkers() : failed
  if (failed.size === 0 && busy.size === 0) {
    if (!excluded) return unavailable.size === 0 ? undefined : unavailable
    if (unavailable.size === 0) return excluded
  }
  return new Set([...unavailable, ...busy, ...failed, ...(excluded ?? [])])
}
