/** Turns the model of a `tokenizer.json` into flat tables. Runs once per tokenizer, in a thread: it takes about a second. */
import { Merger } from '../encode/merge.js'
import { bytesOfByteLevelToken } from './byte-alphabet.js'
import { fillCharTables } from './char-classes.js'
import type { EncoderPlan } from './plan.js'
import type { ModelEntry } from './tokenizer-file.js'
import type { Vocabulary } from './vocabulary.js'
import { allocateVocabulary, findToken, hashBytes, hashPair, noToken } from './vocabulary.js'

const encoder = new TextEncoder()

/** The vocabulary, or the reason why this model needs the library. */
export function buildVocabulary(model: ModelEntry, kind: EncoderPlan['kind']): Vocabulary | string {
  const entries = Object.entries(model.vocab)
  for (const [token, id] of entries) if (!isId(id)) throw new Error(`the token ${token} has the id ${String(id)}`)
  const spelled = spellTokens(entries, kind)
  const merges = readMerges(model)
  const tokenCount = entries.reduce((most, [, id]) => Math.max(most, id + 1), 0)
  const vocabulary = allocateVocabulary({
    tokenCount,
    tokenSlotBits: slotBits(entries.length),
    mergeSlotBits: slotBits(merges.length),
    joinSlotBits: kind === 'sentencepiece' ? slotBits(merges.length) : 1,
    tokenByteCount: spelled.reduce((sum, bytes) => sum + (bytes?.length ?? 0), 0),
  })
  placeTokens(vocabulary, spelled)
  const missing = placeBaseIds(vocabulary, model, kind)
  if (missing) return missing
  placeMerges(vocabulary, merges)
  if (kind === 'sentencepiece') {
    const crossing = placeJoins(vocabulary, merges, model)
    if (crossing) return crossing
  }
  fillCharTables(vocabulary)
  markWholeTokens(vocabulary, kind)
  return vocabulary
}

/** Far more than any model has; the tables have a place for each. */
const idsMax = 1 << 24

function isId(id: number): boolean {
  return Number.isInteger(id) && id >= 0 && id < idsMax
}

interface MergeEntry {
  readonly left: string
  readonly right: string
  readonly leftId: number
  readonly rightId: number
  readonly mergedId: number
}

function readMerges(model: ModelEntry): MergeEntry[] {
  const { vocab } = model
  return (model.merges ?? []).map((entry) => {
    const [left, right] = typeof entry === 'string' ? (entry.split(' ') as [string, string]) : entry
    const leftId = vocab[left] ?? noToken
    const rightId = vocab[right] ?? noToken
    return { left, right, leftId, rightId, mergedId: vocab[left + right] ?? noToken }
  })
}

function spellTokens(entries: readonly (readonly [string, number])[], kind: EncoderPlan['kind']): Uint8Array[] {
  const spelled: Uint8Array[] = []
  for (const [token, id] of entries) {
    const bytes = kind === 'byte-level' ? bytesOfByteLevelToken(token) : spellSentencepiece(token)
    if (bytes) spelled[id] = bytes
  }
  return spelled
}

/** Texts reach us with spaces where the vocabulary has marks, so the mark is spelled as a space; a token with a real one is never met. */
function spellSentencepiece(token: string): Uint8Array | undefined {
  return token.includes(' ') ? undefined : encoder.encode(token.replaceAll('▁', ' '))
}

function placeTokens(vocabulary: Vocabulary, spelled: readonly (Uint8Array | undefined)[]): void {
  const { tokenStart, tokenBytes, tokenSlots, tokenMask, tokenCount } = vocabulary
  let offset = 0
  for (let id = 0; id < tokenCount; id++) {
    tokenStart[id] = offset
    const bytes = spelled[id]
    if (!bytes) continue
    tokenBytes.set(bytes, offset)
    offset += bytes.length
  }
  tokenStart[tokenCount] = offset
  for (let id = 0; id < tokenCount; id++) {
    const from = tokenStart[id]!
    const to = tokenStart[id + 1]!
    if (from === to) continue
    let slot = hashBytes(tokenBytes, from, to) & tokenMask
    while (tokenSlots[slot] !== 0) slot = (slot + 1) & tokenMask
    tokenSlots[slot] = id + 1
  }
}

function placeBaseIds(vocabulary: Vocabulary, model: ModelEntry, kind: EncoderPlan['kind']): string | undefined {
  // It is spelled as a blank here, whose byte is another.
  if (kind === 'sentencepiece' && model.vocab['▁'] === undefined) return 'no token for a word mark'
  const one = new Uint8Array(1)
  for (let byte = 0; byte < 256; byte++) {
    one[0] = byte
    const name = `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`
    const itself = findToken(vocabulary, one, 0, 1, hashBytes(one, 0, 1))
    const id = kind === 'byte-level' ? itself : (model.vocab[name] ?? noToken)
    const isNeeded = kind === 'byte-level' || byte >= 0x80 || itself === noToken // Gemma's tabs are tokens, and no bytes
    if (id === noToken && isNeeded) return `no token for byte ${byte}`
    vocabulary.baseIds[byte] = id
  }
  return undefined
}

function placeMerges(vocabulary: Vocabulary, merges: readonly MergeEntry[]): void {
  const { mergeSlots, mergeMask } = vocabulary
  for (const [rank, { leftId, rightId, mergedId }] of merges.entries()) {
    if (leftId === noToken || rightId === noToken || mergedId === noToken) continue
    let slot = hashPair(leftId, rightId) & mergeMask
    // A pair that is listed twice keeps its last rank, as a map filled in order does.
    while (
      mergeSlots[slot * 4] !== noToken &&
      !(mergeSlots[slot * 4] === leftId && mergeSlots[slot * 4 + 1] === rightId)
    ) {
      slot = (slot + 1) & mergeMask
    }
    mergeSlots.set([leftId, rightId, rank, mergedId], slot * 4)
  }
}

/** Records at which pairs of code points a merge can join: everywhere else a text may be cut, and that is the proof. */
function placeJoins(vocabulary: Vocabulary, merges: readonly MergeEntry[], model: ModelEntry): string | undefined {
  const fallbacks = new Set(vocabulary.baseIds)
  const { asciiJoins, joinSlots, joinMask } = vocabulary
  const { vocab } = model
  for (const { left, right, leftId, rightId } of merges) {
    if (fallbacks.has(leftId) || fallbacks.has(rightId)) return 'merges of byte fallback tokens'
    if (vocab[left + right] === undefined) continue
    const x = lastCodePoint(left)
    const y = right.codePointAt(0)!
    const ends = x === 0x2581 ? 0x20 : x
    const begins = y === 0x2581 ? 0x20 : y
    if (ends < 128 && begins < 128) {
      asciiJoins[ends * 4 + (begins >>> 5)]! |= 1 << (begins & 31)
      continue
    }
    let slot = hashPair(ends, begins) & joinMask
    while (joinSlots[slot * 2] !== 0 && !(joinSlots[slot * 2] === ends + 1 && joinSlots[slot * 2 + 1] === begins)) {
      slot = (slot + 1) & joinMask
    }
    joinSlots[slot * 2] = ends + 1
    joinSlots[slot * 2 + 1] = begins
  }
  return undefined
}

function lastCodePoint(text: string): number {
  const unit = text.charCodeAt(text.length - 1)
  return unit >= 0xdc00 && unit <= 0xdfff && text.length > 1 ? text.codePointAt(text.length - 2)! : unit
}

function markWholeTokens(vocabulary: Vocabulary, kind: EncoderPlan['kind']): void {
  const merger = new Merger(vocabulary)
  const { tokenStart, tokenBytes, tokenCount, isWhole } = vocabulary
  for (let id = 0; id < tokenCount; id++) {
    const from = tokenStart[id]!
    const to = tokenStart[id + 1]!
    if (from === to) continue
    const count = writeSymbols(vocabulary, kind, merger, tokenBytes, from, to)
    isWhole[id] = merger.merge(count) === 1 ? 1 : 0 // no other token has the same bytes
  }
}

/** Writes the symbols that merging starts from: bytes, or characters with bytes for those that the vocabulary lacks. */
export function writeSymbols(
  vocabulary: Vocabulary,
  kind: EncoderPlan['kind'],
  merger: Merger,
  bytes: Uint8Array,
  from: number,
  to: number,
): number {
  merger.reserve(to - from)
  const { symbols } = merger
  const { baseIds } = vocabulary
  if (kind === 'byte-level') {
    for (let index = from; index < to; index++) symbols[index - from] = baseIds[bytes[index]!]!
    return to - from
  }
  let count = 0
  for (let index = from; index < to; ) {
    const lead = bytes[index]!
    const next = Math.min(to, index + (lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4))
    const id = findToken(vocabulary, bytes, index, next, hashBytes(bytes, index, next))
    if (id !== noToken) symbols[count++] = id
    else for (let at = index; at < next; at++) symbols[count++] = baseIds[bytes[at]!]!
    index = next
  }
  return count
}

/** Slots for `count` entries, at most two thirds full. */
function slotBits(count: number): number {
  return Math.max(4, Math.ceil(Math.log2(count * 1.5 + 1)))
}
