/** What a client hears of a request that failed: in its stream where one has begun, else with a status. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { answerError } from '../http/answer.js'
import type { ErrorShape } from '../http/error-body.js'
import { errorFrames } from '../http/error-body.js'

export interface FailureTerms {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** Who speaks to the client: the worker that was asked last, or its relay. */
  readonly speaker: { readonly isCommitted: boolean; endWithFrames(frames: string): void } | undefined
  readonly shape: ErrorShape
  readonly overloadStatus: number
  readonly requestId: string
}

export function tellFailure(error: unknown, terms: FailureTerms): void {
  const { request, response, speaker, shape, overloadStatus, requestId } = terms
  if (response.destroyed || response.writableEnded) return
  if (speaker?.isCommitted) speaker.endWithFrames(errorFrames(error, shape, overloadStatus))
  else if (response.headersSent)
    response.end(errorFrames(error, shape, overloadStatus)) // comments were all
  else answerError(request, response, error, { shape, overloadStatus, requestId })
}
