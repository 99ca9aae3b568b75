/** `nvext`, the part of a body that is addressed to us. It is read without loss, since worker ids have 64 bits. */
import type { JsonObject, JsonValue } from '../../core/protocol/index.js'
import { parseUnkeptJson, unkept, WarmrouteError } from '../../core/protocol/index.js'
import type { FieldSpan } from '../scan-fields.js'
import { FieldScan, walkInSteps } from '../scan-fields.js'
import type { Steps } from '../steps.js'
import { steeringTextsMax, textsLeft } from './kept-texts.js'
import { parsedBytesMax } from './parse-body.js'
import { readIds } from './read-ids.js'

export interface Nvext {
  /** To be read by known names: see `unkept`. */
  readonly fields: JsonObject
  /** `token_data`, where it is so long that it was not read with the others. */
  readonly longTokens: Uint32Array | undefined
}

export function* readNvext(bytes: Buffer, fields: readonly FieldSpan[]): Steps<Nvext | undefined> {
  const span = fields.findLast((field) => field.name === 'nvext')
  if (!span) return undefined
  const own = bytes.subarray(span.valueStart, span.valueEnd)
  const nvext = own.length <= parsedBytesMax ? readShort(own) : yield* readLong(own)
  if (nvext && Object.hasOwn(nvext.fields, 'agent_context'))
    throw refused('nvext.agent_context may only come from headers')
  return nvext
}

function readShort(own: Buffer): Nvext | undefined {
  if (textsLeft(own, 0, own.length, steeringTextsMax) < 0) throw manyTexts()
  const value = parseUnkeptJson(own.toString('utf8'))
  if (value === null) return undefined
  if (typeof value !== 'object' || Array.isArray(value)) throw refused('nvext must be an object')
  return { fields: value, longTokens: undefined }
}

/** Only `token_data` has a reason to be long. */
function* readLong(own: Buffer): Steps<Nvext> {
  const scan = new FieldScan(own)
  yield* walkInSteps(scan)
  if (!scan.fields) throw refused('nvext must be an object')
  const fields = new Map<string, JsonValue>()
  let longTokens: Uint32Array | undefined
  let texts = steeringTextsMax
  let parsedBytes = 0
  for (const { name, valueStart, valueEnd } of scan.fields) {
    const size = valueEnd - valueStart
    if (name === 'token_data' && size > parsedBytesMax) {
      const ids = yield* readIds(own, valueStart, valueEnd)
      if (!(ids instanceof Uint32Array))
        throw refused('nvext: token_data holds something that is no token, or too many')
      longTokens = ids
    } else {
      parsedBytes += size
      if (parsedBytes > parsedBytesMax)
        throw refused(`nvext: only token_data may be longer than ${parsedBytesMax} bytes`)
      texts = textsLeft(own, valueStart, valueEnd, texts - 1)
      if (texts < 0) throw manyTexts()
      fields.set(name, parseUnkeptJson(own.toString('utf8', valueStart, valueEnd)))
    }
  }
  return { fields: unkept(fields), longTokens }
}

function manyTexts(): WarmrouteError {
  return refused(`nvext has more than ${steeringTextsMax} names and texts`)
}

function refused(message: string): WarmrouteError {
  return new WarmrouteError('WR_INVALID_BODY', { message, param: 'nvext' })
}
