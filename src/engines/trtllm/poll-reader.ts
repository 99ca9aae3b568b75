/**
 * TensorRT-LLM's polled events (`POST /kv_cache_events`, which drains: there must be one poller). JSON with integers up to
 * 64 bits, an id per rank that must not skip, partial blocks that are announced and must be kept out, and several
 * attention windows of which only the largest decides a prefix hit.
 */
import type { JsonObject, JsonValue } from '../../core/protocol/index.js'
import { parseLosslessJson } from '../../core/protocol/index.js'
import type { BatchDecoder, DecodedBatch, DecodeReason } from '../../events/index.js'
import { eventKind, tierCode } from '../../events/index.js'

const withheldMax = 1_048_576

/** The decoder of one rank's poll stream: it remembers ids, so it sees every reply, in order, and serves one feed. */
export class TrtllmPollReader implements BatchDecoder {
  readonly #texts = new TextDecoder()
  readonly #blockSize: number
  readonly #dpRank: number
  /** Partial blocks that were never stored; their removal is not news either. */
  readonly #withheld = new Set<bigint>()
  #lastId: number | undefined
  #window = 0

  constructor(options: { readonly blockSize: number; readonly dpRank: number }) {
    this.#blockSize = options.blockSize
    this.#dpRank = options.dpRank
  }

  decode(payload: Uint8Array, into: DecodedBatch): DecodeReason | undefined {
    into.reset()
    into.dpRank = this.#dpRank
    const reason = this.#read(payload, into)
    if (reason) {
      into.reset()
      this.#withheld.clear()
    }
    return reason
  }

  /** Polled replies carry no time of their own. */
  timestampOf(): number {
    return Number.NaN
  }

  #read(payload: Uint8Array, into: DecodedBatch): DecodeReason | undefined {
    let items: JsonValue
    try {
      items = parseLosslessJson(this.#texts.decode(payload))
    } catch {
      return 'bad_json'
    }
    if (!Array.isArray(items)) return 'not_a_batch'
    let hasGap = false
    for (const item of items) {
      const event = asObject(item)
      const id = asNumber(event?.['event_id'])
      if (!event || id === undefined) return 'bad_event'
      if ((asNumber(event['attention_dp_rank']) ?? this.#dpRank) !== this.#dpRank) continue
      if (this.#lastId !== undefined && id !== this.#lastId + 1) hasGap = true
      this.#lastId = id
      this.#readEvent(event, into)
    }
    return hasGap ? 'lost_events' : undefined
  }

  #readEvent(event: JsonObject, into: DecodedBatch): void {
    const window = asNumber(event['window_size']) ?? 0
    if (window < this.#window) return
    this.#window = window
    const data = asObject(event['data'])
    const type = data?.['type']
    if (data && type === 'stored') this.#stored(data, into)
    else if (data && type === 'removed') this.#removed(data, into)
    else if (data && type === 'updated') this.#updated(data, into)
    else if (type !== 'created') into.unknownEvents++
  }

  /** Full blocks, one run per tier; a partial block ends the chain. */
  #stored(data: JsonObject, into: DecodedBatch): void {
    let parent = asHash(data['parent_hash'])
    let open = -1
    let openTier = -1
    for (const value of asArray(data['blocks'])) {
      const block = asObject(value)
      const hash = asHash(block?.['block_hash'])
      if (!block || hash === undefined) {
        into.badEvents++
        return
      }
      const tokens = asArray(block['tokens'])
      if (tokens.length < this.#blockSize) {
        if (this.#withheld.size < withheldMax) this.#withheld.add(hash)
        return
      }
      const tier = asNumber(block['cache_level']) === 1 ? tierCode.hostPinned : tierCode.device
      if (tier !== openTier) {
        open = into.open(eventKind.stored)
        openTier = tier
        into.tier[open] = tier
        into.blockSize[open] = this.#blockSize
        if (parent !== undefined) {
          into.hasParent[open] = 1
          put(into.parents, open, parent)
        }
      }
      this.#append(into, open, hash, tokens)
      parent = hash
    }
  }

  #append(into: DecodedBatch, event: number, hash: bigint, tokens: readonly JsonValue[]): void {
    into.reserveHashes(1)
    put(into.hashes, into.hashTotal++, hash)
    into.hashCount[event]!++
    into.reserveTokens(this.#blockSize)
    for (let index = 0; index < this.#blockSize; index++) {
      into.tokens[into.tokenTotal++] = asNumber(asObject(tokens[index])?.['token_id']) ?? 0
    }
    into.tokenCount[event]! += this.#blockSize
  }

  #removed(data: JsonObject, into: DecodedBatch): void {
    const event = into.open(eventKind.removed)
    for (const value of asArray(data['block_hashes'])) {
      const hash = asHash(value)
      if (hash === undefined || this.#withheld.delete(hash)) continue
      into.reserveHashes(1)
      put(into.hashes, into.hashTotal++, hash)
      into.hashCount[event]!++
    }
    if (into.hashCount[event] === 0) into.abandon(event)
  }

  /** A block that moved to the host is gone from the device; its tokens are not repeated, so the host learns nothing. */
  #updated(data: JsonObject, into: DecodedBatch): void {
    const level = asObject(data['cache_level'])
    const hash = asHash(data['block_hash'])
    if (!level || hash === undefined || asNumber(level['old_value']) !== 0 || asNumber(level['new_value']) === 0) return
    const event = into.open(eventKind.removed)
    into.reserveHashes(1)
    put(into.hashes, into.hashTotal++, hash)
    into.hashCount[event] = 1
  }
}

function put(column: Uint32Array, index: number, hash: bigint): void {
  column[2 * index] = Number(hash & 0xffff_ffffn)
  column[2 * index + 1] = Number((hash >> 32n) & 0xffff_ffffn)
}

function asObject(value: JsonValue | undefined): JsonObject | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined
}

function asArray(value: JsonValue | undefined): readonly JsonValue[] {
  return Array.isArray(value) ? value : []
}

/** Every integer comes as a bigint from the lossless reader. */
function asNumber(value: JsonValue | undefined): number | undefined {
  return typeof value === 'bigint' && value >= 0n && value < 2n ** 53n ? Number(value) : undefined
}

function asHash(value: JsonValue | undefined): bigint | undefined {
  return typeof value === 'bigint' ? BigInt.asUintN(64, value) : undefined
}
