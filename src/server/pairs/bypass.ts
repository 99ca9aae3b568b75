/**
 * Asks both routers, without booking, whether a remote prefill is worth it (`conditional_disagg_*`). A question never waits:
 * one that a full router would park is given up in the next turn of the loop.
 */
import { bypassRemotePrefill } from '../../core/prefill/index.js'
import { WarmrouteError } from '../../core/protocol/index.js'
import type { WorkerRank } from '../../core/protocol/index.js'
import { canDecodeAlone } from '../../engines/index.js'
import type { RankLoad, RouteAnswer, RouteRequest, RouterPort } from '../../routing/index.js'
import { placeOf, routeRequestOf } from '../request/route-request.js'
import type { PrefillQuestion } from './prefill-route.js'
import { prefillPin, prefillRouteRequest } from './prefill-route.js'
import type { SkipReason } from './skip-reason.js'

export interface BypassQuestion extends Omit<PrefillQuestion, 'bookingId' | 'isQueryOnly' | 'failed'> {
  readonly inner: RouterPort
  readonly id: string
}

const nobody: ReadonlySet<bigint> = new Set()

/** Undefined: prefill remotely. What cannot be found out never speaks for skipping it. */
export async function bypassReason(question: BypassQuestion): Promise<SkipReason | undefined> {
  const { side, prepared, prompt } = question
  const { conditional } = side.disagg
  const { model } = prepared
  if (!conditional || !prompt || prompt.tokens.length === 0 || !model.looksAtPrompts) return undefined
  if (prefillPin(question)) return undefined
  const decode = await decodeTarget(question)
  const target = decode && model.fleet.get(decode.workerId)
  if (!target || (target.spec.role === 'decode' && !canDecodeAlone(target.spec.engine))) return undefined
  const decodeLoad = conditional.decodeBusyThreshold === undefined ? undefined : await loadOf(model.spec.router, decode)
  const prefillLoad = conditional.policy === 'isl_bounding' ? undefined : await prefillTarget(question)
  question.signal.throwIfAborted()
  const reason = bypassRemotePrefill(conditional, {
    promptTokens: prompt.tokens.length,
    decodeCachedTokens: decode.cachedTokens,
    decodePotentialBlocks:
      decodeLoad && decodeLoad.activeDecodeBlocks + Math.ceil(prompt.tokens.length / model.spec.blockSize),
    decodeTotalBlocks: target.config.totalKvBlocks,
    prefillActiveTokens: prefillLoad?.activePrefillTokens,
    prefillCapacityTokens: prefillLoad && side.fleet.get(prefillLoad.workerId)?.config.maxNumBatchedTokens,
  })
  return reason === 'mostly-cached' ? 'mostly_cached' : reason === 'prefill-busy' ? 'prefill_busy' : undefined
}

/** The decode worker that would be chosen; undefined where the request would have to wait for one. */
function decodeTarget(question: BypassQuestion): Promise<RouteAnswer | undefined> {
  const { id, side, prepared, prompt, hashes, signal } = question
  const place = placeOf(prepared, undefined, nobody, side.notForDecode)
  const request = routeRequestOf(id, prepared, prompt, hashes, place, signal, { excluded: side.notForDecode })
  return answerNow(prepared.model.spec.router, request)
}

/** The load of the prefill worker that would be chosen; where requests wait for one, of the one that waits least. */
async function prefillTarget(question: BypassQuestion): Promise<RankLoad | undefined> {
  const { inner, id, side } = question
  const request = prefillRouteRequest({ ...question, bookingId: id, isQueryOnly: true, failed: nobody })
  const chosen = await answerNow(inner, request)
  if (chosen) return loadOf(inner, chosen)
  const open = (await inner.loads()).filter(({ workerId }) => !side.fleet.unavailable.has(workerId))
  return open.toSorted((a, b) => a.activePrefillTokens - b.activePrefillTokens)[0]
}

async function answerNow(router: RouterPort, request: RouteRequest): Promise<RouteAnswer | undefined> {
  const stop = new AbortController()
  const answer = router.route({ ...request, isQueryOnly: true, signal: stop.signal }).catch((error: unknown) => {
    if (!(error instanceof WarmrouteError)) throw error
    return undefined // nobody could be asked; the remote way says what is wrong
  })
  const nextTurn = new Promise<undefined>((resolve) => setImmediate(() => resolve(undefined)))
  const found = await Promise.race([answer, nextTurn])
  if (!found) stop.abort()
  return found
}

async function loadOf(router: RouterPort, { workerId, dpRank }: WorkerRank): Promise<RankLoad | undefined> {
  const loads = await router.loads()
  return loads.find((load) => load.workerId === workerId && load.dpRank === dpRank)
}
