/**
 * What enters a block's hash besides its tokens: salt, media, adapter. vLLM lists them per block as `extra_keys` in the
 * order adapter name, media items, salt, prompt-embedding digest; Dynamo's own publisher sends `block_mm_infos`.
 */
import type { DecodedBatch } from '../../events/index.js'
import { saltTag } from './event-words.js'
import type { MsgpackCursor } from './msgpack-cursor.js'
import { shape } from './msgpack-cursor.js'
import type { TextCache } from './text-cache.js'

export interface ExtraKeyRules {
  /** Stock vLLM shows a salt bare; Dynamo only trusts tagged ones. */
  readonly acceptsBareSalt: boolean
  /** In the map form (vLLM v0.24 on) media come as pairs, so a bare 64-digit string is a salt and not a picture. */
  readonly isMapForm: boolean
}

/** Returns the bare or tagged strings of block 0 that are no media, joined in order; the caller strips the adapter. */
export function readExtraKeys(
  cursor: MsgpackCursor,
  batch: DecodedBatch,
  event: number,
  texts: TextCache,
  rules: ExtraKeyRules,
  salts: string[],
): boolean {
  salts.length = 0
  if (cursor.readNil()) return true
  const blocks = cursor.readList()
  if (blocks < 0) return false
  for (let block = 0; block < blocks; block++) {
    if (cursor.readNil()) continue
    const count = cursor.readList()
    if (count < 0) return false
    for (let index = 0; index < count; index++) {
      if (!readItem(cursor, batch, event, block, texts, rules, salts)) return false
    }
  }
  return !cursor.fault
}

function readItem(
  cursor: MsgpackCursor,
  batch: DecodedBatch,
  event: number,
  block: number,
  texts: TextCache,
  rules: ExtraKeyRules,
  salts: string[],
): boolean {
  const next = cursor.peek()
  if (next === shape.text) {
    const length = cursor.readRun()
    if (length < 0) return false
    const start = cursor.position
    const isMedia = (!rules.isMapForm || !rules.acceptsBareSalt) && isMediaId(cursor.bytes, start, length)
    if (isMedia) addMedia(cursor.bytes, start, batch, event, block)
    else if (block === 0) salts.push(texts.read(cursor.bytes, start, length))
    cursor.position = start + length
    return true
  }
  if (next !== shape.list) {
    cursor.skip() // integers, floats, booleans, digests of prompt embeddings: no part of our hash
    return !cursor.fault
  }
  const before = cursor.position
  const count = cursor.readList()
  if (count === 2 && cursor.peek() === shape.text) {
    const length = cursor.readRun()
    if (length < 0) return false
    if (isMediaId(cursor.bytes, cursor.position, length)) addMedia(cursor.bytes, cursor.position, batch, event, block)
    else if (rules.acceptsBareSalt) batch.isOpaque[event] = 1
    cursor.position += length
    cursor.skip()
    return !cursor.fault
  }
  cursor.resumeAt(before)
  cursor.skip()
  return !cursor.fault
}

/** `[null | { mm_objects: [{ mm_hash, offsets }] }]`. */
export function readMediaInfos(cursor: MsgpackCursor, batch: DecodedBatch, event: number): boolean {
  if (cursor.readNil()) return true
  const blocks = cursor.readList()
  if (blocks < 0) return false
  dropMedia(batch, event) // wins over what extra_keys said
  for (let block = 0; block < blocks; block++) {
    if (cursor.readNil()) continue
    const pairs = cursor.readMap()
    if (pairs < 0) return false
    for (let pair = 0; pair < pairs; pair++) {
      if (!isKey(cursor, 'mm_objects')) cursor.skip()
      else if (!readMediaObjects(cursor, batch, event, block)) return false
      if (cursor.fault) return false
    }
  }
  return true
}

function readMediaObjects(cursor: MsgpackCursor, batch: DecodedBatch, event: number, block: number): boolean {
  const objects = cursor.readList()
  for (let object = 0; object < objects; object++) {
    const pairs = cursor.readMap()
    if (pairs < 0) return false
    for (let pair = 0; pair < pairs; pair++) {
      if (!isKey(cursor, 'mm_hash')) cursor.skip()
      else if (cursor.peek() === shape.int && cursor.readInt64()) {
        batch.addMedia(event, block, cursor.low, cursor.high)
      } else return false
      if (cursor.fault) return false
    }
  }
  return objects >= 0
}

/** The namespace among the strings of block 0: tagged if there is one, else (stock) the last bare string after the adapter. */
export function chooseSalt(
  salts: readonly string[],
  adapter: string | undefined,
  rules: ExtraKeyRules,
): string | undefined {
  const from = salts[0] !== undefined && salts[0] === adapter ? 1 : 0
  for (let index = from; index < salts.length; index++) {
    const text = salts[index]!
    if (text.startsWith(saltTag)) return text.length > saltTag.length ? text.slice(saltTag.length) : undefined
  }
  return rules.acceptsBareSalt && salts.length > from ? salts.at(-1) || undefined : undefined
}

export function dropMedia(batch: DecodedBatch, event: number): void {
  while (batch.mediaTotal > 0 && batch.mediaEvent[batch.mediaTotal - 1] === event) batch.mediaTotal--
}

function isKey(cursor: MsgpackCursor, name: string): boolean {
  const length = cursor.readRun()
  if (length < 0) {
    cursor.skip()
    return false
  }
  const start = cursor.position
  cursor.position += length
  if (length !== name.length) return false
  for (let index = 0; index < length; index++) if (cursor.bytes[start + index] !== name.charCodeAt(index)) return false
  return true
}

/** Exactly 64 hex digits. */
function isMediaId(bytes: Uint8Array, start: number, length: number): boolean {
  if (length !== 64) return false
  for (let index = 0; index < 64; index++) if (hexValue(bytes[start + index]!) < 0) return false
  return true
}

/** The media hash is the first 16 of the 64 hex digits. */
function addMedia(bytes: Uint8Array, start: number, batch: DecodedBatch, event: number, block: number): void {
  batch.addMedia(event, block, hexWord(bytes, start + 8), hexWord(bytes, start))
}

function hexWord(bytes: Uint8Array, start: number): number {
  let word = 0
  for (let index = 0; index < 8; index++) word = (word << 4) | hexValue(bytes[start + index]!)
  return word >>> 0
}

function hexValue(code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30
  const lower = code | 0x20
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1
}
