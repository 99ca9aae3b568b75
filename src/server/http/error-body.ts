/** What an error looks like to a client: OpenAI's envelope, Anthropic's on its routes, upstream's flat one when strict. */
import { WarmrouteError } from '../../core/protocol/index.js'
import type { QueueRejection } from '../../core/queue/index.js'
import { anthropicType, dynamoType, isOverload, openAiType, statusOf } from './error-status.js'

export type ErrorShape = 'openai' | 'anthropic' | 'dynamo'

export interface ErrorAnswer {
  readonly status: number
  readonly body: string
  /** Seconds; set for overload and not-ready. */
  readonly retryAfter: number | undefined
}

export function errorAnswer(error: unknown, shape: ErrorShape, overloadStatus: number): ErrorAnswer {
  const status = shape === 'dynamo' ? dynamoStatus(error, overloadStatus) : statusOf(error, overloadStatus)
  const body = shape === 'dynamo' ? dynamoBody(error, status) : nestedBody(error, shape, status)
  const isTemporary = status === overloadStatus || status === 503
  const isBare = shape === 'dynamo' && status === 405 // upstream says no more than the header `allow`
  return { status, body: isBare ? '' : JSON.stringify(body), retryAfter: isTemporary ? 1 : undefined }
}

/** The same as frames of a stream whose head is gone already; ends the stream. */
export function errorFrames(error: unknown, shape: ErrorShape, overloadStatus: number): string {
  const status = statusOf(error, overloadStatus)
  if (shape === 'anthropic') return `event: error\ndata: ${JSON.stringify(nestedBody(error, shape, status))}\n\n`
  if (shape === 'dynamo') {
    const type = status === 499 ? 'request_cancelled' : status === 503 ? 'service_unavailable' : 'internal_server_error'
    const code = status === 499 || status === 503 ? status : 500
    return `data: ${JSON.stringify({ error: { message: publicMessage(error, code), type, code } })}\n\ndata: [DONE]\n\n`
  }
  return `data: ${JSON.stringify(nestedBody(error, shape, status))}\n\ndata: [DONE]\n\n`
}

function nestedBody(error: unknown, shape: ErrorShape, status: number): object {
  const message = messageOf(error)
  if (shape === 'anthropic')
    return { type: 'error', error: { type: anthropicType(status, isOverload(error)), message } }
  const code = error instanceof WarmrouteError ? error.code : 'internal_error'
  const param = error instanceof WarmrouteError ? error.details['param'] : undefined
  return {
    error: {
      message,
      type: openAiType(status, isOverload(error)),
      code,
      param: typeof param === 'string' ? param : null,
    },
  }
}

/** Flat, with upstream's sentences where upstream hides the reason (spec 1.4; recordings of 1.2.1 and 1.6.1). */
function dynamoBody(error: unknown, status: number): object {
  const isBusy = isOverload(error)
  const rejection = rejectionIn(error)
  const details = detailsOf(error)
  return {
    message: rejection ? queueText(rejection) : isBusy ? busyText(status) : publicMessage(error, status),
    type: dynamoType(status, isBusy),
    code: status,
    ...(details === undefined ? {} : { details }),
  }
}

/** 1.2 answers with 503 and lets the reason through. */
function busyText(status: number): string {
  return status === 503
    ? 'ResourceExhausted: All workers are busy, please retry later'
    : 'Service temporarily overloaded'
}

function queueText({ policyClass, limitKind, current, limit }: QueueRejection): string {
  const words = limitKind.replaceAll('_', ' ').replace('isl', 'ISL')
  return `router policy class "${policyClass}" queue ${words} limit reached (current=${current}, limit=${limit})`
}

function rejectionIn(error: unknown): QueueRejection | undefined {
  return isNamed(error, 'WR_QUEUE_REJECTED') ? (error.details['rejection'] as QueueRejection | undefined) : undefined
}

/** Upstream has neither 502 nor 504. */
function dynamoStatus(error: unknown, overloadStatus: number): number {
  const status = statusOf(error, overloadStatus)
  return status === 502 || status === 504 ? 500 : status
}

/** Upstream tells two things more: which limit of the queue was reached, and which status a backend had. */
function detailsOf(error: unknown): unknown {
  if (!(error instanceof WarmrouteError)) return undefined
  const rejection = rejectionIn(error)
  if (rejection) {
    const { policyClass, limitKind, current, limit } = rejection
    return { policy_class: policyClass, limit_kind: limitKind, current, limit }
  }
  const { backend_status: status } = error.details
  return status === undefined ? undefined : { backend_status: status }
}

function publicMessage(error: unknown, status: number): string {
  if (status === 500) return 'Internal server error'
  if (status === 503 && !isNamed(error, 'WR_MODEL_NOT_READY', 'WR_SHUTTING_DOWN'))
    return 'Service temporarily unavailable'
  if (isNamed(error, 'WR_SHUTTING_DOWN')) return 'Service is not ready'
  return messageOf(error)
}

function isNamed(error: unknown, ...codes: readonly string[]): error is WarmrouteError {
  return error instanceof WarmrouteError && codes.includes(error.code)
}

/** Only our own sentences leave the process: anything else may hold a path or a prompt. */
function messageOf(error: unknown): string {
  if (!(error instanceof WarmrouteError)) return 'Internal server error'
  const text = error.details['message']
  return typeof text === 'string' ? text : error.message
}
