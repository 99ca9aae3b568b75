/** How many texts a list holds that is too long to be parsed: a batch of prompts counts as many, whatever they say. */
import { stepBytes } from '../scan-fields.js'
import type { Steps } from '../steps.js'

const quote = 0x22
const backslash = 0x5c
const openBracket = 0x5b

/** Of well-formed bytes. Undefined where they are no list of texts; counts no further than `countMax`. */
export function* countTexts(bytes: Buffer, start: number, end: number, countMax: number): Steps<number | undefined> {
  let at = start + 1
  while (at < end && bytes[at]! <= 0x20) at++
  if (bytes[start] !== openBracket || bytes[at] !== quote) return undefined
  let count = 0
  let isInside = false
  let stepEnd = at + stepBytes
  while (count < countMax) {
    const mark = bytes.indexOf(quote, at)
    if (mark < 0 || mark >= end) break
    if (!isInside || !isEscaped(bytes, mark)) {
      isInside = !isInside
      if (!isInside) count++
    }
    at = mark + 1
    if (at < stepEnd) continue
    yield
    stepEnd = at + stepBytes
  }
  return count
}

/** Behind an odd number of backslashes. */
function isEscaped(bytes: Buffer, at: number): boolean {
  let slashes = 0
  while (bytes[at - 1 - slashes] === backslash) slashes++
  return slashes % 2 === 1
}
