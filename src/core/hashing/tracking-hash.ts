/**
 * Names for the blocks of running requests. `public-xxh3-v1` names them as the index does. `keyed-xxh3-v1` derives both
 * seeds from a secret key and the request's scope, so that what replicas tell each other says nothing about prompts.
 * Follows lib/kv-router/src/tracking_hash.rs at v1.5.0. Reading the key file is the caller's work: it hands in a reader.
 */
import { blake3 } from '@noble/hashes/blake3.js'
import { WarmrouteError } from '../protocol/index.js'
import type { TrackingHash } from '../protocol/index.js'
import type { BlockHasher } from './block-hasher.js'
import type { BlockHashes } from './block-hashes.js'
import type { BlockMedia } from './block-media.js'
import { joined, u32le, u64le, utf8 } from './bytes.js'
import type { HashScheme, HashSchemeOptions } from './hash-scheme.js'
import { blockCountOf, createHashScheme, seededScheme } from './hash-scheme.js'

/** As configured: `router_tracking_hash`, `router_tracking_key_file`, `router_tracking_key_id`. */
export interface TrackingHashOptions {
  readonly hash?: string | undefined
  readonly keyFile?: string | undefined
  readonly keyId?: string | undefined
}

/** What a keyed name depends on beside the tokens. */
export interface TrackingScope extends HashSchemeOptions {
  readonly modelName: string
  readonly routingGroup: string
}

export interface TrackingHashing {
  readonly name: TrackingHash
  /** The scheme of one scope. Keyed, it costs a BLAKE3: keep it for as long as the scope lives. */
  schemeOf(scope: TrackingScope): HashScheme
}

/**
 * Refuses combinations that cannot work, each with the sentence that upstream uses. `readKey` gets the configured path;
 * what it throws is dropped, because it may name the path.
 */
export function createTrackingHashing(
  options: TrackingHashOptions,
  readKey: (path: string) => Uint8Array,
): TrackingHashing {
  const name = options.hash ?? 'public-xxh3-v1'
  if (name === 'public-xxh3-v1') {
    if (options.keyFile !== undefined || options.keyId !== undefined) {
      throw refused('router tracking key options require router_tracking_hash=keyed-xxh3-v1')
    }
    return { name, schemeOf: createHashScheme }
  }
  if (name !== 'keyed-xxh3-v1') {
    throw refused(`router_tracking_hash must be public-xxh3-v1 or keyed-xxh3-v1, got ${JSON.stringify(name)}`)
  }
  if (options.keyFile === undefined) throw refused('keyed-xxh3-v1 requires router_tracking_key_file')
  const keyId = options.keyId ?? ''
  if (keyId === '' || keyId.trim() !== keyId) throw refused('keyed-xxh3-v1 requires a nonempty router_tracking_key_id')
  return new KeyedHashing(readWhole(options.keyFile, readKey), keyId)
}

export interface TrackingRequest {
  readonly tokens: Uint32Array
  /** From `TrackingHashing.schemeOf`. */
  readonly scheme: HashScheme
  readonly media?: BlockMedia | undefined
  /** False: blocks of this request are shared with no other, so each gets a random name. */
  readonly isReuseAssumed: boolean
  /** Hashes of the same prompt; used as they are when their scheme is the same. */
  readonly known?: BlockHashes | undefined
}

/** The sequence column of `into` names every complete block. `fillRandom` fills words with random bits and is called only without reuse. */
export function fillTrackingHashes(
  request: TrackingRequest,
  hasher: BlockHasher,
  fillRandom: (words: Uint32Array) => void,
  into: BlockHashes,
): void {
  const { tokens, scheme, media, known } = request
  if (!request.isReuseAssumed) {
    const count = blockCountOf(scheme, tokens.length)
    into.clear()
    into.reserve(count, 0)
    into.count = count
    fillRandom(into.sequence.subarray(0, 2 * count))
    into.local.set(into.sequence.subarray(0, 2 * count))
  } else if (known) hasher.extend(known, tokens, scheme, { into, media })
  else hasher.hash(tokens, scheme, into, media)
}

class KeyedHashing implements TrackingHashing {
  readonly name = 'keyed-xxh3-v1'
  readonly #key: Uint8Array // private: no printer, serialiser or log line can reach it
  readonly #keyId: string

  constructor(key: Uint8Array, keyId: string) {
    this.#key = key
    this.#keyId = keyId
  }

  schemeOf(scope: TrackingScope): HashScheme {
    const isEagle = scope.isEagle ?? false
    const message = joined(
      utf8('dynamo.router.tracking-hash/keyed-xxh3-v1\0'),
      field(1, utf8(this.#keyId)),
      field(2, utf8(scope.modelName)),
      field(3, utf8(scope.routingGroup)),
      field(4, u32le(scope.blockSize)),
      optionalField(5, scope.cacheNamespace),
      optionalField(6, scope.loraName),
      field(7, Uint8Array.of(isEagle ? 1 : 0)),
    )
    const digest = blake3(message, { key: this.#key })
    const seeds = new DataView(digest.buffer, digest.byteOffset)
    return seededScheme(scope.blockSize, isEagle, seeds.getBigUint64(0, true), seeds.getBigUint64(8, true))
  }

  toJSON(): object {
    return { name: this.name, keyId: this.#keyId, key: '[redacted]' }
  }
}

function readWhole(path: string, readKey: (path: string) => Uint8Array): Uint8Array {
  let key: Uint8Array
  try {
    key = readKey(path)
  } catch {
    throw refused('failed to read router tracking key file')
  }
  if (key.length !== 32) {
    throw refused(`router tracking key file must contain exactly 32 raw bytes; found ${key.length}`)
  }
  return Uint8Array.from(key)
}

function refused(reason: string): WarmrouteError {
  return new WarmrouteError('WR_TRACKING_HASH', { reason })
}

/** tag, length as u64, value: no two lists of fields have the same bytes. */
function field(tag: number, value: Uint8Array): Uint8Array {
  return joined(Uint8Array.of(tag), u64le(BigInt(value.length)), value)
}

function optionalField(tag: number, text: string | null | undefined): Uint8Array {
  if (!text) return Uint8Array.of(tag, 0)
  const value = utf8(text)
  return joined(Uint8Array.of(tag, 1), u64le(BigInt(value.length)), value)
}
