/**
 * Did an engine end a request, though nobody had given it up, while the client has nothing of the answer yet? A vLLM that is stopping
 * does so with status 200 and `finish_reason: "abort"`: an answer that reads like an empty or a short one. Moments later, when its
 * engine is gone and its server is not, it says so with status 500.
 */
import { readEngineError, readFinishReason } from '../../engines/index.js'
import { tokenPattern } from './token-event.js'

const abortMark = Buffer.from('"abort"')

/** A whole answer, of which nothing was sent on: text that it may have is a part of what the client asked for. */
export function isCutShort(status: number, answer: Buffer): boolean {
  if (status === 500) return readEngineError(status, answer.toString('utf8')).kind === 'unavailable'
  return status === 200 && answer.includes(abortMark) && hasAborted(answer.toString('latin1'))
}

/** The first read of a stream: what follows it goes to the client. */
export function endsUnstarted(status: number, read: Buffer): boolean {
  if (status !== 200 || !read.includes(abortMark)) return false // hardly ever worth being made a text
  const text = read.toString('latin1')
  return !tokenPattern.test(text) && hasAborted(text)
}

/** A key is never found inside a text of the answer: there its quotes are escaped. */
function hasAborted(text: string): boolean {
  for (const [, reason] of text.matchAll(/"finish_reason"\s*:\s*"(\w+)"/g))
    if (readFinishReason(reason)?.kind === 'aborted') return true
  return false
}
