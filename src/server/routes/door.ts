/** Which handler a request gets, and whether it may pass: routes, keys, admin rights, room for one more. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { WarmrouteError } from '../../core/protocol/index.js'
import type { GatewayContext } from '../context.js'
import { answerError } from '../http/answer.js'
import { isFromHere, KeyRing, keyOf } from '../http/keys.js'
import { Inference } from '../inference.js'
import { StoredCall, storedPathOf } from '../stored-call.js'
import type { GatewayOptions, Limits } from '../options.js'
import { endpointByPath } from '../request/endpoints.js'
import { clientRequestId } from '../request/verdicts.js'
import { busyThresholdRoutes } from './busy-threshold.js'
import { asksAsAnthropic, modelRoutes } from './models.js'
import { openApiRoute } from './openapi.js'
import { operationRoutes } from './operations.js'
import type { Route, WorkerAdmin } from './route.js'
import { routerProtocolRoute } from './router-protocol.js'
import { tokenizerRoutes } from './tokenizers.js'
import { workerRoutes } from './workers.js'

export interface DoorOptions {
  readonly context: GatewayContext
  readonly options: GatewayOptions
  readonly admin: WorkerAdmin
  /** `clients`: the admin routes are elsewhere. */
  readonly serves: 'all' | 'clients' | 'admin'
}

export function createDoor(door: DoorOptions): (request: IncomingMessage, response: ServerResponse) => void {
  const { context, options, serves } = door
  const apiKeys = new KeyRing(options.apiKeyHashes ?? [])
  const adminKeys = new KeyRing(options.adminKeyHashes ?? [])
  const routes = routesOf(door)

  return (request, response) => {
    if (context.isEnding) response.shouldKeepAlive = false // its next request belongs to somebody who stays
    const url = targetOf(request)
    const query = url.indexOf('?')
    const path = query < 0 ? url : url.slice(0, query)
    const row = serves === 'admin' ? undefined : endpointByPath.get(path)
    const stored = serves === 'admin' || row ? undefined : storedPathOf(path)
    try {
      requireHead(request, context.limits)
      if (row) {
        if (request.method !== 'POST') throw notAllowed('POST')
        checkApiKey(request)
        refuseReturn(request, context.hop)
        requireRoom()
        void new Inference(context, row, request, response).run()
        return
      }
      if (stored) {
        if (!stored.methods.includes(request.method!)) throw notAllowed(stored.methods.join(', '))
        checkApiKey(request)
        refuseReturn(request, context.hop)
        requireRoom()
        const { name } = stored
        void new StoredCall({ context, request, response, name, query: query < 0 ? '' : url.slice(query) }).run()
        return
      }
      const found = findRoute(routes, request, path)
      if (found.route.access === 'client') checkApiKey(request)
      if (found.route.access === 'admin') checkAdmin(request)
      const requestId = clientRequestId(request)
      if (requestId !== undefined) response.setHeader('x-request-id', requestId)
      const done = found.route.handle({
        request,
        response,
        path,
        rest: found.rest,
        query: query < 0 ? '' : url.slice(query + 1),
      })
      done?.catch((error: unknown) => fail(error))
    } catch (error) {
      fail(error)
    }

    function fail(error: unknown): void {
      if (!(error instanceof WarmrouteError)) context.log.warn({ path, error: String(error) }, 'a route failed')
      const shape = isAnthropic(request, path) ? 'anthropic' : context.shape
      const requestId = clientRequestId(request)
      answerError(request, response, error, { shape, overloadStatus: context.overloadStatus, requestId })
    }
  }

  function requireRoom(): void {
    if (context.running.size >= context.limits.requestsMax)
      throw new WarmrouteError('WR_ALL_WORKERS_OVERLOADED', { reason: 'too many requests are under way' })
  }

  function checkApiKey(request: IncomingMessage): void {
    if (apiKeys.isEmpty) return
    const key = keyOf(request)
    if (!apiKeys.accepts(key) && !adminKeys.accepts(key)) throw new WarmrouteError('WR_UNAUTHORIZED', {})
  }

  /** The admin key, or being on this machine when no admin key is set or the port is for clients too. */
  function checkAdmin(request: IncomingMessage): void {
    if (!adminKeys.isEmpty && adminKeys.accepts(keyOf(request))) return
    if (isFromHere(request)) return
    throw new WarmrouteError('WR_FORBIDDEN', {})
  }
}

/** What Node would cut, or refuse with a status and no word: the latter two are rules of HTTP/1.1. */
function requireHead(
  { headers: { host, expect }, rawHeaders, httpVersionMinor }: IncomingMessage,
  { headersMax }: Limits,
): void {
  if (rawHeaders.length > 2 * headersMax)
    throw new WarmrouteError('WR_HEADERS_TOO_LARGE', { message: `The request has more than ${headersMax} headers.` })
  if (httpVersionMinor === 0) return
  if (host === undefined) throw new WarmrouteError('WR_INVALID_HTTP', { message: 'The request has no `host` header.' })
  if (expect !== undefined && !/(?:^|\W)100-continue(?:$|\W)/i.test(expect))
    throw new WarmrouteError('WR_EXPECTATION_FAILED', { message: 'Nothing but `100-continue` can be expected here.' })
}

/** A request that we sent to another router, and that came back: sent on, it would never end. */
function refuseReturn({ headers: { via } }: IncomingMessage, hop: string): void {
  if (via?.includes(hop) !== true) return
  throw new WarmrouteError('WR_ROUTING_LOOP', {
    message: 'This request was here before: a worker of this router is a router that sends it back.',
  })
}

/** Routes of our own; those that end in an engine are `endpointRows` and stored calls. */
export function routesOf(door: DoorOptions): readonly Route[] {
  const { context, serves } = door
  const ofClients = serves === 'admin' ? [] : [...modelRoutes(context), openApiRoute()]
  return [...operationRoutes(context), ...adminRoutes(door), ...ofClients]
}

function adminRoutes(door: DoorOptions): readonly Route[] {
  const { context, admin, options } = door
  if (door.serves === 'clients' || options.hasAdminRoutes === false) return []
  return [
    ...busyThresholdRoutes(context),
    ...workerRoutes(context, admin),
    ...tokenizerRoutes(context, options.tokenizers),
    routerProtocolRoute(context),
  ]
}

function findRoute(routes: readonly Route[], request: IncomingMessage, path: string): { route: Route; rest: string } {
  const methods: string[] = []
  for (const route of routes) {
    const isHere = route.isPrefix ? path.startsWith(route.path) && path.length > route.path.length : path === route.path
    if (!isHere) continue
    if (route.method === request.method || (route.method === 'GET' && request.method === 'HEAD'))
      return { route, rest: route.isPrefix ? path.slice(route.path.length) : '' }
    methods.push(route.method)
  }
  if (methods.length > 0) throw notAllowed(methods.join(', '))
  throw new WarmrouteError('WR_ROUTE_NOT_FOUND', {
    message: `Route not found: ${request.method} ${path.slice(0, 200)}`,
  })
}

/** Path and query. A client that takes us for a proxy sends the whole address, which every server must understand. */
function targetOf({ url = '/' }: IncomingMessage): string {
  if (url.startsWith('/')) return url
  const rest = url.replace(/^https?:\/\/[^/?]*/i, '')
  return rest.startsWith('/') ? rest : `/${rest}`
}

function isAnthropic(request: IncomingMessage, path: string): boolean {
  return path.startsWith('/v1/messages') || (path.startsWith('/v1/models') && asksAsAnthropic(request))
}

function notAllowed(allow: string): WarmrouteError {
  return new WarmrouteError('WR_METHOD_NOT_ALLOWED', { allow })
}
