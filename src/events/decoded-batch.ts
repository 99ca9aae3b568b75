/**
 * One batch of KV events as columns. A decoder fills it, the normaliser reads and narrows it; one instance serves every
 * frame, so a steady stream allocates nothing. Nothing here is known of an engine: what a field means is fixed by this
 * page, and turning bytes into it is the decoder's work.
 *
 *   event e      kind[e] tier[e] group[e] ...            hashes[hashStart[e] ... + hashCount[e])
 *                                                        tokens[tokenStart[e] ... + tokenCount[e])
 *   media m      mediaEvent[m] mediaBlock[m] mediaHashes[m]     in ascending order of event and block
 */
import type { HashColumn } from '../core/protocol/index.js'
import { newHashColumn } from '../core/protocol/index.js'

/** What an event says. `ignored` is a well-formed event that means nothing to an index. */
export const eventKind = { stored: 0, removed: 1, cleared: 2, ignored: 3 } as const

/** Where a block lies: an index into `storageTiers`, or a medium that nobody has defined. */
export const tierCode = { device: 0, hostPinned: 1, disk: 2, external: 3, unknown: 255 } as const

export const localityCode = { local: 0, remote: 1, unknown: 2 } as const

export const ownershipCode = { framework: 0, kvcr: 1, unknown: 2 } as const

/** `main` attention decides a prefix hit; other known kinds and unknown names do not. */
export const attentionCode = { absent: 0, main: 1, other: 2, unknown: 3 } as const

/** Why a batch could not be read, or one event of it was passed over. Stable: they are metric labels. */
export const decodeReasons = [
  'truncated',
  'trailing_bytes',
  'not_a_batch',
  'bad_timestamp',
  'bad_rank',
  'bad_removal',
  'bad_event',
  'unknown_event',
  'bad_json',
  'lost_events',
] as const

export type DecodeReason = (typeof decodeReasons)[number]

/** Handed to `events/` by `engines/`. Total: any bytes give `undefined` (decoded) or the reason why not; it never throws. */
export interface BatchDecoder {
  decode(payload: Uint8Array, into: DecodedBatch): DecodeReason | undefined
  /** The time that the payload opens with, without decoding the rest; NaN if it has none. */
  timestampOf(payload: Uint8Array): number
}

export class DecodedBatch {
  /** Unix seconds by the engine's clock. */
  timestamp = 0
  /** -1: the batch does not say. */
  dpRank = -1
  eventCount = 0
  /** Events that were counted and passed over, by reason. */
  unknownEvents = 0
  badEvents = 0

  kind: Uint8Array = new Uint8Array(64)
  tier: Uint8Array = new Uint8Array(64)
  locality: Uint8Array = new Uint8Array(64)
  ownership: Uint8Array = new Uint8Array(64)
  attention: Uint8Array = new Uint8Array(64)
  hasParent: Uint8Array = new Uint8Array(64)
  isEagle: Uint8Array = new Uint8Array(64)
  /** The event carries an item that this program cannot turn into a hash (media named by a caller's own id). */
  isOpaque: Uint8Array = new Uint8Array(64)
  /** -1: none. */
  group: Int32Array = new Int32Array(64)
  blockSize: Uint32Array = new Uint32Array(64)
  hashStart: Uint32Array = new Uint32Array(64)
  hashCount: Uint32Array = new Uint32Array(64)
  tokenStart: Uint32Array = new Uint32Array(64)
  tokenCount: Uint32Array = new Uint32Array(64)
  parents: HashColumn = newHashColumn(64)
  adapter: (string | undefined)[] = []
  /** The cache salt. */
  namespace: (string | undefined)[] = []
  session: (string | undefined)[] = []

  hashTotal = 0
  hashes: HashColumn = newHashColumn(1024)
  tokenTotal = 0
  tokens: Uint32Array = new Uint32Array(16384)
  mediaTotal = 0
  mediaEvent: Uint32Array = new Uint32Array(16)
  mediaBlock: Uint32Array = new Uint32Array(16)
  mediaHashes: HashColumn = newHashColumn(16)

  reset(): void {
    this.timestamp = 0
    this.dpRank = -1
    this.eventCount = 0
    this.unknownEvents = 0
    this.badEvents = 0
    this.hashTotal = 0
    this.tokenTotal = 0
    this.mediaTotal = 0
  }

  /** Opens the next event with every optional field absent and returns its number. */
  open(kind: number): number {
    const event = this.eventCount
    if (event === this.kind.length) this.#growEvents()
    this.kind[event] = kind
    this.tier[event] = tierCode.device
    this.locality[event] = localityCode.local
    this.ownership[event] = ownershipCode.framework
    this.attention[event] = attentionCode.absent
    this.hasParent[event] = 0
    this.isEagle[event] = 0
    this.isOpaque[event] = 0
    this.group[event] = -1
    this.blockSize[event] = 0
    this.hashStart[event] = this.hashTotal
    this.hashCount[event] = 0
    this.tokenStart[event] = this.tokenTotal
    this.tokenCount[event] = 0
    this.adapter[event] = undefined
    this.namespace[event] = undefined
    this.session[event] = undefined
    this.eventCount = event + 1
    return event
  }

  /** Takes back the last opened event and everything it had put into the columns. */
  abandon(event: number): void {
    this.hashTotal = this.hashStart[event]!
    this.tokenTotal = this.tokenStart[event]!
    while (this.mediaTotal > 0 && this.mediaEvent[this.mediaTotal - 1] === event) this.mediaTotal--
    this.eventCount = event
  }

  reserveHashes(more: number): void {
    if (2 * (this.hashTotal + more) <= this.hashes.length) return
    const grown = newHashColumn(Math.max(this.hashes.length, this.hashTotal + more))
    grown.set(this.hashes.subarray(0, 2 * this.hashTotal))
    this.hashes = grown
  }

  reserveTokens(more: number): void {
    if (this.tokenTotal + more <= this.tokens.length) return
    const grown = new Uint32Array(Math.max(2 * this.tokens.length, this.tokenTotal + more))
    grown.set(this.tokens.subarray(0, this.tokenTotal))
    this.tokens = grown
  }

  addMedia(event: number, block: number, low: number, high: number): void {
    const media = this.mediaTotal
    if (media === this.mediaEvent.length) {
      this.mediaEvent = grow(this.mediaEvent)
      this.mediaBlock = grow(this.mediaBlock)
      this.mediaHashes = grow(this.mediaHashes)
    }
    this.mediaEvent[media] = event
    this.mediaBlock[media] = block
    this.mediaHashes[2 * media] = low
    this.mediaHashes[2 * media + 1] = high
    this.mediaTotal = media + 1
  }

  #growEvents(): void {
    this.kind = grow(this.kind)
    this.tier = grow(this.tier)
    this.locality = grow(this.locality)
    this.ownership = grow(this.ownership)
    this.attention = grow(this.attention)
    this.hasParent = grow(this.hasParent)
    this.isEagle = grow(this.isEagle)
    this.isOpaque = grow(this.isOpaque)
    this.group = grow(this.group)
    this.blockSize = grow(this.blockSize)
    this.hashStart = grow(this.hashStart)
    this.hashCount = grow(this.hashCount)
    this.tokenStart = grow(this.tokenStart)
    this.tokenCount = grow(this.tokenCount)
    this.parents = grow(this.parents)
  }
}

function grow<Column extends Uint8Array | Uint32Array | Int32Array>(column: Column): Column {
  const grown = new (column.constructor as new (length: number) => Column)(2 * column.length)
  grown.set(column)
  return grown
}
