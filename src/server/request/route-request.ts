/** What the router is asked: the prompt, the request's own wishes, and who is left out right now. */
import type { RouterConfigOverride } from '../../core/protocol/index.js'
import { entriesOf, unkept, WarmrouteError } from '../../core/protocol/index.js'
import type { AffinityTarget } from '../../core/sessions/index.js'
import type { PromptHashes, RouteRequest, WaitSignal } from '../../routing/index.js'
import type { Prepared } from './prepare.js'
import type { PromptTokens } from './prompt.js'
import { guessedTokens } from './prompt.js'

/** What a remote prefill, or its absence, adds to the choice of a worker. */
export interface RouteTerms {
  readonly override?: RouterConfigOverride | undefined
  readonly excluded?: ReadonlySet<bigint> | undefined
  readonly requiredTaints?: readonly string[] | undefined
  readonly preferredTaints?: Readonly<Record<string, number>> | undefined
}

const noTerms: RouteTerms = {}

/** Where a request must, may and may not go. */
export interface Place extends Pick<RouteRequest, 'pin' | 'allowedWorkerIds' | 'excludedWorkerIds'> {
  /** No other worker will do. */
  readonly isFixed: boolean
}

/**
 * A worker that the request names comes first, then the one that holds its session or the response that it goes on with, then
 * the one that its conversation lives on; the last may be left when it fails, or when it cannot do this half of the request.
 */
export function placeOf(
  prepared: Prepared,
  tiedTo: AffinityTarget | undefined,
  failed: ReadonlySet<bigint>,
  excluded: ReadonlySet<bigint> | undefined,
): Place {
  const { model, hints } = prepared
  const { dpRank, sessionControl } = hints
  const named = hints.decodeWorkerId ?? backendOf(prepared)
  if (named !== undefined) return { isFixed: true, pin: { workerId: named, dpRank } }
  const workerId = model.agents.resolve(sessionControl) ?? prepared.holderId
  if (workerId !== undefined) {
    // Only the worker is sticky: with several ranks the router chooses among them.
    const isClear = dpRank !== undefined || model.fleet.get(workerId)?.config.dataParallelSize === 1
    return isClear
      ? { isFixed: true, pin: { workerId, dpRank } }
      : { isFixed: true, allowedWorkerIds: new Set([workerId]) }
  }
  const target = tiedTo ?? peeked(model, hints)
  const unfit = model.fleet.unfitFor(prepared.row, prepared.loraName)
  const mayBe = (id: bigint): boolean => !failed.has(id) && !excluded?.has(id) && !unfit.has(id)
  if (target && mayBe(target.workerId)) return { isFixed: false, pin: target }
  return { isFixed: false, excludedWorkerIds: leftOut(model, failed, excluded, unfit) }
}

export function routeRequestOf(
  requestId: string,
  prepared: Prepared,
  prompt: PromptTokens | undefined,
  hashes: PromptHashes | undefined,
  { pin, allowedWorkerIds, excludedWorkerIds }: Place,
  signal: WaitSignal,
  terms: RouteTerms = noTerms,
): RouteRequest {
  const { model, hints, loraName, row, isStream } = prepared
  return {
    requestId,
    model: model.name,
    tokens: prompt?.tokens,
    tokenCount: prompt ? undefined : row.isIdle ? 1 : guessedTokens(prepared.bytes),
    hashes,
    encodings: prompt?.encodings,
    blockMmInfos: prompt?.blockMmInfos,
    loraName,
    cacheNamespace: hints.cacheSalt,
    priorityJump: hints.priority === undefined ? hints.latencySensitivity : Math.max(0, hints.priority),
    strictPriority: hints.strictPriority,
    policyClass: hints.policyClass,
    expectedOutputTokens: hints.expectedOutputTokens,
    isWhole: row.generates && !isStream,
    pin,
    allowedWorkerIds,
    excludedWorkerIds,
    requiredTaints: terms.requiredTaints
      ? [...(hints.requiredTaints ?? []), ...terms.requiredTaints]
      : hints.requiredTaints,
    preferredTaints: terms.preferredTaints
      ? unkept(new Map([...entriesOf(terms.preferredTaints), ...entriesOf(hints.preferredTaints ?? {})]))
      : hints.preferredTaints,
    override: row.isIdle ? noPrefill : terms.override,
    isQueryOnly: hints.isDryRun,
    signal,
  }
}

const noPrefill = { trackPrefillTokens: false } as const

/** Why nobody could be chosen: where a busy worker would have done, the fleet is overloaded and not absent. */
export function refusalFor(
  error: unknown,
  { model, row, loraName, hints }: Prepared,
  place: Place,
  failed: ReadonlySet<bigint>,
  terms: RouteTerms = noTerms,
): unknown {
  const isNobody = error instanceof WarmrouteError && error.code === 'WR_NO_ENDPOINTS'
  if (!isNobody || place.isFixed || place.pin || !model.monitor.isConfigured) return error
  const unfit = model.fleet.unfitFor(row, loraName)
  const needed = [...(hints.requiredTaints ?? []), ...(terms.requiredTaints ?? [])]
  for (const workerId of model.monitor.excludedWorkers()) {
    const worker = model.fleet.get(workerId)
    if (!worker?.mayServe || failed.has(workerId) || unfit.has(workerId) || terms.excluded?.has(workerId)) continue
    if (needed.every((taint) => worker.config.taints?.has(taint)))
      return new WarmrouteError('WR_ALL_WORKERS_OVERLOADED', { reason: 'busy_threshold' }, { cause: error })
  }
  return error
}

/** A backend that only prefills is meant for the other half of the request. */
export function backendOf({ hints, model }: Prepared): bigint | undefined {
  const { backendWorkerId: id } = hints
  return id !== undefined && model.prefill?.fleet.get(id) ? undefined : id
}

/** A dry run shows where its conversation lives, and changes nothing about it. */
function peeked({ affinity, fleet }: Prepared['model'], { isDryRun, session }: Prepared['hints']) {
  const target = isDryRun && session ? affinity?.peek(session.sessionId) : undefined
  return target && fleet.get(target.workerId)?.mayServe ? target : undefined
}

/** Usually nobody, and then no set is made. A pin goes to its worker whatever we think of it. */
function leftOut(
  model: Prepared['model'],
  failed: ReadonlySet<bigint>,
  excluded: ReadonlySet<bigint> | undefined,
  unfit: ReadonlySet<bigint>,
): ReadonlySet<bigint> | undefined {
  const { unavailable } = model.fleet
  const busy = model.monitor.isConfigured ? model.monitor.excludedWorkers() : failed
  if (failed.size === 0 && busy.size === 0 && unfit.size === 0) {
    if (!excluded) return unavailable.size === 0 ? undefined : unavailable
    if (unavailable.size === 0) return excluded
  }
  return new Set([...unavailable, ...busy, ...failed, ...unfit, ...(excluded ?? [])])
}
