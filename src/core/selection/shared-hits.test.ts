import fc from 'fast-check'
import { expect, it } from 'vitest'
import { SharedCacheHits } from './shared-hits.js'

it('counts hits from a position on, inside and between ranges', () => {
  const hits = new SharedCacheHits([
    [1, 3],
    [5, 5],
    [6, 9],
  ])
  expect([0, 1, 2, 3, 6, 8, 9, 99].map((position) => hits.hitsBeyond(position))).toEqual([5, 5, 4, 3, 3, 1, 0, 0])
  expect([hits.totalHits, new SharedCacheHits([]).hitsBeyond(0)]).toEqual([5, 0])
})

it.each([
  { says: 'nothing', hits: [], ranges: [] },
  { says: 'misses', hits: [0, 0], ranges: [] },
  { says: 'a run', hits: [1, 1, 1], ranges: [[0, 3]] },
  {
    says: 'runs between misses',
    hits: [1, 0, 1, 1, 0, 0, 1],
    ranges: [
      [0, 1],
      [2, 4],
      [6, 7],
    ],
  },
])('builds ranges from one answer per block: $says', ({ hits, ranges }) => {
  const built = SharedCacheHits.fromHits(hits.map((hit) => hit === 1))
  expect(built.ranges()).toEqual(ranges)
  expect(built.totalHits).toBe(hits.filter((hit) => hit === 1).length)
})

it.each([
  [[[3, 1]]],
  [
    [
      [0, 4],
      [2, 6],
    ],
  ],
  [[[-1, 2]]],
  [[[0, Number.NaN]]],
  [[[0, Number.POSITIVE_INFINITY]]],
  [[[0.5, 2]]],
] as [[number, number][]][])('refuses ranges that are none: %o', (ranges) => {
  expect(() => new SharedCacheHits(ranges)).toThrow(expect.objectContaining({ code: 'WR_INVALID_ARGUMENT' }))
})

it('agrees with counting positions one by one', () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.nat({ max: 30 })), fc.nat({ max: 32 }), (positions, from) => {
      const sorted = positions.sort((a, b) => a - b)
      const hits = new SharedCacheHits(sorted.map((position) => [position, position + 1] as const))
      expect(hits.hitsBeyond(from)).toBe(sorted.filter((position) => position >= from).length)
    }),
  )
})
