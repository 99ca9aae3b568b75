/** One HTTP exchange of a simulated server, and the ways to answer it. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { SimServer } from '../sim-engine.js'

export interface Exchange {
  readonly server: SimServer
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly url: URL
  /** The whole body; refused beyond the limit. */
  text(): Promise<string>
}

export type Handler = (exchange: Exchange) => void | Promise<void>

/** `GET /path` to what answers it. */
export type Routes = Readonly<Record<string, Handler>>

export type Json = Readonly<Record<string, unknown>>

/** An answer that is not a success: thrown where a request is found wanting, sent by the server. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  readonly status: number
  readonly body: unknown

  constructor(status: number, body: unknown) {
    super(`refused with ${status}`)
    this.status = status
    this.body = body
  }
}

export function sendJson(
  { response }: Exchange,
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): void {
  sendText({ response }, status, JSON.stringify(body), { 'content-type': 'application/json', ...headers })
}

export function sendText(
  { response }: Pick<Exchange, 'response'>,
  status: number,
  text: string,
  headers: Record<string, string> = {},
): void {
  if (response.headersSent || response.destroyed) return
  response.writeHead(status, { 'content-length': Buffer.byteLength(text), ...headers })
  response.end(text)
}

export function header(exchange: Exchange, name: string): string | undefined {
  const value = exchange.request.headers[name]
  return Array.isArray(value) ? value[0] : value
}
