/**
 * Upstream's second and third try at a body that is not JSON (spec/serving.md 1.2), for `strict: dynamo`: raw control
 * characters inside strings are escaped, then bytes that are not UTF-8 are replaced. The engine gets the mended body.
 */
import type { BufferPool } from '../http/buffer-pool.js'
import { longBytes, stepBytes } from '../scan-fields.js'
import type { Steps } from '../steps.js'
import { checkJson } from './check-json.js'
import { isUnicode } from './parse-body.js'

export interface ForgiveLimits {
  readonly depthMax: number
  /** Of the mended body: an escape is six times as long as what it stands for. */
  readonly bodyBytesMax: number
}

/** The body itself where it is JSON; undefined where it cannot be mended. */
export function* forgiveBody(bytes: Buffer, limits: ForgiveLimits, buffers: BufferPool): Steps<Buffer | undefined> {
  const unicode = (yield* isUnicode(bytes)) ? bytes : yield* replaceBytes(bytes, limits.bodyBytesMax, buffers)
  if (!unicode) return undefined
  const verdict = yield* checkJson(unicode, limits.depthMax)
  if (verdict === 'not json') return undefined
  if (unicode.length > mendedBytes) yield // parsing so much comes in a turn of its own
  if (verdict === 'json') return unicode
  const escaped = yield* escapeControls(unicode, limits.bodyBytesMax, buffers)
  if (unicode !== bytes) buffers.give(unicode)
  return escaped
}

/** What is no UTF-8 becomes U+FFFD, as `Buffer.toString` has it. */
function* replaceBytes(bytes: Buffer, bytesMax: number, buffers: BufferPool): Steps<Buffer | undefined> {
  const size = yield* writeReplaced(bytes, undefined)
  if (size > bytesMax) return undefined
  const replaced = buffers.take(size)
  if (size > longBytes) yield // taking so much comes in a turn of its own
  yield* writeReplaced(bytes, replaced)
  return replaced
}

/** Answers how many bytes it has written, or would have. */
function* writeReplaced(bytes: Buffer, into: Buffer | undefined): Steps<number> {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  let written = 0
  for (let at = 0; at < bytes.length; at += stepBytes) {
    if (at > 0) yield
    const isLast = at + stepBytes >= bytes.length
    const text = decoder.decode(bytes.subarray(at, at + stepBytes), { stream: !isLast })
    written += into ? into.write(text, written) : Buffer.byteLength(text)
  }
  return written
}

/** What is mended in one step: each byte may become six. */
const mendedBytes = stepBytes
const quote = 0x22
const backslash = 0x5c
const escapeBytes = 6
const letterU = 0x75
const zero = 0x30
const hexDigits = Buffer.from('0123456789abcdef')

/** Bytes below 0x20 between quotes, as `\u00XX`. Works on bytes: no byte of a longer UTF-8 sequence is that low. */
function* escapeControls(bytes: Buffer, bytesMax: number, buffers: BufferPool): Steps<Buffer | undefined> {
  const size = yield* writeEscaped(bytes, undefined)
  if (size > bytesMax) return undefined
  const escaped = buffers.take(size)
  if (size > longBytes) yield
  yield* writeEscaped(bytes, escaped)
  return escaped
}

/** Answers how many bytes it has written, or would have. */
function* writeEscaped(bytes: Buffer, into: Buffer | undefined): Steps<number> {
  let written = 0
  let isInside = false
  let isEscaped = false
  for (let at = 0; at < bytes.length; at++) {
    if (at > 0 && at % mendedBytes === 0) yield
    const byte = bytes[at]!
    if (isInside && byte < 0x20) {
      if (into) {
        into[written] = backslash
        into[written + 1] = letterU
        into[written + 2] = into[written + 3] = zero
        into[written + 4] = hexDigits[byte >>> 4]!
        into[written + 5] = hexDigits[byte & 15]!
      }
      written += escapeBytes
      continue
    }
    if (into) into[written] = byte
    written++
    if (byte === quote && !isEscaped) isInside = !isInside
    isEscaped = isInside && byte === backslash && !isEscaped
  }
  return written
}
