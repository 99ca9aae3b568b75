/**
 * Reads of a body what routing needs. A short one is parsed as a whole. In a long one the fields that only hold text for
 * the model are left as bytes: decoding and parsing 220 KB to read `model` and `stream` costs more than relaying it, and
 * whether that text is well formed is the engine's to judge.
 */
import { isAscii, isUtf8 } from 'node:buffer'
import { WarmrouteError } from '../../core/protocol/index.js'
import { parseObject } from '../http/read-body.js'
import type { FieldSpan } from '../splice-body.js'
import { scanFields } from '../splice-body.js'

/** Stands for a field that was not parsed. */
export const unread: unique symbol = Symbol('unread')

const wholeBytesMax = 32 * 1024
const fieldBytesMax = 4 * 1024
/** Long texts, by name; a list of token ids under one of them is read. */
const longFields = new Set(['messages', 'tools', 'input', 'instructions', 'system', 'prompt', 'text', 'documents'])

export interface ParsedBody {
  readonly body: Readonly<Record<string, unknown>>
  /** Every field was parsed. */
  readonly isWhole: boolean
  readonly fields: readonly FieldSpan[] | undefined
}

/** Throws `WR_INVALID_BODY`. */
export function parseBody(bytes: Buffer, depthMax: number): ParsedBody {
  if (bytes.length <= wholeBytesMax) return { body: parseObject(bytes, depthMax), isWhole: true, fields: undefined }
  if (!isAscii(bytes) && !isUtf8(bytes)) throw invalid('the body is not UTF-8')
  const fields = scanFields(bytes)
  if (!fields) throw invalid('the body is not JSON')
  const body = Object.create(null) as Record<string, unknown>
  let isWhole = true
  for (const { name, valueStart, valueEnd } of fields) {
    if (isDeeper(bytes, valueStart, valueEnd, depthMax)) throw invalid(`nested deeper than ${depthMax}`)
    if (longFields.has(name) && valueEnd - valueStart > fieldBytesMax && isText(bytes, valueStart)) {
      body[name] = unread
      isWhole = false
    } else body[name] = parseValue(bytes, valueStart, valueEnd)
  }
  return { body, isWhole, fields }
}

/** A string, or a list whose first item is no number. */
function isText(bytes: Buffer, start: number): boolean {
  if (bytes[start] === 0x22) return true
  let at = start + 1
  while (at < bytes.length && (bytes[at]! <= 0x20 || bytes[at] === 0x5b)) at++
  const first = bytes[at]!
  return !((first >= 0x30 && first <= 0x39) || first === 0x2d)
}

function parseValue(bytes: Buffer, start: number, end: number): unknown {
  try {
    return JSON.parse(bytes.toString('utf8', start, end))
  } catch {
    throw invalid('the body is not JSON')
  }
}

/** Brackets inside strings do not count; strings are skipped by their quotes. */
function isDeeper(bytes: Buffer, start: number, end: number, depthMax: number): boolean {
  if (bytes[start] !== 0x5b && bytes[start] !== 0x7b) return false
  let depth = 1
  for (let at = start; at < end; at++) {
    const byte = bytes[at]!
    if (byte === 0x22) at = endOfString(bytes, at)
    else if (byte === 0x5b || byte === 0x7b) {
      if (++depth > depthMax) return true
    } else if (byte === 0x5d || byte === 0x7d) depth--
  }
  return false
}

/** Where the closing quote stands; the scanner has proved that there is one. */
function endOfString(bytes: Buffer, start: number): number {
  for (let at = bytes.indexOf(0x22, start + 1); at >= 0; at = bytes.indexOf(0x22, at + 1)) {
    let slashes = 0
    while (bytes[at - 1 - slashes] === 0x5c) slashes++
    if (slashes % 2 === 0) return at
  }
  return bytes.length
}

function invalid(reason: string): WarmrouteError {
  return new WarmrouteError('WR_INVALID_BODY', {
    message: `Failed to deserialize the JSON body into the target type: ${reason}`,
    reason,
  })
}
