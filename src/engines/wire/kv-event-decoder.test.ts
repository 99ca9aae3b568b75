import { decode as decodeMsgpack, encode } from '@msgpack/msgpack'
import { expect, it } from 'vitest'
import { eventRecordings, fromHex, readRecording, readReplays, replayRecordings } from '../../../test/recordings.js'
import { hashAt } from '../../core/protocol/index.js'
import { DecodedBatch, eventKind } from '../../events/index.js'
import type { WireDialect } from './kv-event-decoder.js'
import { KvEventDecoder } from './kv-event-decoder.js'

// One helper knows how the columns are read; every case is data.
function read(payload: Uint8Array, dialect: WireDialect = 'stock') {
  const batch = new DecodedBatch()
  const reason = new KvEventDecoder(dialect).decode(payload, batch)
  if (reason) return { reason }
  const events = Array.from({ length: batch.eventCount }, (_, event) => {
    const hashes = Array.from({ length: batch.hashCount[event]! }, (_, index) =>
      hashAt(batch.hashes, batch.hashStart[event]! + index),
    )
    const media: [number, bigint][] = []
    for (let index = 0; index < batch.mediaTotal; index++) {
      if (batch.mediaEvent[index] === event) media.push([batch.mediaBlock[index]!, hashAt(batch.mediaHashes, index)])
    }
    return {
      kind: Object.keys(eventKind)[batch.kind[event]!]!,
      tier: batch.tier[event],
      hashes,
      parent: batch.hasParent[event] ? hashAt(batch.parents, event) : undefined,
      tokens: [...batch.tokens.subarray(batch.tokenStart[event]!, batch.tokenStart[event]! + batch.tokenCount[event]!)],
      blockSize: batch.blockSize[event],
      isEagle: batch.isEagle[event] === 1,
      isOpaque: batch.isOpaque[event] === 1,
      group: batch.group[event],
      attention: batch.attention[event],
      locality: batch.locality[event],
      ownership: batch.ownership[event],
      adapter: batch.adapter[event],
      namespace: batch.namespace[event],
      session: batch.session[event],
      media,
    }
  })
  return { events, dpRank: batch.dpRank, unknown: batch.unknownEvents, bad: batch.badEvents }
}

function send(...events: unknown[]): Uint8Array {
  return encode([1.5, events, 0], { useBigInt64: true })
}

function only(payload: Uint8Array, dialect: WireDialect = 'stock') {
  const result = read(payload, dialect)
  expect(result.reason).toBeUndefined()
  expect(result.events).toHaveLength(1)
  return result.events![0]!
}

const store = { type: 'BlockStored', block_hashes: [11], parent_block_hash: null, token_ids: [10, 11], block_size: 2 }

it('decodes every recorded frame to what a general MessagePack reader sees', () => {
  let frames = 0
  for (const name of eventRecordings) {
    for (const line of readRecording(name)) if (line.kind === 'zmq') frames += compare(fromHex(line.frames[2]))
  }
  for (const name of replayRecordings) {
    for (const replay of readReplays(name)) {
      for (const reply of replay.reply_frames_hex) if (reply.at(-1) !== '') frames += compare(fromHex(reply.at(-1)!))
    }
  }
  expect(frames).toBe(276)
})

function compare(payload: Uint8Array): number {
  const [ts, events, rank] = decodeMsgpack(payload, { useBigInt64: true }) as [
    number,
    Record<string, unknown>[],
    number,
  ]
  const result = read(payload)
  expect(Number.isFinite(ts)).toBe(true)
  expect(result.dpRank).toBe(Number(rank))
  expect(result.unknown! + result.bad!).toBe(0)
  expect(result.events).toHaveLength(events.length)
  events.forEach((event, index) => {
    const got = result.events![index]!
    expect(got.kind).toBe(
      { BlockStored: 'stored', BlockRemoved: 'removed', AllBlocksCleared: 'cleared' }[event['type'] as string],
    )
    expect(got.hashes).toEqual(((event['block_hashes'] ?? []) as unknown[]).map(toHash))
    const parent = event['parent_block_hash'] ?? undefined
    expect(got.parent).toBe(parent === undefined ? undefined : toHash(parent))
    expect(got.tokens).toEqual(((event['token_ids'] ?? []) as (number | bigint)[]).map(Number))
    expect(got.session).toBe(event['session_id'])
    const extra = event['extra_keys'] as (string[] | null)[] | undefined
    expect(got.namespace).toBe(event['cache_salt'] ?? extra?.[0]?.[0])
  })
  return 1
}

function toHash(value: unknown): bigint {
  if (typeof value === 'bigint' || typeof value === 'number') return BigInt.asUintN(64, BigInt(value))
  return Buffer.from(value as Uint8Array).readBigUInt64BE((value as Uint8Array).length - 8)
}

it.each([
  {
    says: 'array store, rank 0',
    hex: '93cb00000000000000009198ab426c6f636b53746f726564910bc0920a0b02c0c0c000',
    dpRank: 0,
    events: [{ kind: 'stored', hashes: [11n], parent: undefined, tokens: [10, 11], blockSize: 2, tier: 0 }],
  },
  {
    says: 'map store with a negative hash in the host tier, no rank',
    hex: '93cb3ff80000000000009186a474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657391ffb1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f696473920a0baa626c6f636b5f73697a6502a66d656469756da94350555f5449455231c0',
    dpRank: -1,
    events: [{ kind: 'stored', hashes: [2n ** 64n - 1n], tokens: [10, 11], tier: 1 }],
  },
  {
    says: 'array removal with a full tail, then a clear, rank 1',
    hex: '93cb00000000000000009297ac426c6f636b52656d6f76656491cfffffffffffffffffc003ae66756c6c5f617474656e74696f6ec0a54c4f43414c91b0416c6c426c6f636b73436c656172656401',
    dpRank: 1,
    events: [{ kind: 'removed', hashes: [2n ** 64n - 1n], group: 3, attention: 1, locality: 0 }, { kind: 'cleared' }],
  },
])('reads the wire fixture: $says', ({ hex, dpRank, events }) => {
  for (const dialect of ['stock', 'upstream'] as const) {
    const result = read(fromHex(hex), dialect)
    expect(result).toMatchObject({ dpRank, events })
  }
})

it.each([
  ['vLLM to v0.10.1, SGLang to v0.5.8', ['BlockStored', [11], 5, [1, 2], 2, null], {}],
  ['vLLM v0.10.2, SGLang v0.5.9', ['BlockStored', [11], 5, [1, 2], 2, null, 'CPU_PINNED'], { tier: 1 }],
  ['vLLM v0.14', ['BlockStored', [11], 5, [1, 2], 2, null, 'GPU', 'sql'], { adapter: 'sql' }],
  [
    'vLLM v0.17',
    ['BlockStored', [11], 5, [1, 2], 2, null, 'GPU', 'sql', [['sql', 'tenant']]],
    { adapter: 'sql', namespace: 'tenant' },
  ],
  ['vLLM v0.20', ['BlockStored', [11], 5, [1, 2], 2, null, 'GPU', null, [null], 3], { group: 3 }],
  [
    'vLLM v0.22',
    ['BlockStored', [11], 5, [1, 2], 2, null, 'GPU', null, [null], 3, 'mamba', null],
    { group: 3, attention: 2 },
  ],
  [
    'SGLang v0.5.18, salted',
    ['BlockStored', [11], 5, [1, 2], 2, null, 'GPU', { cache_salt: 'tenant' }],
    { namespace: 'tenant', adapter: undefined },
  ],
])('reads the array form of %s', (_, event, expected) => {
  expect(only(send(event))).toMatchObject({ kind: 'stored', hashes: [11n], parent: 5n, tokens: [1, 2], ...expected })
})

it('reads fields in any order and ignores unknown ones', () => {
  const shuffled = { foo: [{ a: 1 }], block_size: 2, token_ids: [10, 11], block_hashes: [11], type: 'BlockStored' }
  expect(only(send(shuffled))).toMatchObject({ kind: 'stored', hashes: [11n], tokens: [10, 11], parent: undefined })
})

it('flattens bigrams to 10..14 and marks them', () => {
  const pairs = [
    [10, 11],
    [11, 12],
    [12, 13],
    [13, 14],
  ]
  expect(only(send({ ...store, block_hashes: [1, 2], token_ids: pairs }))).toMatchObject({
    tokens: [10, 11, 12, 13, 14],
    isEagle: true,
  })
})

it('reduces a 32-byte hash to its last eight bytes, which equal the integer form', () => {
  const digest = Uint8Array.from({ length: 32 }, (_, index) => index)
  expect(only(send({ ...store, block_hashes: [digest], parent_block_hash: digest }))).toMatchObject({
    hashes: [0x18191a1b1c1d1e1fn],
    parent: 0x18191a1b1c1d1e1fn,
  })
  expect(read(send({ ...store, block_hashes: [digest] }), 'upstream')).toEqual({ reason: 'bad_event' })
})

it('takes an empty medium for the device and an unknown one for neither', () => {
  expect(only(send({ ...store, medium: '' })).tier).toBe(0)
  expect(only(send(['BlockRemoved', [1], ''])).tier).toBe(0)
  expect(only(send({ ...store, medium: 'XYZ' })).tier).toBe(255)
  expect(['cpu', 'FS', 'OBJ'].map((medium) => only(send({ ...store, medium })).tier)).toEqual([1, 2, 2])
  expect(['cpu', 'FS', 'OBJ'].map((medium) => only(send({ ...store, medium }), 'upstream').tier)).toEqual([
    255, 255, 255,
  ])
})

const picture = 'a1b2c3d4e5f60718'.padEnd(64, '0')

it.each([
  ['a cache_salt', { cache_salt: 's' }, 's', 's'],
  ['a cache_salt that wins over the tag', { cache_salt: 's', extra_keys: [['dynamo-cache-salt:t']] }, 's', 's'],
  ['a tagged string', { extra_keys: [['dynamo-cache-salt:t']] }, 't', 't'],
  ['a tagged string behind the adapter', { lora_name: 'sql', extra_keys: [['sql', 'dynamo-cache-salt:t']] }, 't', 't'],
  [
    'a tagged string of 64 digits, which is no picture',
    { extra_keys: [[`dynamo-cache-salt:${picture}`]] },
    picture,
    picture,
  ],
  ['a bare string only when the engine is stock', { extra_keys: [['t']] }, 't', undefined],
  ['no namespace equal to the adapter', { lora_name: 'sql', extra_keys: [['sql']] }, undefined, undefined],
  ['no digest of prompt embeddings', { extra_keys: [[new Uint8Array(32)]] }, undefined, undefined],
  ['no tag without text', { extra_keys: [['dynamo-cache-salt:']] }, undefined, undefined],
  ['only block 0', { extra_keys: [null, ['dynamo-cache-salt:t']] }, undefined, undefined],
])('finds the namespace in %s', (_, fields, stock, upstream) => {
  expect(only(send({ ...store, ...fields })).namespace).toBe(stock)
  expect(only(send({ ...store, ...fields }), 'upstream').namespace).toBe(upstream)
})

it('takes media from pairs, from bare ids of the array form, and from block_mm_infos before both', () => {
  const hash = 0xa1b2c3d4e5f60718n
  expect(only(send({ ...store, extra_keys: [null, [[picture, 3]]] })).media).toEqual([[1, hash]])
  expect(only(send(['BlockStored', [11], null, [1, 2], 2, null, null, null, [[picture]]])).media).toEqual([[0, hash]])
  const infos = [{ mm_objects: [{ mm_hash: 42, offsets: [[0, 1]] }] }, null]
  expect(only(send({ ...store, extra_keys: [[[picture, 0]]], block_mm_infos: infos })).media).toEqual([[0, 42n]])
  expect(only(send({ ...store, block_mm_infos: infos, extra_keys: [[[picture, 0]]] })).media).toEqual([[0, 42n]])
  expect(only(send({ ...store, extra_keys: [[['my-own-id', 0]]] }))).toMatchObject({ media: [], isOpaque: true })
})

it('reads the tail by layout when the types fit, and by type when they do not', () => {
  const base = ['BlockStored', [11], null, [1, 2], 2, null, null, null, null]
  expect(only(send([...base, 1, 'mamba', 8, 'REMOTE', 'kvcr']))).toMatchObject({
    group: 1,
    attention: 2,
    locality: 1,
    ownership: 1,
  })
  expect(only(send([...base, null, 'full_attention', null, null, 'else', 'future']))).toMatchObject({
    group: -1,
    attention: 1,
    locality: 0,
    ownership: 2,
  })
  expect(only(send([...base, 'full_attention', 2]))).toMatchObject({ group: 2, attention: 1 })
  const infos = [{ mm_objects: [{ mm_hash: 7, offsets: [] }] }]
  expect(only(send([...base, infos, 2, null, 'mamba']))).toMatchObject({ group: 2, attention: 2, media: [[0, 7n]] })
  expect(only(send(['AllBlocksCleared', 'kvcr']))).toMatchObject({ kind: 'cleared', ownership: 1 })
})

it('keeps an adapter known only by number apart from the base model', () => {
  expect(only(send(['BlockStored', [11], null, [1, 2], 2, 4])).adapter).toBe('lora_id:4')
  expect(only(send({ ...store, lora_id: 4, lora_name: 'sql' })).adapter).toBe('sql')
  expect(only(send(['BlockStored', [11], null, [1, 2], 2, 4]), 'upstream').adapter).toBeUndefined()
})

it('accepts two elements, more than three, and a map as the envelope', () => {
  for (const batch of [[1, [store]], [1, [store], 2, 'more'], { ts: 1, events: [store], data_parallel_rank: 2 }]) {
    expect(read(encode(batch)).events).toHaveLength(1)
    expect(read(encode(batch), 'upstream')).toEqual({ reason: 'not_a_batch' })
  }
  expect(read(encode([1, [], -1])).dpRank).toBe(2 ** 32 - 1)
})

it('passes over what may only cost credit, and refuses what may leave false credit', () => {
  const good = { ...store, block_hashes: [7] }
  expect(read(send({ ...store, token_ids: 'x' }, good))).toMatchObject({ bad: 1, events: [{ hashes: [7n] }] })
  expect(read(send({ type: 'BlockTouched', block_hashes: [1] }, good))).toMatchObject({
    unknown: 1,
    events: [{ hashes: [7n] }],
  })
  expect(read(send({ type: 'BlockRemoved', block_hashes: [1.5] }, good))).toEqual({ reason: 'bad_removal' })
  expect(read(send({ type: 'BlockRemoved' }, good))).toEqual({ reason: 'bad_removal' })
  expect(read(send({ block_hashes: [1] }, good))).toEqual({ reason: 'bad_event' })
  expect(read(send({ type: 'BlockTouched' }, good), 'upstream')).toEqual({ reason: 'unknown_event' })
})

it.each([
  ['nothing', [], 'not_a_batch'],
  ['a number', [0x05], 'not_a_batch'],
  ['a list cut off', [0x93, 0xcb], 'truncated'],
  ['a count that no bytes can pay', [0xdd, 0xff, 0xff, 0xff, 0xff], 'truncated'],
  ['bytes behind the batch', [0x92, 0x01, 0x90, 0x00], 'trailing_bytes'],
  ['a text for a time', [0x92, 0xa0, 0x90], 'bad_timestamp'],
  ['a text for a rank', [0x93, 0x01, 0x90, 0xa0], 'bad_rank'],
  ['nothing for events', [0x92, 0x01, 0xc0], 'not_a_batch'],
])('refuses %s with a reason', (_, bytes, reason) => {
  expect(read(Uint8Array.from(bytes))).toEqual({ reason })
})
