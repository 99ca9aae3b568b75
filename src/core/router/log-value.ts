/** Any plain value as bytes of a log, exact: what a caller attached to a request for a policy of its own. */
import type { JsonInput } from '../protocol/index.js'
import { WarmrouteError } from '../protocol/index.js'
import type { ByteReader, ByteWriter } from './byte-codec.js'

const tags = { null: 0, false: 1, true: 2, number: 3, bigint: 4, text: 5, list: 6, object: 7 } as const

/** Deeper than this is a mistake, or a circle. */
const depthMax = 32

/** Throws `WR_INVALID_ARGUMENT` for what is no plain value. */
export function writeValue(to: ByteWriter, value: JsonInput, depth = 0): void {
  if (depth > depthMax) throw refused('a value is nested too deeply')
  if (value === null) to.byte(tags.null)
  else if (typeof value === 'boolean') to.byte(value ? tags.true : tags.false)
  else if (typeof value === 'number') {
    to.byte(tags.number)
    to.float(value)
  } else if (typeof value === 'bigint') {
    to.byte(tags.bigint)
    to.text(String(value))
  } else if (typeof value === 'string') {
    to.byte(tags.text)
    to.text(value)
  } else if (isList(value)) {
    to.byte(tags.list)
    to.count(value.length)
    for (const item of value) writeValue(to, item, depth + 1)
  } else if (typeof value === 'object') {
    const members = Object.entries(value).filter((member): member is [string, JsonInput] => member[1] !== undefined)
    to.byte(tags.object)
    to.count(members.length)
    for (const [key, member] of members) {
      to.text(key)
      writeValue(to, member, depth + 1)
    }
  } else throw refused(`a ${typeof value} cannot be written`)
}

/** Throws `WR_INVALID_LOG`. */
export function readValue(from: ByteReader, depth = 0): JsonInput {
  const tag = from.byte()
  if (depth > depthMax || tag > tags.object) throw new WarmrouteError('WR_INVALID_LOG', { reason: 'no plain value' })
  switch (tag) {
    case tags.null:
      return null
    case tags.false:
    case tags.true:
      return tag === tags.true
    case tags.number:
      return from.float()
    case tags.bigint:
      return readBigInt(from.text())
    case tags.text:
      return from.text()
    case tags.list:
      return repeat(from.count(), () => readValue(from, depth + 1))
    default:
      return Object.fromEntries(repeat(from.count(), () => [from.text(), readValue(from, depth + 1)] as const))
  }
}

function repeat<T>(count: number, read: () => T): T[] {
  const list: T[] = []
  for (let left = count; left > 0; left--) list.push(read())
  return list
}

function readBigInt(text: string): bigint {
  if (!/^-?\d{1,400}$/.test(text)) throw new WarmrouteError('WR_INVALID_LOG', { reason: 'a number is damaged' })
  return BigInt(text)
}

function isList(value: JsonInput): value is readonly JsonInput[] {
  return Array.isArray(value)
}

function refused(reason: string): WarmrouteError {
  return new WarmrouteError('WR_INVALID_ARGUMENT', { reason })
}
