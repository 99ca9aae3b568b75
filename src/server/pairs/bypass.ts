/** Asks both routers, without booking, whether a remote prefill is worth it (`conditional_disagg_*`). */
import { bypassRemotePrefill } from '../../core/prefill/index.js'
import { WarmrouteError } from '../../core/protocol/index.js'
import type { WorkerRank } from '../../core/protocol/index.js'
import { canDecodeAlone } from '../../engines/index.js'
import type { RankLoad, RouterPort } from '../../routing/index.js'
import { routeRequestOf } from '../request/route-request.js'
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
  const { side, prepared, prompt, inner } = question
  const { conditional } = side.disagg
  const { model } = prepared
  if (!conditional || !prompt || prompt.tokens.length === 0 || !model.looksAtPrompts) return undefined
  if (prefillPin(question)) return undefined
  try {
    const decode = await queryDecode(question)
    const target = model.fleet.get(decode.workerId)
    if (!target || (target.spec.role === 'decode' && !canDecodeAlone(target.spec.engine))) return undefined
    const needsLoad = conditional.decodeBusyThreshold !== undefined
    const decodeLoad = needsLoad ? await loadOf(model.spec.router, decode) : undefined
    const prefill = conditional.policy === 'isl_bounding' ? undefined : await queryPrefill(question)
    const prefillLoad = prefill && (await loadOf(inner, prefill))
    const reason = bypassRemotePrefill(conditional, {
      promptTokens: prompt.tokens.length,
      decodeCachedTokens: decode.cachedTokens,
      decodePotentialBlocks:
        decodeLoad && decodeLoad.activeDecodeBlocks + Math.ceil(prompt.tokens.length / model.spec.blockSize),
      decodeTotalBlocks: target.config.totalKvBlocks,
      prefillActiveTokens: prefillLoad?.activePrefillTokens,
      prefillCapacityTokens: prefill && side.fleet.get(prefill.workerId)?.config.maxNumBatchedTokens,
    })
    return reason === 'mostly-cached' ? 'mostly_cached' : reason === 'prefill-busy' ? 'prefill_busy' : undefined
  } catch (error) {
    if (!(error instanceof WarmrouteError) || question.signal.aborted) throw error
    return undefined // nobody could be asked; the remote way says what is wrong
  }
}

function queryDecode({ id, side, prepared, prompt, hashes, signal }: BypassQuestion): ReturnType<RouterPort['route']> {
  const terms = { excluded: side.notForDecode }
  const request = routeRequestOf(id, prepared, prompt, hashes, nobody, signal, terms)
  return prepared.model.spec.router.route({ ...request, isQueryOnly: true })
}

function queryPrefill(question: BypassQuestion): ReturnType<RouterPort['route']> {
  return question.inner.route(
    prefillRouteRequest({ ...question, bookingId: question.id, isQueryOnly: true, failed: nobody }),
  )
}

async function loadOf(router: RouterPort, { workerId, dpRank }: WorkerRank): Promise<RankLoad | undefined> {
  const loads = await router.loads()
  return loads.find((load) => load.workerId === workerId && load.dpRank === dpRank)
}
