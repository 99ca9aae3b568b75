import fc from 'fast-check'
import { afterEach, expect, it, vi } from 'vitest'
import { BufferPool } from './buffer-pool.js'

const mib = 1024 * 1024

afterEach(() => vi.useRealTimers())

it('gives the same memory out again, and only what came back', () => {
  const pool = new BufferPool()
  const first = pool.take(200_000)
  const second = pool.take(200_000)
  expect(second.buffer).not.toBe(first.buffer)
  pool.give(first)
  const third = pool.take(150_000)
  expect([third.buffer === first.buffer, third.length]).toEqual([true, 150_000])
})

it('keeps nothing that is too small, strange, or given twice', () => {
  const pool = new BufferPool()
  for (const bytes of [0, 1, 1000]) pool.give(pool.take(bytes))
  pool.give(Buffer.alloc(65_536))
  pool.give(Buffer.alloc(2 * mib))
  expect(pool.keptBytes).toBe(0)
  const one = pool.take(65_536)
  pool.give(one)
  pool.give(one)
  expect(pool.keptBytes).toBe(65_536)
})

it('lends the shortest long memory that fits', () => {
  const pool = new BufferPool()
  const [short, long] = [pool.take(5 * mib), pool.take(40 * mib)]
  pool.give(long)
  pool.give(short)
  const again = pool.take(4 * mib)
  expect(again.buffer).toBe(short.buffer)
  expect(again).toHaveLength(4 * mib)
  expect(pool.take(6 * mib).buffer).toBe(long.buffer)
  expect(pool.keptBytes).toBe(0)
})

it('keeps the longest of what is long, and no more than about two bodies', () => {
  const pool = new BufferPool()
  const lent = [45, 2, 45, 3, 45].map((size) => pool.take(size * mib))
  for (const buffer of lent) pool.give(buffer)
  expect(pool.keptBytes).toBe(90 * mib)
})

it('forgets long memory some time after the last body that was long', () => {
  vi.useFakeTimers()
  const pool = new BufferPool()
  pool.give(pool.take(45 * mib))
  pool.give(pool.take(65_536))
  vi.advanceTimersByTime(9_000)
  pool.give(pool.take(20 * mib))
  vi.advanceTimersByTime(9_000)
  expect(pool.keptBytes).toBe(45 * mib + 65_536)
  vi.advanceTimersByTime(1_000)
  expect(pool.keptBytes).toBe(65_536)
})

// Goal: nobody ever has memory that somebody else has, and what is kept stays within bounds.
// Method: takes and gives in any order; each holder's memory is remembered in a plain set.
it('never lends one memory twice', () => {
  const bytes = fc.oneof(fc.integer({ min: 0, max: 1_100_000 }), fc.integer({ min: mib, max: 45 * mib }))
  const steps = fc.array(fc.record({ bytes, gives: fc.boolean() }), { maxLength: 60 })
  fc.assert(
    fc.property(steps, (all) => {
      const pool = new BufferPool()
      const held: Buffer[] = []
      for (const { bytes, gives } of all) {
        const buffer = pool.take(bytes)
        expect(buffer.length).toBe(bytes)
        if (bytes > 0) expect(held.some((other) => other.buffer === buffer.buffer)).toBe(false)
        held.push(buffer)
        if (gives) pool.give(held.splice(held.length >> 1, 1)[0]!)
        expect(pool.keptBytes).toBeLessThanOrEqual((16 + 96) * mib)
      }
    }),
    { numRuns: 50 },
  )
})
