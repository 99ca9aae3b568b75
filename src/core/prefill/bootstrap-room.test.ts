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
