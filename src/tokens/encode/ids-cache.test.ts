// Goal: a cache that evicts never answers with the ids of another key, never exceeds its bytes, and counts what it does.
// Method: the same writes and reads drive the cache and a Map; a hit must equal the Map, a miss is always allowed.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { hashBytes } from '../vocabulary/vocabulary.js'
import { IdsCache } from './ids-cache.js'

const anyKey = fc.uint8Array({ maxLength: 6, max: 3 })

it('answers with what was written, or not at all, within its bytes', () => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ key: anyKey, ids: fc.array(fc.nat({ max: 9 }), { maxLength: 5 }), isWrite: fc.boolean() }), {
        maxLength: 300,
        size: 'max', // or nothing is ever evicted
      }),
      fc.integer({ min: 2048, max: 6000 }),
      fc.boolean(),
      (steps, bytesMax, collides) => {
        const cache = new IdsCache(bytesMax, 64)
        const model = new Map<string, number[]>()
        const out = new Uint32Array(16)
        let reads = 0
        let writes = 0
        for (const { key, ids, isWrite } of steps) {
          const hash = collides ? 7 : hashBytes(key, 0, key.length)
          const known = cache.read(hash, key, 0, key.length, out, 3)
          reads++
          if (known >= 0) expect([...out.subarray(3, 3 + known)]).toEqual(model.get(String(key)))
          else if (isWrite) {
            cache.write(hash, key, 0, key.length, Uint32Array.from(ids), 0, ids.length)
            model.set(String(key), ids)
            expect(cache.read(hash, key, 0, key.length, out, 0)).toBe(ids.length)
            reads++
            writes++
          }
          expect(cache.byteLength).toBeLessThanOrEqual(bytesMax)
        }
        const { hits, misses, evictions } = cache.takeCounts()
        expect(hits + misses).toBe(reads)
        expect(cache.entryCount + evictions).toBe(writes)
        expect(cache.counts).toEqual({ hits: 0, misses: 0, evictions: 0 })
      },
    ),
    { endOnFailure: true }, // making so long a list of steps shorter would take minutes
  )
})

it('has room for a long key that comes when the first ones fill it', () => {
  const cache = new IdsCache(80_000, 16_384) // 6,000 words for each of two generations
  const ids = Uint32Array.from({ length: 2000 }, (_, index) => index + 1)
  const out = new Uint32Array(16_384)
  const write = (hash: number, key: Uint8Array, count: number): void =>
    cache.write(hash, key, 0, key.length, ids, 0, count)
  write(1, new Uint8Array(8000).fill(1), 1500)
  const long = new Uint8Array(11_000).fill(2)
  write(2, long, 2000)
  expect(cache.read(2, long, 0, long.length, out, 0)).toBe(2000)
  write(3, new Uint8Array(100).fill(3), 20)
  const other = new Uint8Array(11_000).fill(2, 0, 8000) // goes on with zeros, as memory that was never written does
  expect(cache.read(2, other, 0, other.length, out, 0)).toBe(-1)
  expect(cache.byteLength).toBeLessThanOrEqual(80_000)
})

it('does not keep a key that is too long', () => {
  const cache = new IdsCache(1 << 16, 8)
  const key = new Uint8Array(64)
  cache.write(1, key, 0, 64, new Uint32Array(64), 0, 64)
  expect(cache.entryCount).toBe(0)
})

it('stays within its bytes however small its entries are', () => {
  const bytesMax = 2 * 12 * 8192 - 2 // as few slots as a share may have: they are short before the words are
  const cache = new IdsCache(bytesMax, 64)
  const ids = new Uint32Array(1)
  for (let index = 0; index < 50_000; index++) {
    const key = Uint8Array.of(index, index >>> 8)
    cache.write(hashBytes(key, 0, 2), key, 0, 2, ids, 0, 1)
    expect(cache.byteLength).toBeLessThanOrEqual(bytesMax)
  }
  expect(cache.counts.evictions).toBeGreaterThan(0)
  expect(cache.byteLength).toBeGreaterThan(bytesMax / 2) // both generations are there, and both are counted
})

it('keeps what is used, however much else comes and goes', () => {
  const cache = new IdsCache(4096, 64)
  const used = Uint8Array.of(1, 2, 3)
  const out = new Uint32Array(8)
  cache.write(9, used, 0, 3, Uint32Array.of(5, 6), 0, 2)
  for (let index = 0; index < 5000; index++) {
    const other = Uint8Array.of(index, index >>> 8)
    cache.write(hashBytes(other, 0, 2), other, 0, 2, out, 4, 1)
    if (index % 20 === 0) expect(cache.read(9, used, 0, 3, out, 0)).toBe(2)
  }
  expect([...out.subarray(0, 2)]).toEqual([5, 6])
  expect(cache.counts.evictions).toBeGreaterThan(4000)
})

it('has nothing any more once it is cleared', () => {
  const cache = new IdsCache(4096, 64)
  const keyOf = (index: number): Uint8Array => Uint8Array.of(index, index >>> 8)
  const out = new Uint32Array(8)
  const read = (index: number): number => cache.read(index, keyOf(index), 0, 2, out, 0)
  for (let index = 0; index < 100; index++) cache.write(index, keyOf(index), 0, 2, out, 0, 1)
  for (let index = 0; index < 5; index++) expect(read(index)).toBe(1) // these move to the young ones
  expect(cache.counts.evictions).toBe(0)
  cache.clear()
  expect([cache.entryCount, cache.byteLength, read(1), read(99)]).toEqual([0, 0, -1, -1])
  cache.write(1, keyOf(1), 0, 2, out, 0, 1)
  expect(cache.entryCount).toBe(1)
})
