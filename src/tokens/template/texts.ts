/** What is done to texts that may be as long as all that a template may write: each says what it takes before it begins, or while it works. */
import { spend } from './meter.js'

/** A text's characters. */
export function charsOf(text: string): string[] {
  spend(text.length >>> 2)
  return Array.from(text)
}

export function matches(value: string, pattern: RegExp): boolean {
  spend(value.length >>> 4)
  return pattern.test(value)
}

export function toLower(value: string): string {
  spend(value.length >>> 4)
  return value.toLowerCase()
}

export function toUpper(value: string): string {
  spend(value.length >>> 4)
  return value.toUpperCase()
}

/** In texts of so many characters everything is found in microseconds. */
export const shortText = 1024

const shortPart = 64

/** Where a part begins, or -1. JavaScript's own search may compare a long part anew at every place of a text that is nearly it everywhere. */
export function indexIn(text: string, part: string, from = 0): number {
  if (part.length > shortPart) return placeOf(text, part, from, false)
  const found = text.indexOf(part, from)
  spend(1 + (((found < 0 ? text.length : found) - from) >>> 7))
  return found
}

export function lastIndexIn(text: string, part: string): number {
  if (part.length > shortPart) return placeOf(text, part, 0, true)
  spend(1 + (text.length >>> 5))
  return text.lastIndexOf(part)
}

/** By Knuth, Morris and Pratt: looks at each unit of the text once. */
function placeOf(text: string, part: string, from: number, isLast: boolean): number {
  if (part.length > text.length - from) return -1
  spend((text.length - from + part.length) >>> 5)
  // Of what has been matched, by its length less one: how much of its beginning is its end as well.
  const borders = new Uint32Array(part.length)
  for (let at = 1, same = 0; at < part.length; at++) {
    same = matchedWith(part, borders, same, part.charCodeAt(at))
    borders[at] = same
  }
  let found = -1
  for (let at = from, same = 0; at < text.length; at++) {
    same = matchedWith(part, borders, same, text.charCodeAt(at))
    if (same < part.length) continue
    found = at + 1 - part.length
    if (!isLast) break
    same = borders[same - 1]!
  }
  return found
}

/** How much of a part is matched with one more unit. */
function matchedWith(part: string, borders: Uint32Array, matched: number, unit: number): number {
  let same = matched
  while (same > 0 && part.charCodeAt(same) !== unit) same = borders[same - 1]!
  return part.charCodeAt(same) === unit ? same + 1 : same
}

/** `split`, which may be asked of a text that is as long as all that a template may write. */
export function partsOf(text: string, by: string): string[] {
  if (text.length <= shortText) return text.split(by)
  const parts: string[] = []
  for (let at = 0; ; ) {
    const next = indexIn(text, by, at)
    parts.push(text.slice(at, next < 0 ? text.length : next))
    if (next < 0) return parts
    at = next + by.length
  }
}
