/**
 * Pieces of a tokenizer without a pre-tokenizer. Two neighbouring characters belong to different pieces when no merge joins a
 * token ending in the first to a token beginning with the second: no merge can then ever cross between them. The set of
 * such pairs is read from the merges when the vocabulary is built, so the cuts are proved and not guessed.
 */
import type { Vocabulary } from '../vocabulary/vocabulary.js'
import { canJoin } from '../vocabulary/vocabulary.js'
import { codePointAt, lengthAt } from './scan.js'

/** The end of the piece at `at`. `cutsAtMark` also cuts before every word mark, as Metaspace with `split` does. */
export function nextJoined(
  vocabulary: Vocabulary,
  bytes: Uint8Array,
  at: number,
  end: number,
  cutsAtMark: boolean,
): number {
  const { asciiJoins } = vocabulary
  let before = codePointAt(bytes, at)
  let to = at + lengthAt(bytes, at)
  while (to < end) {
    const byte = bytes[to]!
    if (cutsAtMark && byte === 0x20) return to
    if (byte < 0x80 && before < 0x80) {
      if ((asciiJoins[before * 4 + (byte >>> 5)]! & (1 << (byte & 31))) === 0) return to
      before = byte
      to++
    } else {
      const codePoint = codePointAt(bytes, to)
      if (!canJoin(vocabulary, before, codePoint)) return to
      before = codePoint
      to += lengthAt(bytes, to)
    }
  }
  return to
}
