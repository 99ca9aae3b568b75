/**
 * The printable alphabet in which byte-level vocabularies spell bytes: GPT-2's table, shared by every byte-level BPE.
 * Printable Latin-1 stands for itself; the other 68 bytes take the characters from U+0100 on, in order.
 */
const printable: readonly (readonly [number, number])[] = [
  [0x21, 0x7e],
  [0xa1, 0xac],
  [0xae, 0xff],
]

/** Byte of an alphabet character, or -1. Indexed by code unit, up to U+0143. */
const byteOfChar: Int16Array = fillTable()

function fillTable(): Int16Array {
  const table = new Int16Array(0x144).fill(-1)
  let next = 0x100
  for (let byte = 0; byte < 256; byte++) {
    const isPrintable = printable.some(([low, high]) => byte >= low && byte <= high)
    table[isPrintable ? byte : next++] = byte
  }
  return table
}

/** The bytes that a byte-level token spells, or undefined when it is not written in the alphabet (an added token, say). */
export function bytesOfByteLevelToken(token: string): Uint8Array | undefined {
  const bytes = new Uint8Array(token.length)
  for (let index = 0; index < token.length; index++) {
    const byte = byteOfChar[token.charCodeAt(index)] ?? -1
    if (byte < 0) return undefined
    bytes[index] = byte
  }
  return bytes
}
