/**
 * Whether the model has the token ids that a request carries. An engine that looks them up unchecked ends its whole process with the first
 * one that it has no row for (docs/decisions/0259), so nothing is sent to such an engine before every id was seen.
 */
import { WarmrouteError } from '../../core/protocol/index.js'
import { idFields } from '../../engines/index.js'
import type { EngineKind, IdField } from '../../engines/index.js'
import type { FieldSpan } from '../scan-fields.js'
import type { Steps } from '../steps.js'
import type { IdRules } from './odd-id.js'
import { oddIdIn } from './odd-id.js'
import type { Prepared } from './prepare.js'

/** Where nobody knows how many ids a model has: what no engine could hold. */
export const idMaxUnknown: number = 2 ** 31 - 1

/** Throws `WR_INVALID_TOKEN_ID`. */
export function* checkIds(kind: EngineKind, prepared: Prepared): Steps<void> {
  const { model, body, bytes } = prepared
  for (const field of idFields[kind] ?? []) {
    const { name } = field
    const value = Object.hasOwn(body, name) ? body[name] : undefined
    if (value === undefined || value === null || typeof value === 'string') continue
    const idMax = model.spec.tokenizer?.idMax ?? idMaxUnknown
    const odd = isRead(value)
      ? yield* firstAbove(value, idMax)
      : yield* oddIdIn(bytes, spanOf(prepared, name), rulesOf(field, prepared, idMax))
    if (odd !== undefined) throw refused(name, odd, idMax)
  }
}

function refused(name: string, odd: string, idMax: number): WarmrouteError {
  return new WarmrouteError('WR_INVALID_TOKEN_ID', {
    message: `\`${name}\` holds ${odd}, which is no token id of the model: they are integers from 0 to ${idMax}.`,
    param: name,
  })
}

/** Many ids, which `parseBody` has read already: each fits into 32 bits. */
function isRead(value: unknown): value is Uint32Array | readonly Uint32Array[] {
  return value instanceof Uint32Array || (Array.isArray(value) && value[0] instanceof Uint32Array)
}

function spanOf(prepared: Prepared, name: string): FieldSpan {
  return prepared.fields().findLast((field) => field.name === name)!
}

function rulesOf({ mayBeText, mayBeObject, standsBehind }: IdField, prepared: Prepared, idMax: number): IdRules {
  const mayBeEmpty = standsBehind !== undefined && hasIds(prepared, standsBehind)
  return { mayBeText, mayBeObject, mayBeEmpty, idMax }
}

/** Of a list that was looked through already; blanks before its first id are not, beyond some. */
function hasIds(prepared: Prepared, name: string): boolean {
  const { body, bytes } = prepared
  const value = Object.hasOwn(body, name) ? body[name] : undefined
  if (Array.isArray(value)) return value.length > 0
  if (typeof value !== 'symbol') return false
  const { valueStart } = spanOf(prepared, name)
  return /^\[\s*[^\s\]]/.test(Buffer.from(bytes.subarray(valueStart, valueStart + 64)).toString('latin1'))
}

/** A quarter of a millisecond. */
const stepIds = 256 << 10

function* firstAbove(lists: Uint32Array | readonly Uint32Array[], idMax: number): Steps<string | undefined> {
  let left = stepIds
  for (const ids of lists instanceof Uint32Array ? [lists] : lists)
    for (let start = 0; start < ids.length; ) {
      if (left === 0) {
        yield
        left = stepIds
      }
      const end = Math.min(ids.length, start + left)
      for (let at = start; at < end; at++) if (ids[at]! > idMax) return String(ids[at])
      left -= end - start
      start = end
    }
  return undefined
}
