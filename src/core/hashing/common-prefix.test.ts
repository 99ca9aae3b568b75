import fc from 'fast-check'
import { expect, it } from 'vitest'
import { commonPrefix } from './common-prefix.js'

it.each([
  { says: 'nothing', a: [], b: [], shared: 0 },
  { says: 'one prompt that continues the other', a: [1, 2, 3], b: [1, 2, 3, 4], shared: 3 },
  { says: 'different first tokens', a: [1, 2], b: [2, 2], shared: 0 },
  { says: 'tokens whose halves look like zero and minus zero', a: [0, 0x8000_0000], b: [0, 0], shared: 1 },
])('$says', ({ a, b, shared }) => {
  expect(commonPrefix(Uint32Array.from(a), Uint32Array.from(b))).toBe(shared)
})

it('finds the first difference wherever it lies, with and without the comparison of the platform', () => {
  const anyCase = fc.record({
    length: fc.integer({ min: 1, max: 5000 }),
    at: fc.nat({ max: 4999 }),
    offset: fc.integer({ min: 0, max: 3 }),
    extra: fc.integer({ min: 0, max: 40 }),
    known: fc.double({ min: 0, max: 1, noNaN: true }),
  })
  fc.assert(
    fc.property(anyCase, ({ length, at, offset, extra, known }) => {
      const a = Uint32Array.from({ length: length + offset }, (_, token) => token * 7).subarray(offset)
      const b = new Uint32Array(length + extra)
      b.set(a)
      if (at < length) b[at] = b[at]! ^ 0x8000_0000
      const expected = Math.min(at, length)
      expect(commonPrefix(a, b)).toBe(expected)
      expect(commonPrefix(b, a)).toBe(expected)
      expect(commonPrefix(a, b, 0, null)).toBe(expected)
      expect(commonPrefix(a, b, Math.floor(known * expected))).toBe(expected)
    }),
    { numRuns: 300 },
  )
})
