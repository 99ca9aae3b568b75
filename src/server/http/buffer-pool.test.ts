import fc from 'fast-check'
import { expect, it } from 'vitest'
import { BufferPool } from './buffer-pool.js'

it('gives the same memory out again, and only what came back', () => {
  const pool = new BufferPool()
  const first = pool.take(200_000)
  const second = pool.take(200_000)
  expect(second.buffer).not.toBe(first.buffer)
  pool.give(first)
  const third = pool.take(150_000)
  expect([third.buffer === first.buffer, third.length]).toEqual([true, 150_000])
})

it('keeps nothing that is too small, too large, strange, or given twice', () => {
  const pool = new BufferPool()
  for (const bytes of [0, 1, 1000, 2 * 1024 * 1024]) pool.give(pool.take(bytes))
  pool.give(Buffer.alloc(65_536))
  expect(pool.keptBytes).toBe(0)
  const one = pool.take(65_536)
  pool.give(one)
  pool.give(one)
  expect(pool.keptBytes).toBe(65_536)
})

// Goal: nobody ever has memory that somebody else has, and what is kept stays within bounds.
// Method: takes and gives in any order; each holder's memory is remembered in a plain set.
it('never lends one memory twice', () => {
  const steps = fc.array(fc.record({ bytes: fc.integer({ min: 0, max: 1_100_000 }), gives: fc.boolean() }), {
    maxLength: 60,
  })
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
        expect(pool.keptBytes).toBeLessThanOrEqual(16 * 1024 * 1024)
      }
    }),
    { numRuns: 50 },
  )
})
