/** The HTTP side of a simulated server: routing, bodies, keys, and the faults that strike before any route is reached. */
import { createServer } from 'node:http'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { SimServer } from '../sim-engine.js'
import { adminRoutes } from './admin-routes.js'
import { Refusal, sendJson, sendText } from './exchange.js'
import type { Exchange, Routes } from './exchange.js'
import { sglangError } from './sglang-errors.js'
import { sglangRoutes } from './sglang-routes.js'
import { vllmError } from './vllm-errors.js'
import { vllmRoutes } from './vllm-routes.js'

/** The one sort of path that names something. */
const keptPath = /^(\/v1\/responses)\/[^/]+(\/cancel)?$/
const bodyBytesMax = 64 * 1024 * 1024

export function createHttpServer(server: SimServer): Server {
  const { options } = server
  const routes = new Map<string, Routes[string]>(
    Object.entries({ ...(options.engine === 'vllm' ? vllmRoutes(server) : sglangRoutes(server)), ...adminRoutes }),
  )
  const methodsOf = new Map<string, string[]>()
  for (const route of routes.keys()) {
    const [method, path] = route.split(' ')
    methodsOf.set(path!, [...(methodsOf.get(path!) ?? []), method!])
  }
  const http = createServer((request, response) => {
    response.setHeader('server', 'uvicorn')
    response.setHeader('vary', 'Origin')
    const exchange = toExchange(server, request, response)
    void answer(exchange, routes, methodsOf).catch((error: unknown) => refuse(exchange, error))
  })
  http.keepAliveTimeout = 5000
  return http
}

async function answer(
  exchange: Exchange,
  routes: ReadonlyMap<string, Routes[string]>,
  methodsOf: ReadonlyMap<string, readonly string[]>,
): Promise<void> {
  const { server, request, response, url } = exchange
  const { options, faults } = server
  const path = url.pathname
  if (options.isRequestIdEchoed)
    response.setHeader('x-request-id', String(request.headers['x-request-id'] ?? server.newId() + server.newId()))
  const isAdmin = path.startsWith('/sim/')
  if (!isAdmin) {
    if (faults.strike('hang_before_headers')) return // the connection stays open and silent
    const status = faults.strike('status')?.status
    if (status !== undefined) return sendJson(exchange, status, faultBody(options.engine, status))
    const slow = path === '/metrics' ? faults.strike('slow_metrics') : undefined
    if (slow) await new Promise<void>((resolve) => server.clock.at(server.clock.now() + slow.ms, resolve))
    if (!isAllowed(exchange)) return sendJson(exchange, 401, { error: 'Unauthorized' })
  }
  const name = methodsOf.has(path) ? path : path.replace(keptPath, '$1/{id}$2')
  const handler = routes.get(`${request.method} ${name}`)
  if (handler) return handler(exchange)
  const methods = methodsOf.get(name)
  if (methods) return sendJson(exchange, 405, { detail: 'Method Not Allowed' }, { allow: methods.join(', ') })
  sendJson(exchange, 404, { detail: 'Not Found' })
}

function refuse(exchange: Exchange, error: unknown): void {
  if (error instanceof Refusal) return sendJson(exchange, error.status, error.body)
  sendText(exchange, 500, 'Internal Server Error', { 'content-type': 'text/plain; charset=utf-8' })
}

function faultBody(engine: 'vllm' | 'sglang', status: number): unknown {
  const text = status === 429 ? 'Too many requests' : 'Service unavailable'
  const type = status >= 500 ? 'InternalServerError' : 'BadRequestError'
  return engine === 'vllm' ? vllmError(text, type, null, status) : sglangError(text, type, status)
}

/** vLLM guards the API paths only, SGLang everything but health and metrics. */
function isAllowed({ server, request, url }: Exchange): boolean {
  const { apiKey, engine } = server.options
  if (apiKey === undefined) return true
  const isOpen =
    engine === 'vllm' ? !/^\/(v1|v2|inference|cohere)\b/.test(url.pathname) : /^\/(health|metrics)/.test(url.pathname)
  return isOpen || request.headers.authorization === `Bearer ${apiKey}`
}

function toExchange(server: SimServer, request: IncomingMessage, response: ServerResponse): Exchange {
  return {
    server,
    request,
    response,
    url: new URL(request.url ?? '/', 'http://engine'),
    text: () => readBody(request),
  }
}

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > bodyBytesMax) throw new Refusal(413, { detail: 'Request Entity Too Large' })
    chunks.push(chunk)
  }
  return (chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)).toString('utf8')
}
