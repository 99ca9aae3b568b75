/** Did an engine end a request that nobody asked it to end? A vLLM that is stopping says so in an answer of status 200. */
import { readFinishReason } from '../../engines/index.js'

/** A key is never found inside a text of the answer: there its quotes are escaped. */
export function saysAborted(json: string): boolean {
  for (const [, reason] of json.matchAll(/"finish_reason"\s*:\s*"(\w+)"/g))
    if (readFinishReason(reason)?.kind === 'aborted') return true
  return false
}

/** The same of a whole answer, which is hardly ever worth being made a text. */
export function bodySaysAborted(body: Buffer): boolean {
  return body.includes(abortMark) && saysAborted(body.toString('latin1'))
}

const abortMark = Buffer.from('"abort"')
