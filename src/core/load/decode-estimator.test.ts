import fc from 'fast-check'
import { expect, it } from 'vitest'
import { DecodeEstimator, decodeGuess } from './decode-estimator.js'

const truth = { base: 9, slope: 1.8e-5 }
const contextOf = (i: number): number => (i * 7919) % 200_000

function learned(count: number, stepMs: (i: number, contextTokens: number) => number): DecodeEstimator {
  const estimator = new DecodeEstimator()
  for (let i = 0; i < count; i++) estimator.observe(contextOf(i), stepMs(i, contextOf(i)))
  return estimator
}

const exact = (_: number, contextTokens: number): number => truth.base + truth.slope * contextTokens

it('starts from a guess and learns the line', () => {
  const estimator = learned(500, exact)
  expect(new DecodeEstimator()).toMatchObject(decodeGuess)
  expect(estimator.base).toBeCloseTo(truth.base, 1)
  expect(estimator.slope / truth.slope).toBeCloseTo(1, 1)
  expect(estimator.stepMs(50_000)).toBeCloseTo(exact(0, 50_000), 1)
})

it('keeps to the guessed slope while contexts are all alike, and learns the step', () => {
  const estimator = new DecodeEstimator()
  for (let i = 0; i < 500; i++) estimator.observe(10_000, 20)
  expect(estimator.slope).toBeCloseTo(decodeGuess.slope, 9)
  expect(estimator.stepMs(10_000)).toBeCloseTo(20, 6)
})

it('one step in ten that takes ten times as long moves it little', () => {
  const estimator = learned(2000, (i, context) => (i > 50 && i % 10 === 0 ? 10 : 1) * exact(i, context))
  expect(estimator.stepMs(50_000) / exact(0, 50_000)).toBeLessThan(1.25)
})

it('follows an engine that has become slower for good', () => {
  const estimator = learned(6000, (i, context) => (i < 1000 ? 1 : 3) * exact(i, context))
  expect(estimator.stepMs(50_000) / exact(0, 50_000)).toBeCloseTo(3, 0)
})

// Goal: whatever is observed, what it says is a time.
it('is never negative and always a number', () => {
  const anyNumber = fc.oneof(fc.double(), fc.double({ min: 0, max: 1e6, noNaN: true }))
  fc.assert(
    fc.property(fc.array(fc.tuple(anyNumber, anyNumber), { maxLength: 60 }), fc.nat(1e6), (seen, contextTokens) => {
      const estimator = new DecodeEstimator()
      for (const [context, stepMs] of seen) estimator.observe(context, stepMs)
      for (const value of [estimator.base, estimator.slope, estimator.stepMs(contextTokens)]) {
        expect(Number.isFinite(value)).toBe(true)
        expect(value).toBeGreaterThanOrEqual(0)
      }
    }),
    // A step of 10^302 ms was believed, and then nothing was a number any more.
    {
      examples: [
        [
          [
            [0, 3.5953862697246355e302],
            [999_999.999999999, 5e-324],
            [0, 5e-324],
          ],
          0,
        ],
      ],
    },
  )
})
