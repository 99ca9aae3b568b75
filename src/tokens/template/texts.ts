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

/** Steps that finding the next part takes. */
export function searched(text: string, part: string, from: number, found: number): number {
  const length = (found < 0 ? text.length : found) - from
  return 1 + (length >>> 7) * (part.length > 64 ? part.length >>> 6 : 1)
}

/** `split`, which may be asked of a text that is as long as all that a template may write. */
export function partsOf(text: string, by: string): string[] {
  if (text.length <= shortText) return text.split(by)
  const parts: string[] = []
  for (let at = 0; ; ) {
    const next = text.indexOf(by, at)
    spend(searched(text, by, at, next))
    parts.push(text.slice(at, next < 0 ? text.length : next))
    if (next < 0) return parts
    at = next + by.length
  }
}
