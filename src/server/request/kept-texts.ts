/**
 * V8 keeps every name that an object has, and every text of up to ten characters that `JSON.parse` makes, in one table for all of the
 * process, until a full collection. When the table is full, it is built anew in one go, which held the loop for 65 ms. So what would bring
 * many new ones is not parsed here: threads, which have tables of their own, read it, and of what steers a request nothing gets into the
 * table (docs/decisions/0273).
 */
import { KeptTable } from '../kept-table.js'

/** What a body may bring. Most bring nothing that those before did not have. */
const newMax = 64
/** Names and texts of whatever kind that the fields have by which a request is steered. */
export const steeringTextsMax = 256
const shortUnits = 10
/** One that is written with escapes, or not in ASCII, takes up to six bytes a character. */
const shortBytes = 6 * shortUnits
/** Bytes behind an escaped quote that are looked at one by one: the next is often escaped, too. */
const slowBytes = 256

const [quote, backslash, colon] = [0x22, 0x5c, 0x3a]
/** With the bit that tells them from `[` and `]`. */
const [openBrace, closeBrace] = [0x7b, 0x7d]

/** Most bodies have fewer names and texts than any bound on them. */
export interface Outline {
  /** Names and texts, of whatever length. */
  texts: number
  /** Of the outermost object, as many as were written: names may come twice. */
  fields: number
  /** Deepest nesting; the outermost object counts. */
  depth: number
  /** Of the longest name that is not short; some bytes. */
  nameBytes: number
}

/** The new texts of one body. */
export class NewTexts {
  /** Of all that was admitted. */
  readonly outline: Outline = { texts: 0, fields: 0, depth: 0, nameBytes: 0 }
  readonly #table: KeptTable
  #left = newMax

  constructor(table: KeptTable = KeptTable.ofProcess) {
    this.#table = table
  }

  /** Whether so much of the body may be parsed, which then has to follow. Up to a microsecond a kilobyte, and four where all texts are short. */
  admits(bytes: Uint8Array, from = 0, to: number = bytes.length): boolean {
    const table = this.#table
    let toKeep = 0
    const isAdmitted = everyText(bytes, from, to, table.seed, this.outline, (hash) => {
      const newness = hash === undefined ? 'new' : table.look(hash)
      if (newness === 'kept') return true
      toKeep++
      if (newness === 'new') this.#left--
      return this.#left >= 0 && table.hasRoom(toKeep)
    })
    if (isAdmitted && toKeep > 0)
      everyText(bytes, from, to, table.seed, undefined, (hash) => {
        table.keep(hash)
        return true
      })
    return isAdmitted
  }
}

/** Goes over the names and short texts of so much of a body while `visit` wants more of them. A long name has no hash. */
function everyText(
  bytes: Uint8Array,
  from: number,
  to: number,
  seed: number,
  outline: Outline | undefined,
  visit: (hash: number | undefined) => boolean,
): boolean {
  let texts = 0
  let open = 0
  let depth = 0
  let nameBytes = 0
  let fields = 0
  for (let at = from; at < to; at++) {
    const byte = bytes[at]!
    if (byte !== quote) {
      if ((byte | 0x20) === openBrace) open++
      else if ((byte | 0x20) === closeBrace) open--
      if (open > depth) depth = open
      continue
    }
    texts++
    const first = ++at
    const shortEnd = Math.min(to, first + shortBytes)
    let isPlain = true
    for (; at < shortEnd && bytes[at] !== quote; at++) {
      if (bytes[at] === backslash) at++
      else if (bytes[at]! < 0x80) continue
      isPlain = false
    }
    const isLong = at >= shortEnd
    if (isLong) at = endOfText(bytes, at, to)
    const isShort = at - first <= (isPlain ? shortUnits : shortBytes)
    if (open === 1 || !isShort) {
      const isNamed = isName(bytes, at + 1, to)
      if (isNamed && open === 1) fields++
      if (!isShort && !isNamed) continue
    }
    if (isLong && at - first > nameBytes) nameBytes = at - first
    if (!visit(isLong ? undefined : hashOf(bytes, first, at, seed))) return false
  }
  if (outline) {
    outline.texts += texts
    outline.fields += fields
    outline.depth = Math.max(outline.depth, depth)
    outline.nameBytes = Math.max(outline.nameBytes, nameBytes)
  }
  return true
}

function hashOf(bytes: Uint8Array, first: number, end: number, seed: number): number {
  let hash = seed
  for (let at = first; at < end; at++) {
    const byte = bytes[at]!
    if (byte === backslash) at++
    hash = KeptTable.mix(hash, byte, bytes[at]!)
  }
  return hash
}

/** What so much of a body leaves of so many names and texts, of whatever kind; less than nothing where it has more. */
export function textsLeft(bytes: Uint8Array, from: number, to: number, left: number): number {
  for (let at = bytes.indexOf(quote, from); at >= 0 && at < to && left >= 0; at = bytes.indexOf(quote, at + 1)) {
    left--
    at = endOfText(bytes, at + 1, to)
  }
  return left
}

/** The quote that ends the text in which `at` stands, not behind a backslash. */
function endOfText(bytes: Uint8Array, at: number, to: number): number {
  let slowTo = at
  while (at < to) {
    for (const end = Math.min(to, slowTo); at < end; at++) {
      if (bytes[at] === backslash) at++
      else if (bytes[at] === quote) return at
    }
    const found = bytes.indexOf(quote, at)
    if (found < 0 || found >= to) return to
    let slashes = 0
    while (found - slashes > at && bytes[found - slashes - 1] === backslash) slashes++
    if (slashes % 2 === 0) return found
    at = found + 1
    slowTo = at + slowBytes
  }
  return to
}

function isName(bytes: Uint8Array, at: number, to: number): boolean {
  while (at < to && bytes[at]! <= 0x20) at++
  return at < to && bytes[at] === colon
}
