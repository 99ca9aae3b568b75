/**
 * `POST /router`: the router as a service, one JSON request and one JSON answer (New, MarkPrefill, MarkFree). The context
 * id is `x-request-id`; the model, where several are served, is the query `?model=`.
 */
import { WarmrouteError } from '../../core/protocol/index.js'
import type { RouterPort, RouterRequest, RouterResponse } from '../../routing/index.js'
import { parseRouterRequest, requestIdOr, stringifyRouterResponse } from '../../routing/index.js'
import type { GatewayContext } from '../context.js'
import { answerJson } from '../http/answer.js'
import { readBody } from '../http/read-body.js'
import type { Route } from './route.js'

export function routerProtocolRoute(context: GatewayContext): Route {
  return {
    method: 'POST',
    path: '/router',
    access: 'admin',
    async handle({ request, response, query }) {
      const bytes = await readBody(request, response, {
        bytesMax: context.limits.bodyBytesMax,
        timeoutMs: context.deadlines.bodyMs,
      })
      const parsed = parseRouterRequest(bytes.toString('utf8'))
      const header = request.headers['x-request-id']
      const contextId = typeof header === 'string' ? header : undefined
      const { model } = context.hub.resolve(new URLSearchParams(query).get('model') ?? undefined)
      const answer = await serve(model.spec.router, parsed, contextId)
      answerJson(response, 200, stringifyRouterResponse(answer))
    },
  }
}

async function serve(
  router: RouterPort,
  request: RouterRequest,
  contextId: string | undefined,
): Promise<RouterResponse> {
  switch (request.method) {
    case 'new': {
      if (contextId === undefined || contextId.trim() === '')
        throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: 'the header x-request-id names the request' })
      const { tokens, blockMmInfos, priorityJump, strictPriority, loraName, cacheNamespace } = request
      const { requiredTaints, preferredTaints } = request
      const wishes = { priorityJump, strictPriority, loraName, cacheNamespace, requiredTaints, preferredTaints }
      const answer = await router.route({ requestId: contextId, tokens, blockMmInfos, ...wishes })
      return { method: 'new', worker: answer, overlapBlocks: answer.overlapBlocks }
    }
    case 'mark_prefill': {
      const id = requestIdOr(contextId ?? '', request.requestId)
      if (id !== '') router.prefillDone(id)
      return { method: 'prefill_marked', success: id !== '' }
    }
    case 'mark_free': {
      const id = requestIdOr(contextId ?? '', request.requestId)
      if (id !== '') router.free(id)
      return { method: 'free_marked', success: id !== '' }
    }
    case 'potential_loads': {
      const loads = await router.loads()
      return {
        method: 'potential_loads',
        loads: loads.map((load) => ({
          workerId: load.workerId,
          dpRank: load.dpRank,
          potentialPrefillTokens: load.activePrefillTokens + request.tokens.length,
          potentialDecodeBlocks: load.activeDecodeBlocks,
          activeRequests: load.activeRequests,
        })),
        pendingCount: 0,
        pendingIslTokens: 0,
      }
    }
  }
}
