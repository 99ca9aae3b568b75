import fc from 'fast-check'
import { expect, it } from 'vitest'
import { bootstrapRoom, bootstrapRooms } from './bootstrap-room.js'

const max = 2n ** 63n - 1n
const anyDraw = fc.bigInt(0n, max)
const anyRank = fc.tuple(fc.integer({ min: 1, max: 64 }), fc.nat(63)).filter(([size, rank]) => rank < size)

it('is rank 3 of 8 for a draw of 10: 83', () => {
  expect(bootstrapRoom(10n, 3, 8)).toBe(83n)
})

it('is the draw itself while the rank is unknown', () => {
  expect([bootstrapRoom(42n), bootstrapRoom(42n, 1), bootstrapRoom(42n, 1, 0)]).toEqual([42n, 42n, 42n])
})

it('leads to its rank and fits into 63 bits, also at the largest draw', () => {
  fc.assert(
    fc.property(fc.oneof(anyDraw, fc.constant(max)), anyRank, (draw, [size, rank]) => {
      const room = bootstrapRoom(draw, rank, size)
      expect(room % BigInt(size)).toBe(BigInt(rank))
      expect(room <= max && room >= 0n).toBe(true)
      expect(bootstrapRoom(draw, rank, size)).toBe(room)
    }),
  )
})

// What SGLang does with a room is room mod size; whatever else hashes rooms should find them spread as widely as the draws.
it('spreads rooms of one rank over all of their range', () => {
  const counts = new Uint32Array(8)
  let draw = 1n
  for (let at = 0; at < 8_000; at++) {
    draw = (draw * 6_364_136_223_846_793_005n + 1_442_695_040_888_963_407n) & (2n ** 64n - 1n)
    counts[Number(bootstrapRoom(draw >> 1n, at % 6, 6) >> 60n)]!++
  }
  expect(Math.min(...counts)).toBeGreaterThan(900)
  expect(Math.max(...counts)).toBeLessThan(1_100)
})

it('rooms of one request all lead to its rank, no two are alike, and a double holds each', () => {
  fc.assert(
    fc.property(
      fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
      anyRank,
      fc.integer({ min: 1, max: 300 }),
      (draw, [size, rank], count) => {
        const rooms = bootstrapRooms(draw, rank, size, count)
        expect(new Set(rooms).size).toBe(count)
        expect(rooms.every((room) => room % BigInt(size) === BigInt(rank) && room >= 0n)).toBe(true)
        expect(rooms.at(-1)! <= BigInt(Number.MAX_SAFE_INTEGER)).toBe(true)
      },
    ),
  )
})
