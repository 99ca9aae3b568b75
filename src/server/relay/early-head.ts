/**
 * What a client that asked for a stream sees while nobody has answered yet: a head of our own and comments, so that nothing
 * between us and the client takes silence for death. A worker is not bound by them: another may still be asked.
 */
import type { ServerResponse } from 'node:http'
import type { ResponseHead } from '../wire/response-head.js'

export const earlyHead: ResponseHead = {
  status: 200,
  headers: [
    ['content-type', 'text/event-stream; charset=utf-8'],
    ['cache-control', 'no-cache'],
  ],
  framing: { kind: 'until-close' },
  isReusable: false,
}

export const comment = ':\n\n'

/** No worker is known yet, so the head names none. */
export function commentWhileWaiting(response: ServerResponse, requestId: string): void {
  if (response.destroyed || response.writableEnded) return
  if (!response.headersSent) response.writeHead(200, [...earlyHead.headers.flat(), 'x-request-id', requestId])
  response.write(comment)
}

/** What stands in the head of a stream that did not wait, as a comment in one that did: a worker has answered by now. */
export function lateHeaders(headers: readonly (readonly [name: string, value: string])[]): string {
  const lines = headers.filter(([name]) => name !== 'x-request-id').map(([name, value]) => `: ${name}: ${value}\n`)
  return lines.length === 0 ? '' : `${lines.join('')}\n`
}

/** Whether an engine's head fits behind ours. */
export function agreesWithEarlyHead({ status, headers }: ResponseHead): boolean {
  return status === 200 && isEventStream(headers)
}

export function isEventStream(headers: ResponseHead['headers']): boolean {
  return headers.some(([name, value]) => name === 'content-type' && value.startsWith('text/event-stream'))
}
