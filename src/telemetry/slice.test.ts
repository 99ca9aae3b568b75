import fc from 'fast-check'
import { expect, it } from 'vitest'
import { decimal, Slice } from './slice.js'

const head = 'name{l="ü"} '
const text = (slice: Slice): string => new TextDecoder().decode(slice.take())

function lineOf(value: number): string {
  const slice = new Slice(64)
  slice.addText(head).addValue(value)
  return text(slice)
}

it.each([
  [0, '0'],
  [-0, '0'],
  [9, '9'],
  [10, '10'],
  [999_999_999, '999999999'],
  [1_000_000_000, '1000000000'],
  [Number.MAX_SAFE_INTEGER, '9007199254740991'],
  [1e21, '1000000000000000000000'],
  [1e-7, '0.0000001'],
  [-1.5, '-1.5'],
  [Number.NaN, 'NaN'],
  [Number.POSITIVE_INFINITY, '+Inf'],
  [Number.NEGATIVE_INFINITY, '-Inf'],
])('writes %s as %s', (value, written) => {
  expect(lineOf(value)).toBe(`${head}${written}\n`)
})

it('writes every number as one that reads back as the same, without an exponent', () => {
  fc.assert(
    fc.property(
      fc.oneof(fc.double({ noNaN: true, noDefaultInfinity: true }), fc.integer(), fc.maxSafeNat()),
      (value) => {
        const written = lineOf(value).slice(head.length, -1)
        expect(written).toBe(decimal(value))
        expect(written).toMatch(/^-?\d+(\.\d+)?$/)
        expect(Number(written) === value).toBe(true)
      },
    ),
  )
})

it('grows for lines longer than itself, and begins anew when its bytes are taken', () => {
  const slice = new Slice(8)
  slice.addText('é'.repeat(100)).end()
  slice.addBytes(Buffer.from('name')).addText('{l="ü"} ').addValue(12)
  expect([slice.lines, slice.length]).toEqual([2, 201 + 16])
  const first = slice.take()
  slice.addText('next').end()
  expect(new TextDecoder().decode(first)).toBe(`${'é'.repeat(100)}\n${head}12\n`)
  expect(text(slice)).toBe('next\n')
})
