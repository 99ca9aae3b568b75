import fc from 'fast-check'
import { expect, it } from 'vitest'
import { SharedCacheHits } from './shared-cache-hits.js'

it('counts hits at and after a position', () => {
  const hits = new SharedCacheHits([
    [4, 6],
    [0, 2],
  ])
  expect(hits.totalHits).toBe(4)
  expect([0, 1, 2, 4, 5, 6, 99].map((position) => hits.beyond(position))).toEqual([4, 3, 2, 2, 1, 0, 0])
})

it('joins ranges that touch, and drops empty ones', () => {
  expect(
    new SharedCacheHits([
      [2, 4],
      [3, 5],
      [5, 6],
      [9, 9],
    ]).ranges(),
  ).toEqual([[2, 6]])
  expect(new SharedCacheHits([]).totalHits).toBe(0)
})

it.each([
  [-1, 2],
  [0, Number.NaN],
  [0.5, 1],
  [0, 2 ** 32],
])('refuses %d..%d', (start, end) => {
  expect(() => new SharedCacheHits([[start, end]])).toThrow(expect.objectContaining({ code: 'WR_INVALID_ARGUMENT' }))
})

it('agrees with a plain set of positions', () => {
  const range = fc.tuple(fc.nat(20), fc.nat(20))
  fc.assert(
    fc.property(fc.array(range, { maxLength: 6 }), fc.nat(25), (ranges, position) => {
      const set = new Set(
        ranges.flatMap(([start, end]) => Array.from({ length: Math.max(0, end - start) }, (_, i) => start + i)),
      )
      const hits = new SharedCacheHits(ranges)
      expect(hits.totalHits).toBe(set.size)
      expect(hits.beyond(position)).toBe([...set].filter((it) => it >= position).length)
    }),
  )
})
