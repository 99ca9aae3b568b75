/**
 * Takes fields out of a JSON body and puts others in without parsing or printing the rest: the client's own bytes go to
 * the engine, whatever number formats, spacing or key order they have. Works on the fields of the outermost object only.
 */
import type { FieldSpan } from './scan-fields.js'

export interface BodyEdit {
  /** Every occurrence goes, duplicates included. */
  readonly remove?: ReadonlySet<string>
  /** JSON text per field; replaces what the client sent under that name. */
  readonly set?: Readonly<Record<string, string>>
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
