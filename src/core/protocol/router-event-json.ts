/**
 * The JSON form of KV events, as in Dynamo's dumps and its JSON request plane: snake_case, bare 64-bit integers, data as
 * an externally tagged value. Unknown members are ignored; anything else that does not fit is a `WR_INVALID_EVENT` that
 * says where, and one bad element refuses the whole list.
 */
import type { CacheOwnerId, IdentityDigest } from './cache-owner.js'
import { WarmrouteError } from './errors.js'
import {
  type JsonInput,
  type JsonObject,
  type JsonValue,
  parseLosslessJson,
  stringifyLosslessJson,
} from './lossless-json.js'
import type {
  KvCacheEvent,
  KvCacheEventData,
  MmExtraInfo,
  RemovedData,
  ResidencyDomainField,
  RouterEvent,
  StoredBlock,
  StoredData,
} from './router-event.js'
import { type StorageTier, storageTiers } from './storage-tier.js'

export function parseRouterEvents(text: string): RouterEvent[] {
  return list(parseLosslessJson(text), 'events').map((it, index) => readRouterEvent(it, `events[${index}]`))
}

export function stringifyRouterEvents(events: readonly RouterEvent[]): string {
  return stringifyLosslessJson(events.map(writeRouterEvent))
}

/** One event of an already parsed document; `path` is where it stood, for the error. */
export function readRouterEvent(value: JsonValue, path = 'event'): RouterEvent {
  const object = record(value, path)
  const source = object['state_source'] ?? null
  return {
    workerId: unsigned(object['worker_id'], 64, `${path}.worker_id`),
    storageTier: readTier(object['storage_tier'], `${path}.storage_tier`),
    residencyDomain: readDomain(object['residency_domain']),
    event: readKvCacheEvent(object['event'], `${path}.event`),
    ...(source === null ? {} : { stateSource: readCacheOwner(source, `${path}.state_source`) }),
  }
}

/** The members in Dynamo's order, ready to be written. */
export function writeRouterEvent(event: RouterEvent): JsonInput {
  const { eventId, data, dpRank } = event.event
  return {
    worker_id: event.workerId,
    storage_tier: event.storageTier,
    residency_domain: writeDomain(event.residencyDomain),
    event: { event_id: eventId, data: writeData(data), dp_rank: dpRank },
    state_source: event.stateSource && writeCacheOwner(event.stateSource),
  }
}

function readKvCacheEvent(value: JsonValue | undefined, path: string): KvCacheEvent {
  const object = record(value, path)
  return {
    eventId: unsigned(object['event_id'], 64, `${path}.event_id`),
    data: readData(object['data'], `${path}.data`),
    dpRank: object['dp_rank'] === undefined ? 0 : Number(unsigned(object['dp_rank'], 32, `${path}.dp_rank`)),
  }
}

function readData(value: JsonValue | undefined, path: string): KvCacheEventData {
  if (value === 'cleared') return { kind: 'cleared' }
  const object = record(value, path)
  if (Object.keys(object).length !== 1) refuse(path, 'must have one of stored, removed, cleared')
  if (object['stored'] !== undefined) return readStored(object['stored'], `${path}.stored`)
  if (object['removed'] !== undefined) return readRemoved(object['removed'], `${path}.removed`)
  return refuse(path, 'has an unknown kind')
}

function readStored(value: JsonValue, path: string): StoredData {
  const stored = record(value, path)
  const parent = stored['parent_hash'] ?? null
  const position = stored['start_position'] ?? null
  return {
    kind: 'stored',
    parentHash: parent === null ? null : unsigned(parent, 64, `${path}.parent_hash`),
    startPosition: position === null ? null : Number(unsigned(position, 32, `${path}.start_position`)),
    blocks: list(stored['blocks'], `${path}.blocks`).map((it, index) => readBlock(it, `${path}.blocks[${index}]`)),
  }
}

function readRemoved(value: JsonValue, path: string): RemovedData {
  const hashes = list(record(value, path)['block_hashes'], `${path}.block_hashes`)
  return {
    kind: 'removed',
    blockHashes: hashes.map((it, index) => unsigned(it, 64, `${path}.block_hashes[${index}]`)),
  }
}

function writeData(data: KvCacheEventData): JsonInput {
  switch (data.kind) {
    case 'stored':
      return {
        stored: {
          parent_hash: data.parentHash,
          start_position: data.startPosition,
          blocks: data.blocks.map(writeBlock),
        },
      }
    case 'removed':
      return { removed: { block_hashes: data.blockHashes } }
    case 'cleared':
      return 'cleared'
  }
}

function readBlock(value: JsonValue, path: string): StoredBlock {
  const object = record(value, path)
  const info = object['mm_extra_info'] ?? null
  return {
    blockHash: unsigned(object['block_hash'], 64, `${path}.block_hash`),
    tokensHash: unsigned(object['tokens_hash'], 64, `${path}.tokens_hash`),
    mmExtraInfo: info === null ? null : readMmInfo(info, `${path}.mm_extra_info`),
  }
}

function writeBlock(block: StoredBlock): JsonInput {
  const info = block.mmExtraInfo
  return {
    block_hash: block.blockHash,
    tokens_hash: block.tokensHash,
    mm_extra_info: info && { mm_objects: info.mmObjects.map((it) => ({ mm_hash: it.mmHash, offsets: it.offsets })) },
  }
}

/** Media of one block, as events and requests carry them. */
export function readMmInfo(value: JsonValue, path = 'mm_extra_info'): MmExtraInfo {
  return {
    mmObjects: list(record(value, path)['mm_objects'], `${path}.mm_objects`).map((it, index) => {
      const at = `${path}.mm_objects[${index}]`
      const object = record(it, at)
      return {
        mmHash: unsigned(object['mm_hash'], 64, `${at}.mm_hash`),
        offsets: list(object['offsets'], `${at}.offsets`).map((pair): readonly [number, number] => {
          const [start, end, ...rest] = list(pair, `${at}.offsets`)
          if (rest.length > 0) refuse(`${at}.offsets`, 'must be pairs')
          return [Number(unsigned(start, 53, `${at}.offsets`)), Number(unsigned(end, 53, `${at}.offsets`))]
        }),
      }
    }),
  }
}

function readTier(value: JsonValue | undefined, path: string): StorageTier {
  if (value === undefined) return 'device'
  return storageTiers.find((tier) => tier === value) ?? refuse(path, 'is no storage tier')
}

/** Missing and null differ: an older publisher leaves the member out, a null is a broken one. */
function readDomain(value: JsonValue | undefined): ResidencyDomainField {
  if (value === undefined) return 'missing'
  if (value === 'worker' || value === 'cache_owner') return value
  return typeof value === 'string' ? 'unknown' : 'invalid'
}

/** The text of an unknown domain is not kept; what is written reads as unknown again. */
function writeDomain(domain: ResidencyDomainField): JsonInput | undefined {
  if (domain === 'missing') return undefined
  return domain === 'invalid' ? null : domain
}

function readCacheOwner(value: JsonValue, path: string): CacheOwnerId {
  const owner = record(value, path)
  const pool = record(owner['pool'], `${path}.pool`)
  const domain = record(pool['indexer_domain'], `${path}.pool.indexer_domain`)
  return {
    pool: {
      indexerDomain: {
        cacheSemantics: readDigest(domain['cache_semantics'], `${path}.pool.indexer_domain.cache_semantics`),
        routingScope: readDigest(domain['routing_scope'], `${path}.pool.indexer_domain.routing_scope`),
      },
      dcId: unsigned(pool['dc_id'], 64, `${path}.pool.dc_id`),
    },
    slot: readDigest(owner['slot'], `${path}.slot`),
  }
}

function writeCacheOwner(owner: CacheOwnerId): JsonInput {
  const { indexerDomain, dcId } = owner.pool
  return {
    pool: {
      indexer_domain: {
        cache_semantics: writeDigest(indexerDomain.cacheSemantics),
        routing_scope: writeDigest(indexerDomain.routingScope),
      },
      dc_id: dcId,
    },
    slot: writeDigest(owner.slot),
  }
}

function readDigest(value: JsonValue | undefined, path: string): IdentityDigest {
  const object = record(value, path)
  const bytes = list(object['digest'], `${path}.digest`)
  const source = object['source']
  if (bytes.length !== 16) refuse(`${path}.digest`, 'must have 16 bytes')
  if (source !== 'explicit' && source !== 'default_derived') refuse(`${path}.source`, 'is no digest source')
  const hex = bytes.map((it) => unsigned(it, 8, `${path}.digest`).toString(16).padStart(2, '0'))
  return { digest: hex.join(''), source }
}

function writeDigest(identity: IdentityDigest): JsonInput {
  const bytes = identity.digest.match(/../g) ?? []
  return { digest: bytes.map((it) => Number.parseInt(it, 16)), source: identity.source }
}

function record(value: JsonValue | undefined, path: string): JsonObject {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return refuse(path, 'must be an object')
  return value
}

function list(value: JsonValue | undefined, path: string): JsonValue[] {
  return Array.isArray(value) ? value : refuse(path, 'must be a list')
}

function unsigned(value: JsonValue | undefined, bits: number, path: string): bigint {
  if (typeof value !== 'bigint' || BigInt.asUintN(bits, value) !== value)
    return refuse(path, `must be an unsigned ${bits}-bit integer`)
  return value
}

function refuse(path: string, problem: string): never {
  throw new WarmrouteError('WR_INVALID_EVENT', { reason: `${path} ${problem}`, path })
}
