/** The fields of one event, by name (map form) or by position (array form), into the row that the decoder opened. */
import type { DecodedBatch } from '../../events/index.js'
import { attentionCode, eventKind, localityCode, ownershipCode } from '../../events/index.js'
import type { WordTable } from './event-words.js'
import {
  attentionNames,
  field,
  fieldNames,
  localityNames,
  ownershipNames,
  stockMediumNames,
  upstreamMediumNames,
} from './event-words.js'
import type { MsgpackCursor } from './msgpack-cursor.js'
import { shape } from './msgpack-cursor.js'
import { readHash, readHashes, readTokens } from './read-columns.js'
import type { ExtraKeyRules } from './read-extra-keys.js'
import { chooseSalt, dropMedia, readExtraKeys, readMediaInfos } from './read-extra-keys.js'
import { TextCache } from './text-cache.js'

const required = { hashes: 1, tokens: 2, size: 4, store: 7 } as const
const tailEntriesMax = 5

export class EventReader {
  readonly #cursor: MsgpackCursor
  readonly #acceptsBytes: boolean
  readonly #isUpstream: boolean
  readonly #media: WordTable
  readonly #mapRules: ExtraKeyRules
  readonly #listRules: ExtraKeyRules
  readonly #texts = new TextCache()
  readonly #adapterIds = new Map<number, string>()
  readonly #bareTexts: string[] = []
  #seen = 0
  #salt: string | undefined
  #hasMediaInfos = false

  constructor(cursor: MsgpackCursor, isUpstream: boolean) {
    this.#cursor = cursor
    this.#isUpstream = isUpstream
    this.#acceptsBytes = !isUpstream
    this.#media = isUpstream ? upstreamMediumNames : stockMediumNames
    this.#mapRules = { acceptsBareSalt: !isUpstream, isMapForm: true }
    this.#listRules = { acceptsBareSalt: !isUpstream, isMapForm: false }
  }

  readMap(batch: DecodedBatch, event: number): boolean {
    const cursor = this.#cursor
    this.#begin()
    const pairs = cursor.readMap()
    for (let pair = 0; pair < pairs; pair++) {
      const length = cursor.readRun()
      if (length < 0) return false
      const name = fieldNames.find(cursor.bytes, cursor.position, length)
      cursor.position += length
      if (!this.#readField(name, batch, event, this.#mapRules) || cursor.fault) return false
    }
    return this.#finish(batch, event, this.#mapRules)
  }

  readList(batch: DecodedBatch, event: number): boolean {
    const cursor = this.#cursor
    this.#begin()
    const count = cursor.readList()
    cursor.skip() // the tag
    const kind = batch.kind[event]!
    const order = kind === eventKind.stored ? storedOrder : kind === eventKind.removed ? removedOrder : clearedOrder
    const named = Math.min(count - 1, order.length)
    for (let index = 0; index < named; index++) {
      // SGLang v0.5.18 puts a map with the salt where vLLM has the adapter's name.
      const isMetadata = order[index] === field.adapterName && cursor.peek() === shape.map
      const isGood = isMetadata
        ? this.#readMetadata(batch, event)
        : this.#readField(order[index]!, batch, event, this.#listRules)
      if (!isGood || cursor.fault) return false
    }
    if (count - 1 > order.length && !this.#readTail(batch, event, count - 1 - order.length)) return false
    return this.#finish(batch, event, this.#listRules)
  }

  #begin(): void {
    this.#seen = 0
    this.#salt = undefined
    this.#hasMediaInfos = false
    this.#bareTexts.length = 0
  }

  #finish(batch: DecodedBatch, event: number, rules: ExtraKeyRules): boolean {
    if (this.#cursor.fault) return false
    const kind = batch.kind[event]!
    if (kind === eventKind.removed) return (this.#seen & required.hashes) !== 0
    if (kind !== eventKind.stored) return true
    batch.namespace[event] = this.#salt || chooseSalt(this.#bareTexts, batch.adapter[event], rules)
    return this.#seen === required.store
  }

  /** False: the value is not what this field may hold. */
  #readField(name: number, batch: DecodedBatch, event: number, rules: ExtraKeyRules): boolean {
    const cursor = this.#cursor
    switch (name) {
      case field.blockHashes:
        this.#seen |= required.hashes
        return readHashes(cursor, batch, event, this.#acceptsBytes)
      case field.tokenIds:
        this.#seen |= required.tokens
        return readTokens(cursor, batch, event)
      case field.blockSize: {
        this.#seen |= required.size
        const size = cursor.readU32()
        batch.blockSize[event] = Math.max(0, size)
        return size >= 0
      }
      case field.parent:
        return this.#readParent(batch, event)
      case field.medium:
        return this.#readWord(batch.tier, event, this.#media, 0)
      case field.attention:
        return this.#readWord(batch.attention, event, attentionNames, attentionCode.absent)
      case field.locality:
        return this.#readWord(batch.locality, event, localityNames, localityCode.local)
      case field.ownership:
        return this.#readWord(batch.ownership, event, ownershipNames, ownershipCode.framework)
      case field.group:
        return this.#readGroup(batch, event)
      case field.adapterName: {
        if (cursor.readNil()) return true
        const text = this.#readText()
        if (text) batch.adapter[event] = text
        return text !== undefined
      }
      case field.adapterId:
        return this.#readAdapterId(batch, event)
      case field.salt: {
        if (cursor.readNil()) return true
        this.#salt = this.#readText()
        return this.#salt !== undefined
      }
      case field.session:
        if (cursor.peek() !== shape.text) cursor.skip()
        else batch.session[event] = this.#readText()
        return true
      case field.extraKeys: {
        const mediaBefore = batch.mediaTotal
        if (!this.#hasMediaInfos) dropMedia(batch, event)
        if (!readExtraKeys(cursor, batch, event, this.#texts, rules, this.#bareTexts)) return false
        if (this.#hasMediaInfos) batch.mediaTotal = mediaBefore
        return true
      }
      case field.mediaInfos:
        this.#hasMediaInfos = true
        return readMediaInfos(cursor, batch, event)
      default:
        cursor.skip()
        return true
    }
  }

  #readParent(batch: DecodedBatch, event: number): boolean {
    const cursor = this.#cursor
    if (cursor.readNil()) {
      batch.hasParent[event] = 0
      return true
    }
    if (!readHash(cursor, this.#acceptsBytes)) return false
    batch.hasParent[event] = 1
    batch.parents[2 * event] = cursor.low
    batch.parents[2 * event + 1] = cursor.high
    return true
  }

  #readWord(column: Uint8Array, event: number, words: WordTable, absent: number): boolean {
    const cursor = this.#cursor
    if (cursor.readNil()) {
      column[event] = absent
      return true
    }
    if (cursor.peek() !== shape.text) return false
    const length = cursor.readRun()
    if (length < 0) return false
    column[event] = words.find(cursor.bytes, cursor.position, length)
    cursor.position += length
    return true
  }

  #readGroup(batch: DecodedBatch, event: number): boolean {
    if (this.#cursor.readNil()) return true
    const group = this.#cursor.readU32()
    if (group < 0 || group >= 2 ** 31) return false
    batch.group[event] = group
    return true
  }

  /** Before vLLM v0.14 an adapter has a number and no name: keep it apart from the base model under a name no request carries. */
  #readAdapterId(batch: DecodedBatch, event: number): boolean {
    const id = this.#isUpstream ? -1 : this.#cursor.readU32()
    if (id < 0) {
      this.#cursor.skip()
      return true
    }
    let name = this.#adapterIds.get(id)
    if (name === undefined) {
      name = `lora_id:${id}`
      if (this.#adapterIds.size < 1024) this.#adapterIds.set(id, name)
    }
    batch.adapter[event] ??= name
    return true
  }

  #readText(): string | undefined {
    const cursor = this.#cursor
    if (cursor.peek() !== shape.text) return undefined
    const length = cursor.readRun()
    if (length < 0) return undefined
    const text = this.#texts.read(cursor.bytes, cursor.position, length)
    cursor.position += length
    return text
  }

  #readMetadata(batch: DecodedBatch, event: number): boolean {
    const cursor = this.#cursor
    const pairs = cursor.readMap()
    for (let pair = 0; pair < pairs && !cursor.fault; pair++) {
      const length = cursor.readRun()
      if (length < 0) return false
      const name = fieldNames.find(cursor.bytes, cursor.position, length)
      cursor.position += length
      if (name !== field.salt && name !== field.session) cursor.skip()
      else if (!this.#readField(name, batch, event, this.#listRules)) return false
    }
    return !cursor.fault
  }

  /**
   * What follows the fixed positions. With four or more entries of fitting types: group, kind, window, locality, ownership.
   * Otherwise by type: first unsigned is the group, a text the kind, a list the media; the rest means nothing.
   */
  #readTail(batch: DecodedBatch, event: number, entries: number): boolean {
    const cursor = this.#cursor
    const start = cursor.position
    const read = Math.min(entries, tailEntriesMax)
    let isFixed = read >= 4
    for (let index = 0; index < read && isFixed; index++) {
      const next = cursor.peek()
      const fits = next === shape.nil || (tailIsText[index] ? next === shape.text : cursor.readU32() >= 0)
      isFixed = fits
      if (fits && (next === shape.nil || tailIsText[index])) cursor.skip()
    }
    if (cursor.fault) return false
    cursor.position = start
    for (let index = 0; index < read; index++) {
      const isGood = isFixed ? this.#readFixedEntry(index, batch, event) : this.#readLooseEntry(batch, event)
      if (!isGood || cursor.fault) return false
    }
    for (let index = read; index < entries && !cursor.fault; index++) cursor.skip()
    return !cursor.fault
  }

  #readFixedEntry(index: number, batch: DecodedBatch, event: number): boolean {
    if (index !== 2) return this.#readField(fixedTail[index]!, batch, event, this.#listRules)
    this.#cursor.skip() // the sliding window's length
    return true
  }

  #readLooseEntry(batch: DecodedBatch, event: number): boolean {
    const cursor = this.#cursor
    switch (cursor.peek()) {
      case shape.text:
        return this.#readWord(batch.attention, event, attentionNames, attentionCode.absent)
      case shape.list:
        this.#hasMediaInfos = true
        if (batch.kind[event] === eventKind.stored) return readMediaInfos(cursor, batch, event)
        cursor.skip()
        return true
      default: {
        const value = cursor.readU32()
        if (value < 0) cursor.skip()
        else if (batch.group[event] === -1 && value < 2 ** 31) batch.group[event] = value
        return true
      }
    }
  }
}

const storedOrder: readonly number[] = [
  field.blockHashes,
  field.parent,
  field.tokenIds,
  field.blockSize,
  field.adapterId,
  field.medium,
  field.adapterName,
  field.extraKeys,
]
const removedOrder: readonly number[] = [field.blockHashes, field.medium]
const clearedOrder: readonly number[] = [field.ownership]
const tailIsText: readonly boolean[] = [false, true, false, true, true]
const fixedTail: readonly number[] = [field.group, field.attention, 0, field.locality, field.ownership]
