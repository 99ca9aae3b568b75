import { expect, it } from 'vitest'
import { fuzzDecoder } from './decoder-fuzz.case.js'

it('gives events or a reason for any bytes, and columns that hold together', () => {
  const totals = fuzzDecoder(7, 20_000)
  expect(totals.cases).toBe(20_000)
  expect(totals.decoded).toBeGreaterThan(1_000)
  expect(Object.keys(totals.refused).length).toBeGreaterThan(5)
})
