/**
 * `POST /router`: the router as a service, one JSON request and one JSON answer (New, MarkPrefill, MarkFree). The context
 * id is `x-request-id`, the class of the request `x-dynamo-meta-policy-class`; the model, where several are served, is the
 * query `?model=`. A caller that leaves while its request waits leaves nothing booked.
 */
import type { IncomingMessage } from 'node:http'
import { WarmrouteError } from '../../core/protocol/index.js'
import type { RequestContext, RouterRequest } from '../../routing/index.js'
import { requestIdOr, stringifyRouterResponse } from '../../routing/index.js'
import type { GatewayContext } from '../context.js'
import { answerJson } from '../http/answer.js'
import { readBody } from '../http/read-body.js'
import { takeSteps } from '../steps.js'
import { readRouterRequest } from './read-router-request.js'
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
        memory: context,
      })
      const asked = await readAndGive(context, bytes)
      const { model } = context.hub.resolve(new URLSearchParams(query).get('model') ?? undefined)
      const { router } = model.spec
      const answer = await whileAsked(context, request, async (signal) => {
        const caller = contextOf(request, signal, asked)
        const made = await router.answer(caller, asked)
        if (signal.aborted && made.method === 'new') router.free(caller.id) // nobody will hear where it should go
        return made
      })
      answerJson(response, 200, stringifyRouterResponse(answer))
    },
  }
}

/** What is read has memory of its own. */
async function readAndGive({ buffers, budget }: GatewayContext, bytes: Buffer): Promise<RouterRequest> {
  try {
    return await takeSteps(readRouterRequest(bytes))
  } finally {
    buffers.give(bytes)
    budget.release(bytes.length)
  }
}

/** A wait for a worker ends with whoever asked, and with the time that any request has. */
async function whileAsked<T>(
  { callers, deadlines, shape }: GatewayContext,
  { socket }: IncomingMessage,
  ask: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const over = new AbortController()
  const caller = { left: () => over.abort(), hasBegun: false, shape }
  const timer = setTimeout(() => over.abort(), deadlines.totalMs)
  callers.add(socket, caller)
  try {
    return await ask(over.signal)
  } finally {
    callers.delete(socket, caller)
    clearTimeout(timer)
  }
}

/** Throws `WR_INVALID_ARGUMENT` where nobody says which request is meant. */
function contextOf(request: IncomingMessage, signal: AbortSignal, asked: RouterRequest): RequestContext {
  const id = headerOf(request, 'x-request-id') ?? ''
  const named = asked.method === 'new' || asked.method === 'potential_loads' ? id : requestIdOr(id, asked.requestId)
  if (asked.method !== 'potential_loads' && named === '')
    throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: 'the header x-request-id names the request' })
  return { id, policyClass: headerOf(request, 'x-dynamo-meta-policy-class'), signal }
}

function headerOf(request: IncomingMessage, name: string): string | undefined {
  const value = request.headers[name]
  return typeof value === 'string' && value.trim() !== '' ? value.trim() : undefined
}
