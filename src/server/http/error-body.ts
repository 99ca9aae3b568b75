/** What an error looks like to a client: OpenAI's envelope, Anthropic's on its routes, upstream's flat one when strict. */
import { WarmrouteError } from '../../core/protocol/index.js'
import { anthropicType, dynamoType, openAiType, statusOf } from './error-status.js'

export type ErrorShape = 'openai' | 'anthropic' | 'dynamo'

export interface ErrorAnswer {
  readonly status: number
  readonly body: string
  /** Seconds; set for overload and not-ready. */
  readonly retryAfter: number | undefined
}

export function errorAnswer(error: unknown, shape: ErrorShape, overloadStatus: number): ErrorAnswer {
  const status = shape === 'dynamo' ? dynamoStatus(error, overloadStatus) : statusOf(error, overloadStatus)
  const body =
    shape === 'dynamo' ? dynamoBody(error, status, overloadStatus) : nestedBody(error, shape, status, overloadStatus)
  const isTemporary = status === overloadStatus || status === 503
  const isBare = shape === 'dynamo' && status === 405 // upstream says no more than the header `allow`
  return { status, body: isBare ? '' : JSON.stringify(body), retryAfter: isTemporary ? 1 : undefined }
}

/** The same as frames of a stream whose head is gone already; ends the stream. */
export function errorFrames(error: unknown, shape: ErrorShape, overloadStatus: number): string {
  const status = statusOf(error, overloadStatus)
  if (shape === 'anthropic')
    return `event: error\ndata: ${JSON.stringify(nestedBody(error, shape, status, overloadStatus))}\n\n`
  if (shape === 'dynamo') {
    const type = status === 499 ? 'request_cancelled' : status === 503 ? 'service_unavailable' : 'internal_server_error'
    const code = status === 499 || status === 503 ? status : 500
    return `data: ${JSON.stringify({ error: { message: publicMessage(error, code), type, code } })}\n\ndata: [DONE]\n\n`
  }
  return `data: ${JSON.stringify(nestedBody(error, shape, status, overloadStatus))}\n\ndata: [DONE]\n\n`
}

function nestedBody(error: unknown, shape: ErrorShape, status: number, overloadStatus: number): object {
  const message = messageOf(error)
  if (shape === 'anthropic') return { type: 'error', error: { type: anthropicType(status), message } }
  const code = error instanceof WarmrouteError ? error.code : 'internal_error'
  const param = error instanceof WarmrouteError ? error.details['param'] : undefined
  return {
    error: { message, type: openAiType(status, overloadStatus), code, param: typeof param === 'string' ? param : null },
  }
}

/** Flat, with upstream's sentences where upstream hides the reason (spec 1.4; recordings of 1.2.1 and 1.6.1). */
function dynamoBody(error: unknown, status: number, overloadStatus: number): object {
  if (status === overloadStatus && status === 503)
    return {
      message: 'ResourceExhausted: All workers are busy, please retry later',
      type: dynamoType(status, overloadStatus),
      code: status,
    }
  const details = detailsOf(error)
  return {
    message: status === overloadStatus ? 'Service temporarily overloaded' : publicMessage(error, status),
    type: dynamoType(status, overloadStatus),
    code: status,
    ...(details === undefined ? {} : { details }),
  }
}

/** Upstream has neither 502 nor 504. */
function dynamoStatus(error: unknown, overloadStatus: number): number {
  const status = statusOf(error, overloadStatus)
  return status === 502 || status === 504 ? 500 : status
}

/** Upstream tells two things more: which limit of the queue was reached, and which status a backend had. */
function detailsOf(error: unknown): unknown {
  if (!(error instanceof WarmrouteError)) return undefined
  const { queue_rejection: rejection, backend_status: status } = error.details
  return rejection ?? (status === undefined ? undefined : { backend_status: status })
}

function publicMessage(error: unknown, status: number): string {
  if (status === 500) return 'Internal server error'
  if (status === 503 && !isNamed(error, 'WR_MODEL_NOT_READY', 'WR_SHUTTING_DOWN'))
    return 'Service temporarily unavailable'
  if (isNamed(error, 'WR_SHUTTING_DOWN')) return 'Service is not ready'
  return messageOf(error)
}

function isNamed(error: unknown, ...codes: readonly string[]): boolean {
  return error instanceof WarmrouteError && codes.includes(error.code)
}

/** Only our own sentences leave the process: anything else may hold a path or a prompt. */
function messageOf(error: unknown): string {
  if (!(error instanceof WarmrouteError)) return 'Internal server error'
  const text = error.details['message']
  return typeof text === 'string' ? text : error.message
}
