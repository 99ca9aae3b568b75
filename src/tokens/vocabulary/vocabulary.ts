/**
 * A BPE vocabulary as flat tables inside one shared buffer: every thread reads the same memory, nothing is copied and
 * nothing is a JavaScript object per token.
 *
 *   header       u32[16]: token count, slot masks, section offsets
 *   tokenStart   u32[tokens + 1]   bytes of token `id` are tokenBytes[tokenStart[id] .. tokenStart[id + 1])
 *   tokenSlots   u32[2^k]          open addressing by the hash of the bytes; id + 1, or 0 for empty
 *   mergeSlots   u32[4 * 2^m]      left, right, rank, merged; open addressing by the pair; left 0xffffffff for empty
 *   baseIds      u32[256]          id of a single byte (byte-level) or of its fallback token (sentencepiece-style)
 *   asciiJoins   u32[128 * 4]      bit y of row x: some merge joins a token ending in x to one beginning with y
 *   joinSlots    u32[2 * 2^j]      the same for all other pairs of code points; x + 1, y
 *   tokenBytes   u8[]              sentencepiece-style vocabularies spell the word mark U+2581 as one space
 *   isWhole      u8[tokens]        1: merging the token's own bytes gives the token back, so a piece may take it at once
 *   classes      u8[0x110000]      see char-classes.ts
 *   nfcRisk      u8[0x22000]       one bit per code point: NFC may change a text that has it
 *   cases        u8[0x44000]       two bits per code point: is it a large letter, or a small one?
 */
import { casesBytes, codePointCount, nfcRiskBytes } from './char-classes.js'

export interface Vocabulary {
  readonly buffer: SharedArrayBuffer
  readonly tokenCount: number
  readonly tokenStart: Uint32Array
  readonly tokenSlots: Uint32Array
  readonly tokenMask: number
  readonly mergeSlots: Uint32Array
  readonly mergeMask: number
  readonly baseIds: Uint32Array
  readonly asciiJoins: Uint32Array
  readonly joinSlots: Uint32Array
  readonly joinMask: number
  readonly tokenBytes: Uint8Array
  readonly isWhole: Uint8Array
  readonly classes: Uint8Array
  readonly nfcRisk: Uint8Array
  readonly cases: Uint8Array
}

export const noToken = 0xffff_ffff
const headerWords = 16

export interface VocabularySizes {
  readonly tokenCount: number
  readonly tokenSlotBits: number
  readonly mergeSlotBits: number
  readonly joinSlotBits: number
  readonly tokenByteCount: number
}

/** A new, empty vocabulary of these sizes. */
export function allocateVocabulary(sizes: VocabularySizes): Vocabulary {
  const words =
    headerWords +
    (sizes.tokenCount + 1) +
    2 ** sizes.tokenSlotBits +
    4 * 2 ** sizes.mergeSlotBits +
    256 +
    128 * 4 +
    2 * 2 ** sizes.joinSlotBits
  const ofChars = codePointCount + nfcRiskBytes + casesBytes
  const buffer = new SharedArrayBuffer(words * 4 + sizes.tokenByteCount + sizes.tokenCount + ofChars)
  const { tokenCount, tokenSlotBits, mergeSlotBits, joinSlotBits, tokenByteCount } = sizes
  new Uint32Array(buffer, 0, headerWords).set([tokenCount, tokenSlotBits, mergeSlotBits, joinSlotBits, tokenByteCount])
  const vocabulary = viewVocabulary(buffer)
  vocabulary.mergeSlots.fill(noToken)
  vocabulary.baseIds.fill(noToken)
  return vocabulary
}

/** The views over a buffer that another thread filled. */
export function viewVocabulary(buffer: SharedArrayBuffer): Vocabulary {
  const header = new Uint32Array(buffer, 0, headerWords)
  const [tokenCount, tokenSlotBits, mergeSlotBits, joinSlotBits, tokenByteCount] = header as unknown as number[]
  let offset = headerWords * 4
  const words = (count: number): Uint32Array => {
    const view = new Uint32Array(buffer, offset, count)
    offset += count * 4
    return view
  }
  const bytes = (count: number): Uint8Array => {
    const view = new Uint8Array(buffer, offset, count)
    offset += count
    return view
  }
  return {
    buffer,
    tokenCount: tokenCount!,
    tokenStart: words(tokenCount! + 1),
    tokenSlots: words(2 ** tokenSlotBits!),
    tokenMask: 2 ** tokenSlotBits! - 1,
    mergeSlots: words(4 * 2 ** mergeSlotBits!),
    mergeMask: 2 ** mergeSlotBits! - 1,
    baseIds: words(256),
    asciiJoins: words(128 * 4),
    joinSlots: words(2 * 2 ** joinSlotBits!),
    joinMask: 2 ** joinSlotBits! - 1,
    tokenBytes: bytes(tokenByteCount!),
    isWhole: bytes(tokenCount!),
    classes: bytes(codePointCount),
    nfcRisk: bytes(nfcRiskBytes),
    cases: bytes(casesBytes),
  }
}

/** Hash of a run of bytes; FNV-1a with a final mix, because the slots take its low bits. */
export function hashBytes(bytes: Uint8Array, from: number, to: number): number {
  let hash = 0x811c_9dc5
  for (let index = from; index < to; index++) hash = Math.imul(hash ^ bytes[index]!, 0x0100_0193)
  hash ^= hash >>> 15
  hash = Math.imul(hash, 0x2c1b_3c6d)
  return (hash ^ (hash >>> 13)) >>> 0
}

/** The token that is exactly these bytes, or `noToken`. `hash` is theirs by `hashBytes`. */
export function findToken(vocabulary: Vocabulary, bytes: Uint8Array, from: number, to: number, hash: number): number {
  const { tokenSlots, tokenMask, tokenStart, tokenBytes } = vocabulary
  const length = to - from
  for (let slot = hash & tokenMask; ; slot = (slot + 1) & tokenMask) {
    const entry = tokenSlots[slot]!
    if (entry === 0) return noToken
    const start = tokenStart[entry - 1]!
    if (tokenStart[entry]! - start !== length) continue
    let index = 0
    while (index < length && tokenBytes[start + index] === bytes[from + index]) index++
    if (index === length) return entry - 1
  }
}

/** Slot of the merge of two tokens in `mergeSlots` (rank at +2, result at +3), or -1. */
export function findMerge(mergeSlots: Uint32Array, mergeMask: number, left: number, right: number): number {
  for (let slot = hashPair(left, right) & mergeMask; ; slot = (slot + 1) & mergeMask) {
    const at = slot * 4
    const found = mergeSlots[at]!
    if (found === left && mergeSlots[at + 1] === right) return at
    if (found === noToken) return -1
  }
}

export function hashPair(left: number, right: number): number {
  let hash = Math.imul(left, 0x9e37_79b1) ^ Math.imul(right + 0x7f4a_7c15, 0x85eb_ca6b)
  hash ^= hash >>> 15
  return Math.imul(hash, 0x2c1b_3c6d) >>> 7
}

/** Whether some merge joins a token that ends in code point `x` to one that begins with `y`. If none does, a text may be cut there. */
export function canJoin(vocabulary: Vocabulary, x: number, y: number): boolean {
  if (x < 128 && y < 128) return (vocabulary.asciiJoins[x * 4 + (y >>> 5)]! & (1 << (y & 31))) !== 0
  const { joinSlots, joinMask } = vocabulary
  for (let slot = hashPair(x, y) & joinMask; ; slot = (slot + 1) & joinMask) {
    const found = joinSlots[slot * 2]!
    if (found === 0) return false
    if (found === x + 1 && joinSlots[slot * 2 + 1] === y) return true
  }
}
