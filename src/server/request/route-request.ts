/** What the router is asked: the prompt, the request's own wishes, and who is left out right now. */
import type { PromptHashes, RouteRequest } from '../../routing/index.js'
import type { Prepared } from './prepare.js'
import type { PromptTokens } from './prompt.js'

export function routeRequestOf(
  requestId: string,
  prepared: Prepared,
  prompt: PromptTokens | undefined,
  hashes: PromptHashes | undefined,
  failed: ReadonlySet<bigint>,
  signal: AbortSignal,
): RouteRequest {
  const { model, hints, loraName } = prepared
  const named = hints.decodeWorkerId ?? hints.backendWorkerId
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
    excludedWorkerIds: workerId === undefined ? leftOut(prepared, failed) : undefined,
    requiredTaints: hints.requiredTaints,
    preferredTaints: hints.preferredTaints,
    isQueryOnly: hints.isDryRun,
    signal,
  }
}

/** Usually nobody, and then no set is made. A pin goes to its worker whatever we think of it. */
function leftOut({ model }: Prepared, failed: ReadonlySet<bigint>): ReadonlySet<bigint> | undefined {
  const { unavailable } = model.fleet
  const busy = model.monitor.isConfigured ? model.monitor.excludedWorkers() : failed
  if (failed.size === 0 && busy.size === 0) return unavailable.size === 0 ? undefined : unavailable
  return new Set([...unavailable, ...busy, ...failed])
}
