import { stat } from 'node:fs'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { copyInSlices, decodeInSlices, encodeInSlices, joinInSlices, nextTurn, sliceIds } from './next-turn.js'
import { turnsDuring } from './turns.case.js'

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

it.each<[string, () => Promise<unknown>]>([
  ['copies bytes', () => copyInSlices(new Uint8Array(4 << 19))],
  ['joins ids', () => joinInSlices(new Uint32Array(3), new Uint32Array(4 * sliceIds))],
  ['encodes a text', () => encodeInSlices('é'.repeat(4 << 18))],
  ['decodes a text', () => decodeInSlices(new Uint8Array(4 << 18))],
])('%s in four slices, and lets others have three turns between them', async (_says, work) => {
  expect((await turnsDuring(work)).turns).toBeGreaterThanOrEqual(3)
})

it('lets a timer have its turn that is due, also where it is called while the loop looks at its sockets', async () => {
  const isFired = await new Promise<boolean>((resolve) => {
    stat('.', () => {
      let fired = false
      setTimeout(() => (fired = true), 0)
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5)
      void nextTurn().then(() => resolve(fired))
    })
  })
  expect(isFired).toBe(true)
})
