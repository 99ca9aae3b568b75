/**
 * KV cache events as plain values: what a worker's cache gained and lost. The names follow Dynamo's `RouterEvent`
 * (`lib/kv-router/src/protocols.rs`); hashes and ids are `bigint` here, because this is the public edge. The hot path
 * applies batches of columns instead.
 */
import type { CacheOwnerId } from './cache-owner.js'
import type { StorageTier } from './storage-tier.js'

/** Whose life a block shares: its worker's, or that of a cache which outlives the worker. Independent of the tier. */
export type ResidencyDomain = 'worker' | 'cache_owner'

/** The field as it was read. Missing is legal (older publishers); unknown text and invalid types make the event unsupported. */
export type ResidencyDomainField = ResidencyDomain | 'missing' | 'unknown' | 'invalid'

/** What a `cleared` event clears. */
export type ResetScope = 'all' | ResidencyDomain

export interface RouterEvent {
  /** Unsigned 64-bit. */
  readonly workerId: bigint
  readonly storageTier: StorageTier
  readonly residencyDomain: ResidencyDomainField
  readonly event: KvCacheEvent
  /** The owner of a `cache_owner` event. */
  readonly stateSource?: CacheOwnerId
}

export interface KvCacheEvent {
  /** Per publisher, +1 each. Indexes never look at it; recovery does. */
  readonly eventId: bigint
  readonly data: KvCacheEventData
  /** Unsigned 32-bit. */
  readonly dpRank: number
}

export type KvCacheEventData = StoredData | RemovedData | ClearedData

export interface StoredData {
  readonly kind: 'stored'
  /** The block that the first of `blocks` follows; null at the beginning of a prompt. */
  readonly parentHash: bigint | null
  /** Block position of the first block; only a positional index asks for it. */
  readonly startPosition: number | null
  readonly blocks: readonly StoredBlock[]
}

export interface RemovedData {
  readonly kind: 'removed'
  readonly blockHashes: readonly bigint[]
}

export interface ClearedData {
  readonly kind: 'cleared'
}

export interface StoredBlock {
  /** The engine's own name for the block at this place of this chain. */
  readonly blockHash: bigint
  /** The local hash: the block's content alone. */
  readonly tokensHash: bigint
  readonly mmExtraInfo: MmExtraInfo | null
}

export interface MmExtraInfo {
  readonly mmObjects: readonly MmObject[]
}

export interface MmObject {
  readonly mmHash: bigint
  readonly offsets: readonly (readonly [start: number, end: number])[]
}

/**
 * A fresh event of the worker's own domain, as publishers make them; `storageTier` defaults to the device.
 *
 * @example
 * import { newRouterEvent } from 'warmroute/core'
 *
 * const event = newRouterEvent({ workerId: 1n, dpRank: 0 }, 5n, { kind: 'cleared' })
 * console.log(event.storageTier) // => device
 */
export function newRouterEvent(
  owner: { readonly workerId: bigint; readonly dpRank: number },
  eventId: bigint,
  data: KvCacheEventData,
  storageTier: StorageTier = 'device',
): RouterEvent {
  return {
    workerId: owner.workerId,
    storageTier,
    residencyDomain: 'worker',
    event: { eventId, data, dpRank: owner.dpRank },
  }
}
