/** What an engine's error reply means for the router: whose fault it is, and whether another worker may do better. */
import { asRecord, asText, parseRecord } from './json.js'

export const engineErrorKinds = [
  'overloaded', // its queue is full
  'unavailable', // starting, draining, scaling, or dead
  'unauthorized',
  'not_found', // no such model or route
  'bad_request',
  'too_long',
  'aborted', // cut off by the engine, not by the client
  'internal',
] as const

export type EngineErrorKind = (typeof engineErrorKinds)[number]

export interface EngineError {
  readonly kind: EngineErrorKind
  /** Another worker may answer it, provided that no content byte has reached the client. */
  readonly canRetryElsewhere: boolean
  readonly message: string
}

/** Engines put a message at `error.message`, `message`, `error` or `detail`. */
export function readEngineError(status: number, body: string): EngineError {
  const record = parseRecord(body)
  const nested = asRecord(record?.['error'])
  const message =
    asText(nested?.['message']) ??
    asText(record?.['message']) ??
    asText(record?.['error']) ??
    asText(record?.['detail']) ??
    body.slice(0, 500)
  return judge(kindOf(status, message), message)
}

/** `finish_reason: "abort"` that no client asked for: the engine is shutting down, or threw the request out. */
export function readFinishReason(reason: string | null | undefined): EngineError | undefined {
  if (reason === 'abort') return judge('aborted', 'the engine ended the request')
  if (reason === 'error') return judge('internal', 'the engine failed while generating')
  return undefined
}

const retryable: ReadonlySet<EngineErrorKind> = new Set(['overloaded', 'unavailable', 'aborted', 'internal'])

function judge(kind: EngineErrorKind, message: string): EngineError {
  return { kind, canRetryElsewhere: retryable.has(kind), message }
}

function kindOf(status: number, message: string): EngineErrorKind {
  if (status === 401 || status === 403) return 'unauthorized'
  if (status === 404 || status === 405) return 'not_found'
  if (status === 429) return 'overloaded'
  if (status === 503)
    return /queue|too many|max-num-queued|rejected|capacity/i.test(message) ? 'overloaded' : 'unavailable'
  if (status === 502 || status === 504) return 'unavailable'
  if (status === 500 && /EngineCore encountered an issue/.test(message)) return 'unavailable' // a vLLM whose engine is dead, seconds before its server ends
  if (status >= 500) return 'internal'
  if (/maximum (context|allowed) length|exceeds the maximum|context length/i.test(message)) return 'too_long'
  return 'bad_request'
}
