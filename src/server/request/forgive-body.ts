/**
 * Upstream's second and third try at a body that is not JSON (spec/serving.md 1.2), for `strict: dynamo`: raw control
 * characters inside strings are escaped, then bytes that are not UTF-8 are replaced. The engine gets the mended body.
 */
import { isUtf8 } from 'node:buffer'

/** The body itself where it parses or cannot be mended: then the parser says what is wrong with it. */
export function forgiveBody(bytes: Buffer): Buffer {
  if (parses(bytes)) return bytes
  const escaped = escapeControls(bytes)
  if (parses(escaped)) return escaped
  const replaced = escapeControls(Buffer.from(bytes.toString('utf8')))
  return parses(replaced) ? replaced : bytes
}

function parses(bytes: Buffer): boolean {
  if (!isUtf8(bytes)) return false
  try {
    JSON.parse(bytes.toString('utf8'))
    return true
  } catch {
    return false
  }
}

const quote = 0x22
const backslash = 0x5c

/** Bytes below 0x20 between quotes, as `\u00XX`. Works on bytes: no byte of a longer UTF-8 sequence is that low. */
function escapeControls(bytes: Buffer): Buffer {
  const parts: Buffer[] = []
  let isInside = false
  let copied = 0
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]!
    if (isInside && byte === backslash) at++
    else if (byte === quote) isInside = !isInside
    else if (isInside && byte < 0x20) {
      parts.push(bytes.subarray(copied, at), Buffer.from(`\\u00${byte.toString(16).padStart(2, '0')}`))
      copied = at + 1
    }
  }
  return parts.length === 0 ? bytes : Buffer.concat([...parts, bytes.subarray(copied)])
}
