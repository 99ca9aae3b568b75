// Prompts that are written where the index looks them up: what happens when that memory grows, ends, or is too small.
import { describe, expect, it } from 'vitest'
import { BlockHashes, createBlockHasher, createHashScheme } from '../hashing/index.js'
import { type HashColumn, newHashColumn, toBigInts } from '../protocol/index.js'
import { ApplyReport } from './apply-report.js'
import { createPrefixIndex } from './create-prefix-index.js'
import { EventBatch } from './event-batch.js'
import type { PrefixIndex } from './prefix-index.js'
import { WasmIndex } from './wasm-index.js'

const seeds = { seedLo: 0x1234, seedHi: 0x5678 }
const hasher = createBlockHasher()
const scheme = createHashScheme({ blockSize: 1 })
const tokensFrom = (first: number, count: number) => Uint32Array.from({ length: count }, (_, at) => first + at)

function hashed(first: number, count: number): BlockHashes {
  const hashes = new BlockHashes()
  hasher.hash(tokensFrom(first, count), scheme, hashes)
  return hashes
}

/** Stores the prompt at rank 0, under its sequence hashes. */
function store(index: PrefixIndex, { local, sequence, count }: BlockHashes): void {
  const batch = new EventBatch()
  batch.stored(0, undefined, sequence, local, count)
  index.apply(batch, new ApplyReport())
}

function depthOf(index: PrefixIndex, local: HashColumn, count: number): number {
  const depths = new Uint32Array(1)
  index.find(local, count, depths)
  return depths[0]!
}

describe.each([1, 3])('in %d shards', (shards) => {
  it('a prompt is hashed into the index’s memory, and again once that has grown', () => {
    const index = createPrefixIndex({ ...seeds, implementation: 'wasm', shards })
    const prompt = new BlockHashes((blocks) => index.promptColumn(blocks))
    store(index, hashed(1, 300))
    hasher.hash(tokensFrom(1, 400), scheme, prompt)
    const before = prompt.local
    expect(depthOf(index, prompt.local, prompt.count)).toBe(300)
    for (let first = 1000; before.length > 0; first += 5000) store(index, hashed(first, 5000))
    expect(prompt.isWhole).toBe(false)
    expect(hasher.extend(prompt, tokensFrom(1, 500), scheme)).toBe(0) // what was known is gone with the memory
    expect(prompt.isWhole).toBe(true)
    expect(depthOf(index, prompt.local, prompt.count)).toBe(300)
    expect(hasher.extend(prompt, tokensFrom(1, 9000), scheme)).toBe(500) // a wider place, and the first hashes kept
    expect([...prompt.localColumn()]).toEqual([...hashed(1, 9000).localColumn()])
    expect(depthOf(index, prompt.local, prompt.count)).toBe(300)
  })
})

it('reading takes no column back, however long the prompts that are read', () => {
  const index = createPrefixIndex({ ...seeds, implementation: 'wasm' })
  const long = hashed(1, 60_000)
  store(index, long)
  const column = index.promptColumn(100)
  column.set(hashed(1, 100).localColumn())
  expect(depthOf(index, long.local, long.count)).toBe(60_000)
  expect(index.chain(0, long.local, long.count, newHashColumn(60_000))).toBe(60_000)
  expect(index.chain(0, column, 100, newHashColumn(100))).toBe(100)
  expect(depthOf(index, column, 100)).toBe(100)
  index.sharing()
  index.hottest()
  index.holds(0, long.sequence)
  expect([...column.subarray(0, 200)]).toEqual([...long.local.subarray(0, 200)])
})

it('a restored index takes what was written for the old one as any other prompt', () => {
  const index = createPrefixIndex({ ...seeds, implementation: 'wasm' })
  store(index, hashed(1, 20))
  const column = index.promptColumn(30)
  column.set(hashed(1, 30).localColumn())
  index.restore(index.snapshot())
  expect(depthOf(index, column, 30)).toBe(20)
})

it('a prompt that is longer than the index’s room has a column of its own, and is looked up and named in parts', () => {
  const index = createPrefixIndex({ ...seeds, implementation: 'wasm' })
  const count = 140_000
  const known = hashed(1, count)
  store(index, known)
  const prompt = new BlockHashes((blocks) => index.promptColumn(blocks))
  hasher.hash(tokensFrom(1, count), scheme, prompt)
  expect(depthOf(index, prompt.local, count)).toBe(count)
  const names = newHashColumn(count)
  expect(index.chain(0, known.local, count, names)).toBe(count)
  expect(toBigInts(names)).toEqual(toBigInts(known.sequenceColumn()))
})

it('without memory left, prompts have columns of their own and are looked up in parts', () => {
  const index = WasmIndex.create({ ...seeds, maxBytes: 3 << 20 })!
  const known = hashed(1, 20_000)
  store(index, known)
  const report = new ApplyReport()
  const batch = new EventBatch()
  for (let first = 1_000_000; report.statusOf(0) !== 'capacity_exhausted'; first += 500) {
    const { local, sequence, count } = hashed(first, 500)
    batch.clear()
    batch.stored(1, undefined, sequence, local, count)
    index.apply(batch, report)
  }
  const prompt = new BlockHashes((blocks) => index.promptColumn(blocks))
  hasher.hash(tokensFrom(1, 20_000), scheme, prompt)
  expect(depthOf(index, prompt.local, 20_000)).toBe(20_000)
  expect(index.chain(0, prompt.local, 20_000, newHashColumn(20_000))).toBe(20_000)
})

it('refuses to be made with less memory than its own buffers take', () => {
  expect(() => WasmIndex.create({ ...seeds, maxBytes: 1000 })).toThrow('too little memory for an index')
})
