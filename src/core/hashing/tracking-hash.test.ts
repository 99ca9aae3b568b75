import { inspect } from 'node:util'
import { describe, expect, it } from 'vitest'
import { toBigInts, WarmrouteError } from '../protocol/index.js'
import type { BlockHasher, TrackingScope } from './index.js'
import {
  BlockHashes,
  createBlockHasher,
  createHashScheme,
  createTrackingHashing,
  fillTrackingHashes,
  toBlockMedia,
} from './index.js'
import { hashers, toInfos, vectors } from './vectors.case.js'

const key = new Uint8Array(32).fill(0x5a)
const keyed = (bytes = key, keyId = '2026-01') =>
  createTrackingHashing({ hash: 'keyed-xxh3-v1', keyFile: 'secret/key.bin', keyId }, () => bytes)
const scope: TrackingScope = { modelName: 'm', routingGroup: 'default', blockSize: 4 }
const tokens = Uint32Array.from({ length: 12 }, (_, token) => token)
const noRandom = () => {
  throw new Error('nothing random is needed here')
}

describe.each(hashers)('$backend', (hasher) => {
  it.each(vectors.tracking_keyed)('names blocks as $origin expects', (vector) => {
    const bytes = Uint8Array.from(vector.key_hex.match(/../g)!, (byte) => Number.parseInt(byte, 16))
    const scheme = keyed(bytes, vector.key_id).schemeOf({
      modelName: vector.model_name,
      routingGroup: vector.routing_group,
      blockSize: vector.block_size,
      cacheNamespace: vector.cache_namespace,
      loraName: vector.lora_name,
      isEagle: vector.is_eagle,
    })
    expect(toBigInts(scheme.seeds)).toEqual([BigInt(vector.block_seed), BigInt(vector.chain_seed)])
    const infos = toInfos(vector.block_mm_hashes)
    const into = new BlockHashes()
    const request = {
      tokens: Uint32Array.from(vector.tokens),
      scheme,
      media: infos && toBlockMedia(infos),
      isReuseAssumed: true,
    }
    fillTrackingHashes(request, hasher, noRandom, into)
    expect(toBigInts(into.sequenceColumn())).toEqual(vector.sequence_hashes.map(BigInt))
  })

  it('publicly names blocks as the index does, and takes over hashes that are there', () => {
    const scheme = createTrackingHashing({}, noRandom).schemeOf({ ...scope, loraName: 'a', cacheNamespace: 'b' })
    const known = new BlockHashes()
    hasher.hash(tokens, createHashScheme({ blockSize: 4, loraName: 'a', cacheNamespace: 'b' }), known)
    const into = new BlockHashes()
    fillTrackingHashes({ tokens, scheme, isReuseAssumed: true, known }, hasher, noRandom, into)
    expect(toBigInts(into.sequenceColumn())).toEqual(toBigInts(known.sequenceColumn()))
    fillTrackingHashes({ tokens, scheme, isReuseAssumed: true }, hasher, noRandom, into)
    expect(toBigInts(into.sequenceColumn())).toEqual(toBigInts(known.sequenceColumn()))
  })
})

it('does not take public hashes for keyed ones', () => {
  const hasher = createBlockHasher()
  const known = new BlockHashes()
  hasher.hash(tokens, createHashScheme({ blockSize: 4 }), known)
  const into = new BlockHashes()
  fillTrackingHashes({ tokens, scheme: keyed().schemeOf(scope), isReuseAssumed: true, known }, hasher, noRandom, into)
  expect(toBigInts(into.sequenceColumn())).toEqual(keyedHashes(hasher, scope))
})

it('gives every complete block a random name when reuse is not assumed', () => {
  const into = new BlockHashes()
  const scheme = createHashScheme({ blockSize: 5 })
  const fillRandom = (words: Uint32Array) => words.set([1, 2, 3, 4])
  fillTrackingHashes({ tokens, scheme, isReuseAssumed: false }, createBlockHasher(), fillRandom, into)
  expect(toBigInts(into.sequenceColumn())).toEqual([(2n << 32n) | 1n, (4n << 32n) | 3n])
  expect(into.scheme).toBeUndefined() // nothing can be continued from these
})

it('keyed names are stable, and change with every part of their scope', () => {
  const hasher = createBlockHasher()
  const scopes: TrackingScope[] = [
    scope,
    { ...scope, modelName: 'n' },
    { ...scope, routingGroup: 'g' },
    { ...scope, blockSize: 3 },
    { ...scope, cacheNamespace: 'x' },
    { ...scope, loraName: 'x' },
    { ...scope, isEagle: true },
  ]
  const names = scopes.map((it) => String(keyedHashes(hasher, it)))
  expect(new Set(names).size).toBe(scopes.length)
  expect(String(keyedHashes(hasher, scope))).toBe(names[0])
  expect(String(keyedHashes(hasher, { ...scope, loraName: '', cacheNamespace: '' }))).toBe(names[0])
  expect(keyed(key, 'other').schemeOf(scope)).not.toEqual(keyed().schemeOf(scope))
  expect(keyed(new Uint8Array(32)).schemeOf(scope)).not.toEqual(keyed().schemeOf(scope))
})

it('frames its fields, so that text cannot move from one to the next', () => {
  const a = keyed().schemeOf({ ...scope, modelName: 'ab', routingGroup: 'c' })
  const b = keyed().schemeOf({ ...scope, modelName: 'a', routingGroup: 'bc' })
  expect(a.seeds).not.toEqual(b.seeds)
})

const keyFile = 'secret/key.bin'
it.each([
  {
    says: 'a key file without the keyed hash',
    options: { keyFile },
    reason: 'router tracking key options require router_tracking_hash=keyed-xxh3-v1',
  },
  {
    says: 'a key id without the keyed hash',
    options: { hash: 'public-xxh3-v1', keyId: 'a' },
    reason: 'router tracking key options require router_tracking_hash=keyed-xxh3-v1',
  },
  {
    says: 'the keyed hash without a file',
    options: { hash: 'keyed-xxh3-v1', keyId: 'a' },
    reason: 'keyed-xxh3-v1 requires router_tracking_key_file',
  },
  ...[undefined, '', ' a', 'a ', ' '].map((keyId) => ({
    says: `the keyed hash with ${keyId === undefined ? 'no key id' : `key id "${keyId}"`}`,
    options: { hash: 'keyed-xxh3-v1', keyFile, keyId },
    reason: 'keyed-xxh3-v1 requires a nonempty router_tracking_key_id',
  })),
  {
    says: 'an unknown hash',
    options: { hash: 'md5' },
    reason: 'router_tracking_hash must be public-xxh3-v1 or keyed-xxh3-v1, got "md5"',
  },
])('refuses $says', ({ options, reason }) => {
  expect(reasonOf(() => createTrackingHashing(options, () => key))).toBe(reason)
})

it.each([0, 31, 33])('refuses a key of %d bytes', (length) => {
  const reason = reasonOf(() => keyed(new Uint8Array(length)))
  expect(reason).toBe(`router tracking key file must contain exactly 32 raw bytes; found ${length}`)
})

it('says that a key cannot be read, and neither where it is nor why', () => {
  const read = () => {
    throw new Error('ENOENT: secret/key.bin')
  }
  const options = { hash: 'keyed-xxh3-v1', keyFile, keyId: 'a' }
  const error = errorOf(() => createTrackingHashing(options, read))
  expect(error.details['reason']).toBe('failed to read router tracking key file')
  expect(inspect(error)).not.toContain('secret/key.bin')
})

it('never prints its key', () => {
  const bytes = Uint8Array.from({ length: 32 }, (_, at) => 200 + at)
  for (const text of [inspect(keyed(bytes), { depth: 9, showHidden: true }), JSON.stringify(keyed(bytes))]) {
    expect(text).not.toMatch(/\b2[123]\d\b|secret/)
  }
})

it('keeps a copy of its key: wiping the bytes that were read changes nothing', () => {
  const bytes = Uint8Array.from(key)
  const hashing = keyed(bytes)
  bytes.fill(0)
  expect(hashing.schemeOf(scope)).toEqual(keyed().schemeOf(scope))
})

function keyedHashes(hasher: BlockHasher, of: TrackingScope): bigint[] {
  const into = new BlockHashes()
  fillTrackingHashes({ tokens, scheme: keyed().schemeOf(of), isReuseAssumed: true }, hasher, noRandom, into)
  return toBigInts(into.sequenceColumn())
}

function errorOf(run: () => unknown): WarmrouteError {
  try {
    run()
  } catch (error) {
    if (error instanceof WarmrouteError) return error
  }
  throw new Error('nothing was refused')
}

function reasonOf(run: () => unknown): unknown {
  const error = errorOf(run)
  expect(error.code).toBe('WR_TRACKING_HASH')
  return error.details['reason']
}
