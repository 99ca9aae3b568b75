import fc from 'fast-check'
import { expect, it } from 'vitest'
import { RankTable } from './rank-table.js'

it('gives one pair one number, and reuses the lowest free number', () => {
  const table = new RankTable()
  expect([table.intern(7n, 0), table.intern(7n, 1), table.intern(2n ** 64n - 1n, 0), table.intern(7n, 0)]).toEqual([
    0, 1, 2, 0,
  ])
  table.release(1)
  table.release(0)
  expect(table.intern(9n, 4)).toBe(0)
  expect(table.ofWorker(7n)).toEqual([])
})

it('lists live ranks by worker id, then dp rank', () => {
  const table = new RankTable()
  for (const [worker, rank] of [
    [5n, 1],
    [3n, 0],
    [5n, 0],
  ] as const)
    table.intern(worker, rank)
  expect(table.live().map((rank) => table.pairOf(rank).workerId)).toEqual([3n, 5n, 5n])
  expect(table.ofWorker(5n).map((rank) => table.pairOf(rank).dpRank)).toEqual([0, 1])
})

// Goal: no order of interning and releasing gives one number to two pairs, or lets the table grow past its live peak.
it('agrees with a plain list of pairs', () => {
  const step = fc.record({ worker: fc.bigInt(0n, 3n), dp: fc.integer({ min: 0, max: 2 }), release: fc.boolean() })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const table = new RankTable()
      const model = new Map<string, number>()
      let peak = 0
      for (const { worker, dp, release } of steps) {
        const key = `${worker}/${dp}`
        if (release) {
          const rank = table.find(worker, dp)
          expect(rank).toBe(model.get(key))
          if (rank !== undefined) table.release(rank)
          model.delete(key)
        } else model.set(key, table.intern(worker, dp))
        peak = Math.max(peak, model.size)
        expect(new Set(model.values()).size).toBe(model.size)
        expect(table.size).toBeLessThanOrEqual(peak)
      }
    }),
  )
})
