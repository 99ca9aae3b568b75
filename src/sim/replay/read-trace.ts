/** A trace from bytes: plain or gzip, whatever its name says. */
import { gunzipSync } from 'node:zlib'
import { WarmrouteError } from '../../core/protocol/index.js'
import { parseTrace } from './trace.js'
import type { Trace } from './trace.js'

const textBytesMax = 2 ** 29 // the longest text that a JavaScript string may hold, and no trace we know comes near it

/** `blockTokens`: what one id stands for; undefined takes the trace's own word, else 512. */
export function readTrace(bytes: Uint8Array, blockTokens?: number): Trace {
  const isGzip = bytes[0] === 0x1f && bytes[1] === 0x8b
  let text: string
  try {
    text = new TextDecoder().decode(isGzip ? gunzipSync(bytes, { maxOutputLength: textBytesMax }) : bytes)
  } catch (cause) {
    throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: 'the trace cannot be unpacked' }, { cause })
  }
  const trace = parseTrace(text, blockTokens)
  if (trace.requests.length === 0)
    throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: 'the trace has no requests' })
  return trace
}
