import { expect, it } from 'vitest'
import { newMatchColumns, resetMatchColumns } from '../protocol/index.js'
import { cacheHitOf, effectiveBlocksOf, fillCachedTokens } from './cache-hits.js'

const weights = { hostCacheHitWeight: 0.75, diskCacheHitWeight: 0.25 }

function matchOf(rows: readonly (readonly [device: number, host: number, disk: number, external: number])[]) {
  const match = newMatchColumns()
  resetMatchColumns(match, rows.length)
  for (const [rank, [device, host, disk, external]] of rows.entries()) {
    match.device[rank] = device
    match.hostPinned[rank] = host
    match.disk[rank] = disk
    match.external[rank] = external
    if (host + disk + external > 0) match.hasLowerTiers = true
  }
  return match
}

it('weighs each tier once: 2 device, 1 host and 2 disk blocks are 3.25 blocks and 52 tokens', () => {
  const match = matchOf([
    [2, 1, 2, 0],
    [0, 1, 0, 0],
    [2, 1, 1, 1],
    [0, 0, 0, 0],
  ])
  const hits = [0, 1, 2, 3].map((rank) => cacheHitOf({ match }, rank, weights, 16))
  expect(hits.map((hit) => hit.effectiveOverlapBlocks)).toEqual([3.25, 0.75, 3.25, 0])
  expect(hits.map((hit) => hit.cachedTokens)).toEqual([52, 12, 52, 0])
})

it('gives nothing for a tier of weight zero, and nothing for a rank that is not listed', () => {
  const match = matchOf([[2, 4, 4, 4]])
  expect(effectiveBlocksOf({ match }, 0, { hostCacheHitWeight: 0, diskCacheHitWeight: 0 })).toBe(2)
  expect(effectiveBlocksOf({ match }, 1, weights)).toBe(0)
  expect(effectiveBlocksOf({ match, effectiveBlocks: Float64Array.of(1.5) }, 0, weights)).toBe(1.5)
  expect(effectiveBlocksOf({ match, effectiveBlocks: Float64Array.of(1.5) }, 1, weights)).toBe(0)
})

it('fills cached tokens for every rank, also beyond what the index knows', () => {
  const out = new Float64Array(3).fill(9)
  fillCachedTokens(
    out,
    {
      match: matchOf([
        [1, 0, 0, 0],
        [0, 1, 0, 0],
      ]),
    },
    weights,
    10,
  )
  expect([...out]).toEqual([10, 8, 0])
})
