/**
 * What becomes of an engine's own error. By default it reaches the client as it is; with `strict: dynamo` upstream's rules
 * hold (spec/serving.md 1.4): a 4xx keeps its status and text in the flat shape, a 5xx says nothing of the engine's insides.
 */
import type { ServerResponse } from 'node:http'
import { WarmrouteError } from '../../core/protocol/index.js'
import type { ResponseHead } from '../wire/response-head.js'
import { dynamoType } from './error-status.js'

/** Statuses whose body no client of upstream ever sees. */
export function isHidden(status: number): boolean {
  return status >= 500 || status === 499
}

/** The error that stands for a status which was kept from the client. */
export function refusal(status: number, overloadStatus: number): WarmrouteError {
  const reason = `the worker refused with status ${status}`
  if (status === 499) return new WarmrouteError('WR_REQUEST_CANCELLED', { reason })
  if (status === 529 || (status === overloadStatus && status !== 503))
    // every engine means `cannot serve` by 503
    return new WarmrouteError('WR_ALL_WORKERS_OVERLOADED', { reason })
  if (status === 508) return new WarmrouteError('WR_ROUTING_LOOP', { reason })
  if (status === 503) return new WarmrouteError('WR_ENGINE_UNREACHABLE', { reason })
  return new WarmrouteError('WR_ENGINE_PROTOCOL', { reason, message: reason, backend_status: status })
}

/** An engine's 4xx as upstream words it; any other body as it is. */
export function flatError(body: Buffer, status: number): Buffer {
  if (status < 400) return body
  return Buffer.from(
    JSON.stringify({ message: messageIn(body), type: dynamoType(status, status === 529), code: status }),
  )
}

/** Passes an engine's refusal on, where the client still waits for an answer. `isFlat`: in upstream's shape. */
export function answerRefusal(
  response: ServerResponse,
  { head, body: said }: { readonly head: ResponseHead; readonly body: Buffer },
  { isFlat, requestId }: { readonly isFlat: boolean; readonly requestId: string },
): number {
  if (response.headersSent || response.destroyed) return head.status
  const body = isFlat ? flatError(said, head.status) : said
  const type = head.headers.find(([name]) => name === 'content-type')?.[1] ?? 'application/json'
  response.writeHead(head.status, { 'content-type': type, 'content-length': body.length, 'x-request-id': requestId })
  response.end(body)
  return head.status
}

/** vLLM nests its message, SGLang has it on top, FastAPI calls it `detail`; a body that is none of these is the message. */
function messageIn(body: Buffer): string {
  const text = body.toString('utf8')
  try {
    const value = JSON.parse(text) as Fields | null
    const found = [value?.error?.message, value?.message, value?.detail, value?.error].find(
      (it) => typeof it === 'string',
    )
    return typeof found === 'string' ? found : text
  } catch {
    return text
  }
}

interface Fields {
  readonly error?: { readonly message?: unknown }
  readonly message?: unknown
  readonly detail?: unknown
}
