/** Answers the request protocol with a router: exactly one answer per request. */
import type { WarmrouteError } from '../core/protocol/index.js'
import type { QueueRejection } from '../core/queue/index.js'
import { roundedOverlapBlocks } from './best-match.js'
import type { KvRouter } from './kv-router.js'
import type { NewRequest, RequestContext, RouterRequest, RouterResponse } from './request-protocol.js'
import { parseRouterRequest, requestIdOr, stringifyRouterResponse } from './request-protocol.js'

/** JSON in, JSON out. Rejects with what routing rejects with. */
export async function answerRouterRequest(
  router: KvRouter<unknown>,
  context: RequestContext,
  text: string,
): Promise<string> {
  return stringifyRouterResponse(await handleRouterRequest(router, context, parseRouterRequest(text)))
}

export async function handleRouterRequest(
  router: KvRouter<unknown>,
  context: RequestContext,
  request: RouterRequest,
): Promise<RouterResponse> {
  switch (request.method) {
    case 'new':
      return await findWorker(router, context, request)
    case 'mark_prefill': {
      const requestId = requestIdOr(context.id, request.requestId)
      return { method: 'prefill_marked', success: succeeds(() => router.markPrefillCompleted(requestId)) }
    }
    case 'mark_free': {
      const requestId = requestIdOr(context.id, request.requestId)
      return { method: 'free_marked', success: succeeds(() => router.free(requestId)) }
    }
    case 'potential_loads': {
      const { method, ...question } = request
      const loads = await router.getPotentialLoads(question)
      const { pendingCount, pendingIslTokens } = router
      return { method, loads, pendingCount, pendingIslTokens }
    }
  }
}

/** A full queue is an answer; every other failure fails the call. A context that ends meanwhile leaves nothing booked. */
async function findWorker(
  router: KvRouter<unknown>,
  context: RequestContext,
  request: NewRequest,
): Promise<RouterResponse> {
  const { method: _method, ...prompt } = request
  const { id: contextId, policyClass, signal } = context
  try {
    const details = await router.findBestMatchDetails({ ...prompt, contextId, policyClass, signal, updateStates: true })
    return { method: 'new', worker: details.worker, overlapBlocks: roundedOverlapBlocks(details) }
  } catch (error) {
    const { code, details } = error as WarmrouteError
    if (code === 'WR_QUEUE_REJECTED')
      return { method: 'queue_rejected', rejection: details['rejection'] as QueueRejection }
    throw error
  }
}

function succeeds(call: () => void): boolean {
  try {
    call()
    return true
  } catch {
    return false
  }
}
