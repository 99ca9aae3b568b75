import { expect, it } from 'vitest'
import { toHashColumn } from '../protocol/index.js'
import { ApplyReport } from './apply-report.js'
import { EventBatch } from './event-batch.js'
import { driver, range } from './prefix-index.case.js'
import { WasmIndex } from './wasm-index.js'

const seeds = { seedLo: 0x1234, seedHi: 0x5678 }
const make = (options = {}) => WasmIndex.create({ ...seeds, ...options })!

it('wasm: never traps when memory is out: stores are refused, removes go on', () => {
  const { store, remove, depth, index } = driver(make({ maxBytes: 3 << 20 }))
  let stored = 0
  while (store(stored % 4, range(1000 * stored, 1000 * stored + 499)) === 'ok') stored++
  expect(stored).toBeGreaterThan(10)
  expect(depth(1, range(1000, 1499))).toBe(500)
  expect(remove(1, range(1100, 1599))).toBe('ok')
  for (let rank = 0; rank < 8; rank++) index.clearRank(rank)
  expect(index.stats()).toMatchObject({ heldBlocks: 0, distinctBlocks: 0, holderSets: 0, aliases: 0 })
  expect(store(0, range(1, 500))).toBe('ok')
})

it('wasm: purges the ranks of a batch that does not fit into memory', () => {
  const { store, depth, index } = driver(make({ maxBytes: 2 << 20 }))
  store(0, [1, 2])
  store(1, [1, 2])
  expect(store(0, range(1, 200_000))).toBe('capacity_exhausted')
  expect([depth(0, [1, 2]), depth(1, [1, 2])]).toEqual([0, 2])
  expect(index.stats().heldBlocks).toBe(2)
})

it('wasm: keeps many different sets of ranks, and forgets each with its last block', () => {
  const index = make()
  const batch = new EventBatch()
  for (let block = 0; block < 4096; block++) {
    for (let rank = 0; rank < 12; rank++) {
      const one = toHashColumn([BigInt(block + 1)])
      if ((block >> rank) & 1) batch.stored(rank, undefined, one, one)
    }
  }
  index.apply(batch, new ApplyReport())
  expect(index.stats()).toMatchObject({ heldBlocks: 12 * 2048, distinctBlocks: 4095, holderSets: 4096 - 1 - 12 })
  for (let rank = 0; rank < 12; rank++) index.clearRank(rank)
  expect(index.stats()).toMatchObject({ heldBlocks: 0, distinctBlocks: 0, holderSets: 0 })
})

it('wasm: gives small runs small chunks', () => {
  const { store, index } = driver(make())
  const { bytesUsed: empty } = index.stats()
  for (let run = 0; run < 4000; run++) store(0, [1000 + 2 * run, 1001 + 2 * run])
  const { bytesUsed, distinctBlocks } = index.stats()
  expect((bytesUsed - empty) / distinctBlocks).toBeLessThan(220) // with chunks of 64 only it would be 750
})

it('wasm: a rank that goes while its table moves to pages that were used before leaves what others hold', () => {
  const { store, depth, index } = driver(make({ clearBlocksMax: 3 }))
  store(0, range(1, 3000)) // stays
  const growing = range(10_001, 14_000)
  for (let blocks = 400; blocks <= growing.length; blocks += 40) {
    store(1, range(50_001, 58_000)) // its pages, full of names, are the next ones to be taken
    index.clearRank(1)
    while (index.drain(500) > 0);
    for (let at = 0; at < blocks; at += 20)
      store(2, growing.slice(at, at + 20), at === 0 ? undefined : growing[at]! + 99) // names are hashes + 100
    expect(depth(2, growing)).toBe(blocks)
    index.clearRank(2)
    while (index.drain(500) > 0);
    expect(index.stats()).toMatchObject({ heldBlocks: 3000, distinctBlocks: 3000, aliases: 0 })
  }
  expect(depth(0, range(1, 3000))).toBe(3000)
})
