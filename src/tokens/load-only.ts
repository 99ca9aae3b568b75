/** Why a request has no tokens, from whatever was thrown: a router goes on without them. */
import { WarmrouteError } from '../core/protocol/index.js'
import type { LoadOnlyReason } from './chat/request.js'
import { LoadOnlyError } from './chat/request.js'
import { JsonError } from './template/python-json.js'
import { TemplateError } from './template/values.js'

/** The request's tokens cannot be known: balance it by load. */
export interface LoadOnly {
  readonly loadOnly: LoadOnlyReason
  readonly detail: string
  /** What failed, where something did. */
  readonly error?: WarmrouteError
}

const reasonOfCode: Readonly<Record<string, LoadOnlyReason>> = {
  WR_TOKENS_BUSY: 'busy',
  WR_TOKENS_DEADLINE: 'deadline',
  WR_TOKENS_TEXT_TOO_LONG: 'too-long',
  WR_TOKENS_TEMPLATE_FAILED: 'template-failed',
  WR_TOKENS_SOURCE_FAILED: 'source-failed',
}

export function asLoadOnly(error: unknown): LoadOnly {
  if (error instanceof LoadOnlyError) return { loadOnly: error.reason, detail: error.message }
  if (error instanceof WarmrouteError) {
    return { loadOnly: reasonOfCode[error.code] ?? 'source-failed', detail: error.message, error }
  }
  if (error instanceof TemplateError) return { loadOnly: 'malformed', detail: error.message }
  if (error instanceof JsonError) return { loadOnly: error.reason, detail: error.message }
  if (error instanceof RangeError) return { loadOnly: 'too-long', detail: 'the request is nested too deeply' }
  throw error // a bug of ours
}
