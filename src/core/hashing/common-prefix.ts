/**
 * How many leading tokens two prompts share. A conversation's next prompt nearly always starts with the whole previous
 * one, so the question is first asked of everything at once, with the platform's memory comparison where there is one.
 */

/** Spans below this are cheaper to walk than to hand over. */
const walkTokensMax = 256

type CompareBytes = (a: Uint8Array, b: Uint8Array) => number

/** Node's `Buffer.compare` is memcmp: 2 ns per 64 bytes where a loop takes 15 (docs/decisions/0011). It is absent in browsers. */
const compareBytes = (globalThis as { readonly Buffer?: { readonly compare: CompareBytes } }).Buffer?.compare ?? null

/** The first `from` tokens are taken to be equal. */
export function commonPrefix(
  a: Uint32Array,
  b: Uint32Array,
  from = 0,
  compare: CompareBytes | null = compareBytes,
): number {
  const length = Math.min(a.length, b.length)
  if (a === b || from >= length) return length
  // Prompts of different conversations part here, before anything is handed over.
  const first = Math.min(length, from + 16)
  let low = walk(a, b, from, first) // equal below
  if (low < first || compare === null) return walk(a, b, low, length)
  if (isEqual(a, b, low, length, compare)) return length
  let high = length // a difference lies below this
  while (high - low > walkTokensMax) {
    const middle = low + ((high - low) >>> 1)
    if (isEqual(a, b, low, middle, compare)) low = middle
    else high = middle
  }
  return walk(a, b, low, high)
}

function isEqual(a: Uint32Array, b: Uint32Array, from: number, to: number, compare: CompareBytes): boolean {
  return compare(bytesOf(a, from, to), bytesOf(b, from, to)) === 0
}

function bytesOf(tokens: Uint32Array, from: number, to: number): Uint8Array {
  return new Uint8Array(tokens.buffer, tokens.byteOffset + 4 * from, 4 * (to - from))
}

function walk(a: Uint32Array, b: Uint32Array, from: number, to: number): number {
  let at = from
  while (at < to && a[at] === b[at]) at++
  return at
}
