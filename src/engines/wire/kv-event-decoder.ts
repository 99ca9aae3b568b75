/**
 * Decodes KV event batches of every dialect that is in the field: vLLM (arrays until v0.23, maps since), SGLang (arrays
 * until v0.5.18, maps since), TensorRT-LLM's stream and Dynamo's own publishers. The form is taken from each message and
 * never from an engine's name or version, because engines are upgraded under a running router.
 *
 * Total: any bytes give a batch or a reason. An event of an unknown type, or a store that makes no sense, is counted and
 * passed over (the worst it can cost is credit). A removal that cannot be read fails the whole batch: passing it over
 * would leave credit for a block that is gone.
 */
import type { BatchDecoder, DecodedBatch, DecodeReason } from '../../events/index.js'
import { eventKind } from '../../events/index.js'
import { EventReader } from './event-reader.js'
import { field, fieldNames, kindNames, unknownKind } from './event-words.js'
import { MsgpackCursor, shape } from './msgpack-cursor.js'

/**
 * `stock` reads what engines really send. `upstream` accepts exactly what Dynamo's reader accepts: three elements, integer
 * hashes, its list of media, tagged salts only, and one bad event fails its batch.
 */
export type WireDialect = 'stock' | 'upstream'

export class KvEventDecoder implements BatchDecoder {
  readonly #cursor = new MsgpackCursor()
  readonly #reader: EventReader
  readonly #isUpstream: boolean

  constructor(dialect: WireDialect = 'stock') {
    this.#isUpstream = dialect === 'upstream'
    this.#reader = new EventReader(this.#cursor, this.#isUpstream)
  }

  decode(payload: Uint8Array, into: DecodedBatch): DecodeReason | undefined {
    const cursor = this.#cursor
    cursor.open(payload)
    into.reset()
    const isMap = cursor.peek() === shape.map
    if (isMap && !this.#isUpstream) this.#readEnvelopeMap(into)
    else if (cursor.peek() === shape.list) this.#readEnvelopeList(into)
    else cursor.fail('not_a_batch')
    if (!cursor.fault && cursor.position !== cursor.end) cursor.fail('trailing_bytes')
    if (cursor.fault) into.reset()
    return cursor.fault
  }

  /** Only the usual head (a short list that opens with a 64-bit float); anything else has no time worth comparing. */
  timestampOf(payload: Uint8Array): number {
    if (payload.length < 10 || (payload[0]! & 0xf0) !== 0x90 || payload[1] !== 0xcb) return Number.NaN
    for (let index = 0; index < 8; index++) doubleBytes[index] = payload[9 - index]!
    return double[0]!
  }

  /** `[ts, events, rank]`; without the rank before vLLM v0.9.1, perhaps with more one day. */
  #readEnvelopeList(into: DecodedBatch): void {
    const cursor = this.#cursor
    const count = cursor.readList()
    if (cursor.fault) return
    if (count < 2 || (this.#isUpstream && count !== 3)) return cursor.fail('not_a_batch')
    this.#readTimestamp(into)
    this.#readEvents(into)
    if (count > 2) this.#readRank(into)
    for (let index = 3; index < count && !cursor.fault; index++) cursor.skip()
  }

  #readEnvelopeMap(into: DecodedBatch): void {
    const cursor = this.#cursor
    const pairs = cursor.readMap()
    let hasEvents = false
    for (let pair = 0; pair < pairs && !cursor.fault; pair++) {
      const length = cursor.readRun()
      if (length < 0) return cursor.fail('not_a_batch')
      const name = envelopeField(cursor.bytes, cursor.position, length)
      cursor.position += length
      if (name === 'ts') this.#readTimestamp(into)
      else if (name === 'rank') this.#readRank(into)
      else if (name === 'events' && !hasEvents) {
        hasEvents = true
        this.#readEvents(into)
      } else cursor.skip()
    }
    if (!hasEvents) cursor.fail('not_a_batch')
  }

  #readTimestamp(into: DecodedBatch): void {
    into.timestamp = this.#cursor.readNumber()
    if (!Number.isFinite(into.timestamp)) this.#cursor.fail('bad_timestamp')
  }

  /** An i32 whose bits are the u32 rank; nil says nothing. */
  #readRank(into: DecodedBatch): void {
    const cursor = this.#cursor
    if (cursor.readNil()) return
    if (!cursor.readInt64() || (cursor.high !== 0 && (cursor.high !== 0xffff_ffff || cursor.low < 0x8000_0000))) {
      return cursor.fail('bad_rank')
    }
    into.dpRank = cursor.low
  }

  #readEvents(into: DecodedBatch): void {
    const cursor = this.#cursor
    if (cursor.fault) return
    if (cursor.peek() !== shape.list) return cursor.fail('not_a_batch')
    const count = cursor.readList()
    for (let index = 0; index < count && !cursor.fault; index++) this.#readEvent(into)
  }

  #readEvent(into: DecodedBatch): void {
    const cursor = this.#cursor
    const start = cursor.position
    const isMap = cursor.peek() === shape.map
    const kind = isMap ? this.#kindOfMap() : this.#kindOfList()
    if (cursor.fault) return
    if (kind === unknownKind) {
      if (this.#isUpstream) return cursor.fail('unknown_event')
      into.unknownEvents++
      return this.#passOver(start)
    }
    const event = into.open(kind)
    const isGood = isMap ? this.#reader.readMap(into, event) : this.#reader.readList(into, event)
    if (isGood && !cursor.fault) return
    into.abandon(event)
    this.#passOver(start)
    if (cursor.fault) return
    if (kind !== eventKind.stored) return cursor.fail('bad_removal')
    if (this.#isUpstream) return cursor.fail('bad_event')
    into.badEvents++
  }

  #passOver(start: number): void {
    this.#cursor.resumeAt(start)
    this.#cursor.skip()
  }

  /** Publishers write `type` first; when it is not, look for it and come back. Leaves the cursor at the map's head. */
  #kindOfMap(): number {
    const cursor = this.#cursor
    const start = cursor.position
    const pairs = cursor.readMap()
    for (let pair = 0; pair < pairs; pair++) {
      const length = cursor.readRun()
      if (length < 0) break
      const isType = fieldNames.find(cursor.bytes, cursor.position, length) === field.type
      cursor.position += length
      if (isType) {
        const kind = this.#readKind()
        if (!cursor.fault) cursor.position = start
        return kind
      }
      cursor.skip()
      if (cursor.fault) return unknownKind
    }
    cursor.fail('bad_event') // without a type it may have been a removal
    return unknownKind
  }

  #kindOfList(): number {
    const cursor = this.#cursor
    const start = cursor.position
    if (cursor.peek() !== shape.list || cursor.readList() < 1) {
      cursor.fail('bad_event')
      return unknownKind
    }
    const kind = this.#readKind()
    if (!cursor.fault) cursor.position = start
    return kind
  }

  #readKind(): number {
    const cursor = this.#cursor
    const isText = cursor.peek() === shape.text
    const length = isText ? cursor.readRun() : -1
    if (length < 0) {
      cursor.fail('bad_event')
      return unknownKind
    }
    return kindNames.find(cursor.bytes, cursor.position, length)
  }
}

const double = new Float64Array(1)
const doubleBytes = new Uint8Array(double.buffer) // little-endian wherever Node runs

function envelopeField(bytes: Uint8Array, start: number, length: number): 'ts' | 'events' | 'rank' | undefined {
  if (length === 2 && bytes[start] === 0x74 && bytes[start + 1] === 0x73) return 'ts'
  if (length === 6 && bytes[start] === 0x65 && bytes[start + 1] === 0x76) return 'events'
  if (length === 18 && bytes[start] === 0x64 && bytes[start + 1] === 0x61) return 'rank'
  return undefined
}
