import { describe, expect, it } from 'vitest'
import { toBigInts } from '../protocol/index.js'
import {
  BlockHashes,
  blockSeed,
  computeBlockHashes,
  computeSequenceHashes,
  createHashScheme,
  padValue,
  toBlockMedia,
  xxh3,
} from './index.js'
import { hashers, liveVectors, toInfos, vectors } from './vectors.case.js'

const utf8 = (text: string) => new TextEncoder().encode(text)

it.each(vectors.xxh3_raw)('hashes "$data_utf8" under seed $seed', ({ data_utf8, seed, hash }) => {
  expect(xxh3(utf8(data_utf8), BigInt(seed))).toBe(BigInt(hash))
})

it.each(vectors.seeds)('seeds blocks of adapter $lora_name in namespace $cache_namespace', (vector) => {
  const { lora_name: loraName, cache_namespace: cacheNamespace, seed } = vector
  expect(blockSeed({ loraName, cacheNamespace })).toBe(BigInt(seed))
})

it.each(vectors.pad_values)('stands for image $mm_hash with token $pad_value', ({ mm_hash, pad_value }) => {
  expect(padValue(BigInt(mm_hash))).toBe(pad_value)
})

describe.each(hashers)('$backend', (hasher) => {
  it.each(vectors.blocks)('hashes and chains the blocks of vector $id', (vector) => {
    const { lora_name: loraName, cache_namespace: cacheNamespace, is_eagle: isEagle, block_mm_hashes } = vector.options
    const scheme = createHashScheme({ blockSize: vector.block_size, loraName, cacheNamespace, isEagle })
    const infos = toInfos(block_mm_hashes)
    const hashes = new BlockHashes()
    hasher.hash(Uint32Array.from(vector.tokens), scheme, hashes, infos && toBlockMedia(infos))
    expect(toBigInts(hashes.localColumn())).toEqual(vector.local_hashes.map(BigInt))
    expect(toBigInts(hashes.sequenceColumn())).toEqual(vector.sequence_hashes.map(BigInt))
    expect(toBigInts(scheme.seeds)[0]).toBe(BigInt(vector.seed))
  })

  it.each(vectors.chains)('chains $local_hashes', ({ local_hashes, sequence_hashes }) => {
    expect(computeSequenceHashes(local_hashes.map(BigInt), hasher)).toEqual(sequence_hashes.map(BigInt))
  })

  it('hashes an image block as its pad tokens', () => {
    const { tokens_after_substitution: tokens, block_size, local_hash } = vectors.pad_value_block
    expect(computeBlockHashes(tokens, block_size, { hasher })).toEqual([BigInt(local_hash)])
  })

  it.each(liveVectors)('names the blocks as a live Dynamo %s did', (_version, live) => {
    const local = computeBlockHashes(live.token_ids, live.block_size, { hasher })
    expect(local).toEqual(live.tokens_hash.map(BigInt))
    expect(computeSequenceHashes(local, hasher)).toEqual(live.block_hash.map(BigInt))
  })
})
