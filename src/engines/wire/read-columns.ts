/** The two hot loops of decoding: block hashes and token ids, from MessagePack straight into columns. */
import type { DecodedBatch } from '../../events/index.js'
import type { MsgpackCursor } from './msgpack-cursor.js'
import { shape } from './msgpack-cursor.js'

/** A list of block hashes. False: some item is no hash (the cursor has a fault or stands on that item). */
export function readHashes(cursor: MsgpackCursor, batch: DecodedBatch, event: number, acceptsBytes: boolean): boolean {
  const count = cursor.readList()
  if (count < 0) return false
  batch.hashTotal = batch.hashStart[event]! // a repeated key replaces what the first one put
  batch.reserveHashes(count)
  const { bytes, end, view } = cursor
  const { hashes } = batch
  let position = cursor.position
  let out = 2 * batch.hashTotal
  for (let index = 0; index < count; index++) {
    const head = bytes[position]
    if ((head === 0xcf || head === 0xd3) && position + 9 <= end) {
      hashes[out + 1] = view.getUint32(position + 1)
      hashes[out] = view.getUint32(position + 5)
      position += 9
    } else {
      cursor.position = position
      if (!readHash(cursor, acceptsBytes)) return false
      hashes[out] = cursor.low
      hashes[out + 1] = cursor.high
      position = cursor.position
    }
    out += 2
  }
  cursor.position = position
  batch.hashTotal += count
  batch.hashCount[event] = count
  return true
}

/** One hash into `cursor.low` and `cursor.high`. A byte string counts by its last eight bytes, which equal the integer form. */
export function readHash(cursor: MsgpackCursor, acceptsBytes: boolean): boolean {
  const next = cursor.peek()
  if (next === shape.int) return cursor.readInt64()
  if (!acceptsBytes || (next !== shape.bytes && next !== shape.text)) return false
  const length = cursor.readRun()
  if (length < 8) return false
  const tail = cursor.position + length - 8
  const { bytes } = cursor
  cursor.high = ((bytes[tail]! << 24) | (bytes[tail + 1]! << 16) | (bytes[tail + 2]! << 8) | bytes[tail + 3]!) >>> 0
  cursor.low = ((bytes[tail + 4]! << 24) | (bytes[tail + 5]! << 16) | (bytes[tail + 6]! << 8) | bytes[tail + 7]!) >>> 0
  cursor.position += length
  return true
}

/** Token ids, or `[a, b]` pairs, which flatten to every first member and the last second one. */
export function readTokens(cursor: MsgpackCursor, batch: DecodedBatch, event: number): boolean {
  const count = cursor.readList()
  if (count < 0) return false
  batch.tokenTotal = batch.tokenStart[event]!
  batch.reserveTokens(count + 1)
  const isPairs = count > 0 && cursor.peek() === shape.list
  const written = isPairs ? readPairs(cursor, batch, count) : readPlainTokens(cursor, batch, count)
  if (written < 0) return false
  batch.isEagle[event] = isPairs ? 1 : 0
  batch.tokenCount[event] = written
  batch.tokenTotal += written
  return true
}

/**
 * Ids below and above 65,536 alternate in a large vocabulary without a pattern, so one branch for each width is guessed
 * wrong half of the time: 125 ns for 16 tokens against 57 with the width computed instead.
 */
function readPlainTokens(cursor: MsgpackCursor, batch: DecodedBatch, count: number): number {
  const { bytes, view } = cursor
  const { tokens } = batch
  const safe = cursor.end - 5
  let position = cursor.position
  let out = batch.tokenTotal
  const stop = out + count
  while (out < stop) {
    const head = position <= safe ? bytes[position]! : 0xc1
    const isWide = head - 0xcd // 0 for a u16, 1 for a u32
    if (isWide >>> 1 === 0) {
      tokens[out++] = view.getUint32(position + 1) >>> (16 - (isWide << 4))
      position += 3 + (isWide << 1)
    } else if (head < 0x80) {
      tokens[out++] = head
      position++
    } else {
      cursor.position = position
      const token = cursor.readU32()
      if (token < 0) return -1
      tokens[out++] = token
      position = cursor.position
    }
  }
  cursor.position = position
  return count
}

function readPairs(cursor: MsgpackCursor, batch: DecodedBatch, count: number): number {
  let second = 0
  for (let index = 0; index < count; index++) {
    if (cursor.readList() !== 2) return -1
    const first = cursor.readU32()
    second = cursor.readU32()
    if (first < 0 || second < 0) return -1
    batch.tokens[batch.tokenTotal + index] = first
  }
  batch.tokens[batch.tokenTotal + count] = second
  return count + 1
}
