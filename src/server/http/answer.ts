/** Small answers of our own: JSON, texts and errors. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { WarmrouteError } from '../../core/protocol/index.js'
import type { ErrorShape } from './error-body.js'
import { errorAnswer } from './error-body.js'
import { drainAndClose } from './read-body.js'

export function answerJson(response: ServerResponse, status: number, body: unknown): void {
  answerText(response, status, 'application/json', typeof body === 'string' ? body : JSON.stringify(body))
}

export function answerText(response: ServerResponse, status: number, type: string, text: string): void {
  if (response.headersSent || response.destroyed) return
  const bytes = Buffer.from(text)
  response.writeHead(status, { 'content-type': type, 'content-length': bytes.length })
  response.end(bytes)
}

export interface ErrorOptions {
  readonly shape: ErrorShape
  readonly overloadStatus: number
  readonly requestId?: string | undefined
}

/** Answers, and closes the connection where a part of the request is still unread. */
export function answerError(
  request: IncomingMessage,
  response: ServerResponse,
  error: unknown,
  options: ErrorOptions,
): void {
  if (response.headersSent || response.destroyed) return
  const { status, body, retryAfter } = errorAnswer(error, options.shape, options.overloadStatus)
  const bytes = Buffer.from(body)
  const headers: Record<string, string | number> = {
    'content-type': 'application/json',
    'content-length': bytes.length,
  }
  if (retryAfter !== undefined) headers['retry-after'] = retryAfter
  if (options.requestId !== undefined) headers['x-request-id'] = options.requestId
  const allow = error instanceof WarmrouteError ? error.details['allow'] : undefined
  if (typeof allow === 'string') headers['allow'] = allow
  if (status === 401) headers['www-authenticate'] = 'Bearer'
  const hasRest = !request.complete && hasBody(request)
  if (hasRest) headers['connection'] = 'close'
  if (status === 529) response.statusMessage = 'Overloaded' // Node knows no word for it
  response.writeHead(status, headers)
  response.end(bytes)
  if (hasRest) drainAndClose(request, response)
}

/** A request without one is not complete either until the next turn of the loop, and has nothing left to read. */
function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || (headers['content-length'] ?? '0') !== '0'
}
