import fc from 'fast-check'
import { expect, it } from 'vitest'
import { copyInSlices, decodeInSlices, encodeInSlices } from './next-turn.js'

it('encodes and decodes a text in slices as in one go, halves of characters included', async () => {
  const units = fc.constantFrom('a', '\ufeff', 'é', '好', '👩', '\ud83d', '\udc69')
  await fc.assert(
    fc.asyncProperty(fc.array(units, { maxLength: 40 }), fc.integer({ min: 2, max: 9 }), async (parts, slice) => {
      const text = parts.join('')
      const expected = [...new TextEncoder().encode(text)]
      const before = Uint8Array.of(7, 8, 9)
      expect([...(await encodeInSlices(text, undefined, slice))]).toEqual(expected)
      expect([...(await encodeInSlices(text, before, slice))]).toEqual([...before, ...expected])
      expect(await decodeInSlices(Uint8Array.from(expected), slice)).toBe(text.toWellFormed())
    }),
    { numRuns: 300 },
  )
})

it('copies bytes into memory of their own', async () => {
  const bytes = Uint8Array.from({ length: (2 << 20) + 5 }, (_, at) => at % 251)
  const copy = await copyInSlices(bytes.subarray(3), 2)
  expect(copy.buffer.byteLength).toBe(bytes.length - 3 + 2)
  expect(Buffer.from(copy.buffer, 0, bytes.length - 3).equals(bytes.subarray(3))).toBe(true)
})
