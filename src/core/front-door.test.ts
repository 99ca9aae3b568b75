// What somebody who imports `warmroute/core` can do with it alone: keep an index of prefixes and ask it.
import { expect, it } from 'vitest'
import {
  BlockHashes,
  computeBlockHashes,
  computeSequenceHashes,
  createBlockHasher,
  createHashScheme,
  createPrefixIndex,
  KvIndex,
  newMatchColumns,
  newRouterEvent,
  RankTable,
} from './index.js'

it('an index is made, told of a store, and asked with tokens', () => {
  const ranks = new RankTable()
  const device = createPrefixIndex({ seedLo: 1, seedHi: 2, maxBlocks: 1000 })
  const index = new KvIndex({ ranks, device, startMs: 0, seed: 3 })
  const tokens = Uint32Array.from({ length: 40 }, (_, at) => at)
  const local = computeBlockHashes(tokens, 16)
  const blocks = computeSequenceHashes(local).map((blockHash, at) => {
    return { blockHash, tokensHash: local[at]!, mmExtraInfo: null }
  })
  const data = { kind: 'stored', parentHash: null, startPosition: null, blocks } as const
  index.applyEvents([newRouterEvent({ workerId: 7n, dpRank: 0 }, 1n, data)])
  const hashes = new BlockHashes((blockCount) => index.promptColumn(blockCount))
  createBlockHasher().hash(tokens, createHashScheme({ blockSize: 16 }), hashes)
  const matches = newMatchColumns()
  index.findMatches(hashes.local, hashes.count, matches)
  expect(matches.device[ranks.find(7n, 0)!]).toBe(2)
})
