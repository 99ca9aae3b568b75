import fc from 'fast-check'
import { expect, it } from 'vitest'
import { LogHistogram, quantileOf } from './histogram.js'

it('gives every quantile of the values within 0.1 %', () => {
  const anyValues = fc.array(fc.double({ min: 0.01, max: 1e6, noNaN: true }), { minLength: 1, maxLength: 60 })
  fc.assert(
    fc.property(anyValues, fc.constantFrom(0.5, 0.9, 0.99, 1), (values, share) => {
      const histogram = new LogHistogram()
      for (const value of values) histogram.add(value)
      const exact = values.sort((a, b) => a - b)[Math.ceil(share * values.length) - 1]!
      expect(Math.abs(histogram.quantile(share) / exact - 1)).toBeLessThan(0.001)
      expect(histogram.mean).toBeCloseTo(values.reduce((sum, value) => sum + value, 0) / values.length, 3)
    }),
  )
})

it('has no quantile of nothing', () => {
  expect(new LogHistogram().quantile(0.99)).toBe(0)
  expect(quantileOf([], 0.5)).toBe(0)
})

it('draws a line between neighbours of few values', () => {
  expect(quantileOf([10, 20], 0.5)).toBe(15)
  expect(quantileOf([10, 20, 30], 0.99)).toBeCloseTo(29.8)
})
