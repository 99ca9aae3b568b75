/** A trace from bytes: plain or gzip, whatever its name says. */
import { gunzipSync } from 'node:zlib'
import { WarmrouteError } from '../../core/protocol/index.js'
import { parseTrace } from './trace.js'
import type { Trace } from './trace.js'

const textBytesMax = 2 ** 29 - 24 // the longest text that a JavaScript string may hold, and no trace we know comes near it
const tooLarge = 'the trace is longer than 512 MiB of text: replay a part of it'

/** `blockTokens`: what one id stands for; undefined takes the trace's own word, else 512. */
export function readTrace(bytes: Uint8Array, blockTokens?: number): Trace {
  const trace = parseTrace(new TextDecoder().decode(unpack(bytes)), blockTokens)
  if (trace.requests.length === 0) refuse('the trace has no requests')
  return trace
}

function unpack(bytes: Uint8Array): Uint8Array {
  const isGzip = bytes[0] === 0x1f && bytes[1] === 0x8b
  try {
    if (isGzip) return gunzipSync(bytes, { maxOutputLength: textBytesMax })
  } catch (cause) {
    if ((cause as { code?: unknown }).code !== 'ERR_BUFFER_TOO_LARGE')
      refuse(`the trace cannot be unpacked: ${(cause as Error).message}`, cause)
    refuse(tooLarge, cause)
  }
  if (bytes.length > textBytesMax) refuse(tooLarge)
  return bytes
}

function refuse(reason: string, cause?: unknown): never {
  throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason }, { cause })
}
