/** The body of `POST /router`, in steps where it is long: a million tokens take the lossless reader 250 ms. */
import { WarmrouteError } from '../../core/protocol/index.js'
import type { RouterRequest } from '../../routing/index.js'
import { parseRouterRequest } from '../../routing/index.js'
import { bodyText, invalidBody } from '../http/read-body.js'
import { readIds } from '../request/read-ids.js'
import type { FieldSpan } from '../scan-fields.js'
import { FieldScan, walkInSteps } from '../scan-fields.js'
import type { Steps } from '../steps.js'

/** What is parsed at once, tokens included: 2 ms. */
const wholeBytesMax = 32 * 1024
/** And without them, 4 to 7 ms: a list of 50,000 blocks without media fits. */
const restBytesMax = 256 * 1024

export function* readRouterRequest(bytes: Buffer): Steps<RouterRequest> {
  if (bytes.length <= wholeBytesMax) return parseRouterRequest(bodyText(bytes))
  const scan = new FieldScan(bytes)
  yield* walkInSteps(scan)
  if (!scan.fields) throw invalidBody(scan.problem)
  const span = scan.fields.findLast(({ name }) => name === 'tokens')
  const rest = scan.fields.filter((field) => field !== span)
  const restBytes = rest.reduce((sum, field) => sum + sizeOf(field), 0)
  if (restBytes > restBytesMax) throw refused(`only tokens may be longer than ${restBytesMax} bytes`)
  const tokens = span && (yield* readIds(bytes, span.valueStart, span.valueEnd))
  if (!(tokens instanceof Uint32Array)) throw refused('tokens hold something that is no token, or too many')
  yield
  const texts = rest.map(({ keyStart, valueEnd }) => bodyText(bytes.subarray(keyStart, valueEnd)))
  return parseRouterRequest(`{${texts.join(',')}}`, tokens)
}

function sizeOf({ keyStart, valueEnd }: FieldSpan): number {
  return valueEnd - keyStart
}

function refused(reason: string): WarmrouteError {
  return new WarmrouteError('WR_INVALID_ARGUMENT', { reason })
}
