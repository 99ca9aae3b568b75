/**
 * What engines do not know of Unicode. Their regular expressions are of version 16 and their normaliser is of version 9, while ours follow
 * Node: a character that came later is nothing in particular to them. A test goes through all code points and finds what is missing here.
 */
import { hasLongMarkRun, orderMarks } from './mark-order.js'

/** Assigned since version 16: in no class. */
const laterThanClasses = `
  88f c5c cdc 1acf-1add 1ae0-1aeb 20c1 2b96 a7ce-a7cf a7d2 a7d4 a7f1 fbc3-fbd2 fd90-fd91 fdc8-fdce 10940-10959 10ec5-10ec7
  10ed0-10ed8 10efa-10efb 11b60-11b67 11db0-11ddb 11de0-11de9 16ea0-16eb8 16ebb-16ed3 16ff2-16ff6 187f8-187ff 18d09-18d1e
  18d80-18df2 1ccfa-1ccfc 1ceba-1ced0 1cee0-1cef0 1e6c0-1e6de 1e6e0-1e6f5 1e6fe-1e6ff 1f6d8 1f777-1f77a 1f8d0-1f8d8
  1fa54-1fa57 1fa8a 1fa8e 1fac8 1facd 1faea 1faef 1fbfa 2b73a-2b73f 2cea2-2cead 323b0-33479`

/** Marks, and what composes, since version 9: they stay where they are and as they are. */
const laterThanNfc = `
  7fd 897-89f 8ca-8d3 9fe c3c d3b-d3c eba 1715 1abf-1add 1ae0-1aeb 1df6-1dfa a82c 105d2 105da 10d24-10d27 10d69-10d6d
  10eab-10eac 10efa-10efb 10efd-10eff 10f46-10f50 10f82-10f85 11070 1133b 11382 11384 1138b 11390 113b8 113bb 113c2 113c9
  113ce-113d0 1145e 11839-1183a 11930 11935 1193d-1193e 11943 119e0 11a34 11a47 11a99 11d42 11d44-11d45 11d97 11f41-11f42
  1611e-16120 16129 1612f 16d63 16d67 16ff0-16ff1 1e08f 1e130-1e136 1e2ae 1e2ec-1e2ef 1e4ec-1e4ef 1e5ee-1e5ef 1e6e3 1e6e6
  1e6ee-1e6ef 1e6f5`

/** Small letters that have no case any more since version 17. */
export const littleOfEngines: ReadonlySet<number> = new Set([0x295])

/** First and last code points of what is in no class. */
export const unclassedRanges: readonly (readonly [number, number])[] = rangesOf(laterThanClasses)

const unknownToNfc = rangesOf(laterThanNfc)
const escapes = unknownToNfc.map(([first, last]) => `\\u{${first.toString(16)}}-\\u{${last.toString(16)}}`)
const knownRuns = new RegExp(`[^${escapes.join('')}]+`, 'gu')
/** 1 for code units that such a character begins with. */
const beginsUnknown = new Uint8Array(0x1_0000)
for (const [first, last] of unknownToNfc)
  for (let codePoint = first; codePoint <= last; codePoint++)
    beginsUnknown[String.fromCodePoint(codePoint).charCodeAt(0)] = 1

/** The normal form that engines make. */
export function toNfc(text: string): string {
  const normalize = hasLongMarkRun(text)
    ? (run: string): string => orderMarks(run).normalize('NFC')
    : (run: string): string => run.normalize('NFC')
  return mayHoldUnknown(text) ? text.replaceAll(knownRuns, normalize) : normalize(text)
}

/** A loop: the regular expression takes ten times as long as normalising. */
function mayHoldUnknown(text: string): boolean {
  for (let index = 0; index < text.length; index++) if (beginsUnknown[text.charCodeAt(index)] === 1) return true
  return false
}

function rangesOf(list: string): [number, number][] {
  return list
    .trim()
    .split(/\s+/)
    .map((range) => {
      const [first, last = first] = range.split('-') as [string, string?]
      return [Number.parseInt(first, 16), Number.parseInt(last, 16)]
    })
}
