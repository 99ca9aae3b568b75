/**
 * Takes fields out of a JSON body and puts others in without parsing or printing the rest: the client's own bytes go to
 * the engine, whatever number formats, spacing or key order they have. Works on the fields of the outermost object only.
 *
 * The scanner is strict about structure (strings, brackets) and blind to values. It is used on bodies that `JSON.parse`
 * has accepted; on anything else it answers undefined and the caller refuses the request.
 */

/** One field of the outermost object, as byte offsets: `name` is decoded, so that escapes cannot hide a field. */
export interface FieldSpan {
  readonly name: string
  /** The opening quote of the key. */
  readonly keyStart: number
  readonly valueStart: number
  /** One past the value. */
  readonly valueEnd: number
}

export interface BodyEdit {
  /** Every occurrence goes, duplicates included. */
  readonly remove?: ReadonlySet<string>
  /** JSON text per field; replaces what the client sent under that name. */
  readonly set?: Readonly<Record<string, string>>
}

const quote = 0x22
const backslash = 0x5c
const comma = 0x2c
const colon = 0x3a
const openBrace = 0x7b
const closeBrace = 0x7d
const openBracket = 0x5b
const closeBracket = 0x5d

/** The fields of the outermost object, or undefined when the bytes are no object. */
export function scanFields(body: Uint8Array): readonly FieldSpan[] | undefined {
  let at = skipSpace(body, skipMark(body))
  if (body[at] !== openBrace) return undefined
  at = skipSpace(body, at + 1)
  const fields: FieldSpan[] = []
  if (body[at] === closeBrace) return isBlank(body, at + 1) ? fields : undefined
  while (true) {
    const keyStart = at
    const keyEnd = endOfString(body, keyStart)
    if (keyEnd < 0) return undefined
    at = skipSpace(body, keyEnd)
    if (body[at] !== colon) return undefined
    const valueStart = skipSpace(body, at + 1)
    const valueEnd = endOfValue(body, valueStart)
    if (valueEnd <= valueStart) return undefined
    const name = decodeName(body, keyStart, keyEnd)
    if (name === undefined) return undefined
    fields.push({ name, keyStart, valueStart, valueEnd })
    at = skipSpace(body, valueEnd)
    if (body[at] === closeBrace) return isBlank(body, at + 1) ? fields : undefined
    if (body[at] !== comma) return undefined
    at = skipSpace(body, at + 1)
  }
}

/**
 * The body with the edit applied, in pieces: a long prompt is sent from where it lies. Untouched bytes are as they were;
 * without any change the body itself is the only piece.
 */
export function spliceBody(body: Uint8Array, fields: readonly FieldSpan[], edit: BodyEdit): readonly Uint8Array[] {
  const names = Object.keys(edit.set ?? {})
  const kept = fields.filter((field) => !edit.remove?.has(field.name) && !names.includes(field.name))
  if (kept.length === fields.length && names.length === 0) return [body]
  const pieces: Uint8Array[] = []
  for (const field of kept) {
    pieces.push(pieces.length === 0 ? openText : commaText)
    pieces.push(body.subarray(field.keyStart, field.valueEnd))
  }
  let added = ''
  for (const name of names) {
    const isFirst = pieces.length === 0 && added === ''
    added += `${isFirst ? '{' : ','}${JSON.stringify(name)}:${edit.set![name]}`
  }
  pieces.push(encoder.encode(`${pieces.length === 0 && added === '' ? '{' : added}}`))
  return pieces
}

const encoder = new TextEncoder()
const openText = encoder.encode('{')
const commaText = encoder.encode(',')
const decoder = new TextDecoder('utf-8', { fatal: true })

/** One past the closing quote, or -1. `indexOf` finds quotes much faster than a loop over a 200 KB prompt would. */
function endOfString(body: Uint8Array, start: number): number {
  if (body[start] !== quote) return -1
  for (let at = body.indexOf(quote, start + 1); at >= 0; at = body.indexOf(quote, at + 1)) {
    let slashes = 0
    while (body[at - 1 - slashes] === backslash) slashes++
    if (slashes % 2 === 0) return at + 1
  }
  return -1
}

/** One past the value: a string, a bracketed one, or a plain word. -1 when it does not end. */
function endOfValue(body: Uint8Array, start: number): number {
  const first = body[start]
  if (first === quote) return endOfString(body, start)
  if (first !== openBrace && first !== openBracket) return endOfWord(body, start)
  let depth = 0
  for (let at = start; at < body.length; at++) {
    const byte = body[at]
    if (byte === quote) {
      const end = endOfString(body, at)
      if (end < 0) return -1
      at = end - 1
    } else if (byte === openBrace || byte === openBracket) depth++
    else if (byte === closeBrace || byte === closeBracket) {
      depth--
      if (depth === 0) return at + 1
    }
  }
  return -1
}

function endOfWord(body: Uint8Array, start: number): number {
  let at = start
  while (at < body.length && !isSpace(body[at]!) && body[at] !== comma && body[at] !== closeBrace) at++
  return at
}

function decodeName(body: Uint8Array, start: number, end: number): string | undefined {
  try {
    const value: unknown = JSON.parse(decoder.decode(body.subarray(start, end)))
    return typeof value === 'string' ? value : undefined
  } catch {
    return undefined
  }
}

function skipSpace(body: Uint8Array, start: number): number {
  let at = start
  while (at < body.length && isSpace(body[at]!)) at++
  return at
}

/** A byte order mark, which some clients send and engines accept. */
function skipMark(body: Uint8Array): number {
  return body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf ? 3 : 0
}

function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09
}

function isBlank(body: Uint8Array, start: number): boolean {
  return skipSpace(body, start) === body.length
}
