/**
 * Reads of a body what routing needs. A short one is parsed as a whole. In a long one the fields that only hold text for
 * the model are left as bytes: decoding and parsing 220 KB to read `model` and `stream` costs more than relaying it, and
 * whether that text is well formed is the engine's to judge. No body holds the loop for more than a few milliseconds: what
 * takes longer is read in steps, or not at all (docs/decisions/0157).
 */
import { isAscii, isUtf8 } from 'node:buffer'
import { parseUnkeptJson, unkept } from '../../core/protocol/index.js'
import { invalidBody, parseObject } from '../http/read-body.js'
import { KeptTable } from '../kept-table.js'
import type { FieldSpan } from '../scan-fields.js'
import { FieldScan, fieldsMax, longBytes, nameBytesMax, skipMark, walkInSteps } from '../scan-fields.js'
import type { Steps } from '../steps.js'
import { checkJson } from './check-json.js'
import { countTexts } from './count-texts.js'
import type { Outline } from './kept-texts.js'
import { NewTexts, steeringTextsMax, textsLeft } from './kept-texts.js'
import { listsMax, readIds } from './read-ids.js'

/** Stands for a field that was not parsed. */
export const unread: unique symbol = Symbol('unread')

const wholeBytesMax = 32 * 1024
const fieldBytesMax = 4 * 1024
/** What is parsed in one step; a field that is longer is not read, unless it holds token ids. */
export const parsedBytesMax: number = 32 * 1024
/** Long texts, by name; a list of token ids under one of them is read. */
const longFields = new Set(['messages', 'tools', 'input', 'instructions', 'system', 'prompt', 'text', 'documents'])
const idFields = new Set(['prompt', 'input_ids'])
const batchFields = new Set(['prompt', 'text'])
/** What the gateway decides by. Nobody has a reason to write one so long that it cannot be read. */
// biome-ignore format: a list of names
const readFields = new Set(['best_of', 'cache_salt', 'echo', 'logprobs', 'max_completion_tokens', 'max_tokens', 'model', 'n', 'prompt_logprobs', 'sampling_params', 'stream', 'stream_options', 'vllm_xargs'])
/** Parsing takes up to 0.2 us a mark, and 6 ns a byte: 5 ms. */
const wholeMarksMax = 30_000
const bytesPerMark = 25
/** With its quotes, whatever its escapes: V8 keeps none that is longer. */
const shortTextMax = 62

export interface ParsedBody {
  /** Token ids, where there are many, lie in typed arrays. To be read by known names: see `unkept`. */
  readonly body: Readonly<Record<string, unknown>>
  /** Every field was parsed, and V8 has their names. */
  readonly isWhole: boolean
  /** All of it may be parsed without holding the loop. */
  readonly isLight: boolean
  readonly fields: readonly FieldSpan[] | undefined
}

/** Throws `WR_INVALID_BODY`. */
export function* parseBody(bytes: Buffer, depthMax: number): Steps<ParsedBody> {
  const isShort = bytes.length <= wholeBytesMax
  const all = new NewTexts()
  if (isShort && all.admits(bytes)) {
    const body = parseObject(bytes)
    const fields = mayBeTooMuch(all.outline, body) ? scanShort(bytes) : undefined
    if (all.outline.depth > depthMax) throw tooDeep(depthMax)
    return { body, isWhole: true, isLight: true, fields }
  }
  if (isShort) KeptTable.ofProcess.unkept.body++
  if (!(yield* isUnicode(bytes))) throw invalidBody('the body is not UTF-8')
  if (isShort) yield* refuseUnparsable(bytes)
  const scan = new FieldScan(bytes)
  yield* walkInSteps(scan)
  const { fields } = scan
  if (!fields) throw invalidBody(scan.problem)
  refuseManyTexts(bytes, fields)
  if (scan.depth > depthMax) throw tooDeep(depthMax)
  const body = new Map<string, unknown>()
  const texts = new NewTexts()
  let parsedBytes = 0
  for (const { name, valueStart, valueEnd } of fields) {
    const size = valueEnd - valueStart
    const sizeMax = longFields.has(name) && isText(bytes, valueStart) ? fieldBytesMax : parsedBytesMax
    const isSteering = readFields.has(name)
    const isUnkept = isSteering || bytes[valueStart] === 0x22
    const isLeft = size > sizeMax || !(isUnkept || texts.admits(bytes, valueStart, valueEnd))
    if (!isSteering && isLeft) {
      const ids = idFields.has(name) ? yield* readIds(bytes, valueStart, valueEnd) : undefined
      body.set(name, ids ?? (batchFields.has(name) ? yield* unreadBatch(bytes, valueStart, valueEnd) : unread))
      continue
    }
    parsedBytes += size
    if (parsedBytes > parsedBytesMax) {
      yield
      parsedBytes = size
    }
    body.set(name, parseValue(bytes.toString('utf8', valueStart, valueEnd), isUnkept, depthMax))
  }
  if (bytes.length > longBytes) yield // what is done with a long body comes in a turn of its own
  const isLight = scan.marks + bytes.length / bytesPerMark <= wholeMarksMax
  return {
    body: unkept(body),
    isWhole: false,
    isLight: isLight && !isShort && new NewTexts().admits(bytes),
    fields,
  }
}

/**
 * What is said of a body must not hang on what came before it: one that is parsed is refused as one whose fields are read one by one. Most have
 * too few texts for that, or no place for them.
 */
function mayBeTooMuch({ texts, fields, nameBytes }: Outline, body: Readonly<Record<string, unknown>>): boolean {
  if (fields > fieldsMax || nameBytes + 2 > nameBytesMax) return true // with its quotes
  if (texts <= steeringTextsMax) return false
  if (Object.keys(body).length < fields) return true // one comes twice
  for (const name of readFields) if (typeof body[name] === 'object' && body[name] !== null) return true
  return false
}

function scanShort(bytes: Buffer): readonly FieldSpan[] {
  const scan = new FieldScan(bytes)
  scan.walkTo(bytes.length)
  if (!scan.fields) throw invalidBody(scan.problem)
  refuseManyTexts(bytes, scan.fields)
  return scan.fields
}

/** And the other way round. */
function* refuseUnparsable(bytes: Buffer): Steps<void> {
  if ((yield* checkJson(bytes, bytes.length)) !== 'json') throw invalidBody('the body is not JSON')
  const first = bytes.subarray(skipMark(bytes)).find((byte) => byte > 0x20)
  if (first !== 0x7b) throw invalidBody('the body is not an object')
}

function refuseManyTexts(bytes: Buffer, fields: readonly FieldSpan[]): void {
  let steering = steeringTextsMax
  for (const { name, valueStart, valueEnd } of fields) {
    if (!readFields.has(name)) continue
    if (valueEnd - valueStart > parsedBytesMax) throw invalidBody(`${name} has more than ${parsedBytesMax} bytes`)
    steering = textsLeft(bytes, valueStart, valueEnd, steering)
    if (steering < 0) throw invalidBody(`${name} has more than ${steeringTextsMax} names and texts`)
  }
}

function tooDeep(depthMax: number): Error {
  return invalidBody(`nested deeper than ${depthMax}`)
}

/** Prompts that are not read are counted all the same: each is a sequence of its own. */
function* unreadBatch(bytes: Buffer, start: number, end: number): Steps<typeof unread | (typeof unread)[]> {
  const count = yield* countTexts(bytes, start, end, listsMax)
  return count === undefined ? unread : Array.from({ length: count }, () => unread)
}

/** What is validated in one step: less than a millisecond. */
const validatedBytes = 4 * 1024 * 1024

export function* isUnicode(bytes: Buffer): Steps<boolean> {
  for (let start = 0; start < bytes.length; ) {
    let end = Math.min(bytes.length, start + validatedBytes)
    while (end < bytes.length && end > start && (bytes[end]! & 0xc0) === 0x80) end-- // not inside of a character
    const part = start === 0 && end === bytes.length ? bytes : bytes.subarray(start, end)
    if (end === start || (!isAscii(part) && !isUtf8(part))) return false
    start = end
    if (start < bytes.length) yield
  }
  return true
}

/** A string, or a list whose first item is no number. */
function isText(bytes: Buffer, start: number): boolean {
  if (bytes[start] === 0x22) return true
  const end = Math.min(bytes.length, start + fieldBytesMax)
  let at = start + 1
  while (at < end && (bytes[at]! <= 0x20 || bytes[at] === 0x5b)) at++
  const first = bytes[at]!
  return !((first >= 0x30 && first <= 0x39) || first === 0x2d)
}

function parseValue(text: string, isUnkept: boolean, depthMax: number): unknown {
  const isLongText = text[0] === '"' && text.length > shortTextMax
  try {
    return isUnkept && !isLongText
      ? parseUnkeptJson(text, { depthMax, isRounded: true })
      : (JSON.parse(text) as unknown)
  } catch {
    throw invalidBody('the body is not JSON')
  }
}
