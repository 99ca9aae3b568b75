/** A trace from bytes: plain or gzip, whatever its name says. */
import { gunzipSync } from 'node:zlib'
import { WarmrouteError } from '../../core/protocol/index.js'
import { parseMooncake } from './trace.js'
import type { TraceRequest } from './trace.js'

const textBytesMax = 2 ** 29 // the longest text that a JavaScript string may hold, and no trace we know comes near it

export function readTrace(bytes: Uint8Array): TraceRequest[] {
  const isGzip = bytes[0] === 0x1f && bytes[1] === 0x8b
  let text: string
  try {
    text = new TextDecoder().decode(isGzip ? gunzipSync(bytes, { maxOutputLength: textBytesMax }) : bytes)
  } catch (cause) {
    throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: 'the trace cannot be unpacked' }, { cause })
  }
  const trace = parseMooncake(text)
  if (trace.length === 0) throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: 'the trace has no requests' })
  return trace
}
