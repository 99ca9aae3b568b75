/** Finds the items of a JSON list in its bytes, without parsing them: used where the bytes are known to be JSON. A long list is walked in steps. */
import { longBytes, stepBytes } from './scan-fields.js'
import type { Steps } from './steps.js'

/** Byte offsets: pairs of an item's start and one past its end. */
export type ItemSpans = readonly (readonly [start: number, end: number])[]

/** At most `itemsMax` items; undefined where the value is no list. */
export function* scanList(
  bytes: Uint8Array,
  start: number,
  end: number,
  itemsMax: number,
): Steps<ItemSpans | undefined> {
  if (bytes[start] !== openBracket) return undefined
  const spans: [number, number][] = []
  if (itemsMax > 0) yield* walkItems(bytes, start, end, (...span) => spans.push(span) < itemsMax)
  return spans
}

/** Whether one of its items is `""`. */
export function* holdsEmptyText(bytes: Uint8Array, start: number, end: number): Steps<boolean> {
  if (bytes[start] !== openBracket) return false
  let isFound = false
  yield* walkItems(bytes, start, end, (item) => !(isFound = bytes[item] === quote && bytes[item + 1] === quote))
  return isFound
}

/** For as long as `goesOn` says so. */
function* walkItems(
  bytes: Uint8Array,
  start: number,
  end: number,
  goesOn: (start: number, end: number) => boolean,
): Steps<void> {
  let itemStart = -1 // no byte of the item was seen
  let depth = 0
  let isInText = false
  let stepEnd = end - start > longBytes ? start + stepBytes : end
  for (let at = start + 1; at < end; at++) {
    if (at >= stepEnd) {
      yield
      stepEnd = at + stepBytes
    }
    const byte = bytes[at]!
    if (isInText) {
      if (byte === backslash) at++
      else if (byte === quote) isInText = false
      continue
    }
    if (byte <= 0x20) continue
    if (depth === 0 && (byte === comma || byte === closeBracket)) {
      if (itemStart >= 0 && !goesOn(itemStart, at)) return
      itemStart = -1
      continue
    }
    if (itemStart < 0) itemStart = at
    if (byte === quote) isInText = true
    else if (byte === openBrace || byte === openBracket) depth++
    else if (byte === closeBrace || byte === closeBracket) depth--
  }
}

const quote = 0x22
const backslash = 0x5c
const comma = 0x2c
const openBrace = 0x7b
const closeBrace = 0x7d
const openBracket = 0x5b
const closeBracket = 0x5d
