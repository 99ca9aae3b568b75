/**
 * Did an engine end a request before its first token, though nobody had given it up? A vLLM that is stopping does so with status
 * 200 and `finish_reason: "abort"`: an answer that reads like an empty one.
 */
import { readFinishReason } from '../../engines/index.js'
import { tokenPattern } from './stream-watch.js'

const abortMark = Buffer.from('"abort"')

/** Of a whole answer, or of the first read of a stream. Hardly ever worth being made a text. */
export function endedUnstarted(bytes: Buffer): boolean {
  if (!bytes.includes(abortMark)) return false
  const text = bytes.toString('latin1')
  return !tokenPattern.test(text) && hasAborted(text)
}

/** A key is never found inside a text of the answer: there its quotes are escaped. */
function hasAborted(text: string): boolean {
  for (const [, reason] of text.matchAll(/"finish_reason"\s*:\s*"(\w+)"/g))
    if (readFinishReason(reason)?.kind === 'aborted') return true
  return false
}
