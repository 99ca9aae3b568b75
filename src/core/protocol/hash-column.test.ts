import fc from 'fast-check'
import { expect, it } from 'vitest'
import { hashAt, toBigInts, toHashColumn } from './hash-column.js'

it('keeps every 64-bit value, signed ones by their bits', () => {
  fc.assert(
    fc.property(fc.array(fc.bigInt(-(2n ** 63n), 2n ** 64n - 1n)), (values) => {
      expect(toBigInts(toHashColumn(values))).toEqual(values.map((value) => BigInt.asUintN(64, value)))
    }),
  )
})

it('has the byte order of a little-endian u64', () => {
  const column = toHashColumn([0x0123_4567_89ab_cdefn])
  expect(new BigUint64Array(column.buffer)[0]).toBe(hashAt(column, 0))
})
