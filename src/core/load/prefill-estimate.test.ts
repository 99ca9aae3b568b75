import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { OnlineEstimator } from './online-estimator.js'
import type { PrefillCoefficients } from './prefill-estimate.js'
import { evaluate, mockerCoefficients, PolynomialEstimator, TableEstimator } from './prefill-estimate.js'

const h200: PrefillCoefficients = { base: 6.38, perToken: 2.24e-2, perToken2: 6.4e-7, perTokenPrefix: 2.065e-6 }

it('prices the simulator polynomial', () => {
  const estimate = new PolynomialEstimator(mockerCoefficients)
  expect(estimate.predictMs(1n, 8192, 0)).toBeCloseTo(4.209989e-7 * 8192 ** 2 + 1.518344e-2 * 8192 + 16.50142, 9)
  expect(estimate.predictMs(1n, 0, 500)).toBe(0)
})

it('refuses coefficients and points that are no numbers', () => {
  expect(() => new PolynomialEstimator({ ...h200, base: Number.NaN })).toThrow('base')
  expect(() => new TableEstimator([{ newTokens: 0, prefixTokens: 0, ms: 1 }])).toThrow('below zero')
  expect(() => new TableEstimator([])).toThrow('at least one row')
})

it('interpolates a table along both axes, and continues it beyond its end', () => {
  const table = new TableEstimator([
    { newTokens: 100, prefixTokens: 0, ms: 10 },
    { newTokens: 200, prefixTokens: 0, ms: 20 },
    { newTokens: 100, prefixTokens: 1000, ms: 30 },
    { newTokens: 200, prefixTokens: 1000, ms: 40 },
  ])
  const at = (newTokens: number, prefix: number): number => table.predictMs(1n, newTokens, prefix)
  expect([at(100, 0), at(150, 0), at(150, 500), at(300, 0), at(50, 0), at(0, 0)]).toEqual([10, 15, 25, 30, 10, 0])
})

/** A small deterministic generator: the estimator is judged on many shapes of noise, not on one. */
function noise(seed: number): () => number {
  let state = seed >>> 0 || 1
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 32
  }
}

function taught(
  seed: number,
  options: { outliers?: number; slow?: ReadonlySet<bigint>; count?: number; prior?: PrefillCoefficients } = {},
): OnlineEstimator {
  const random = noise(seed)
  const estimator = new OnlineEstimator(options.prior ? { prior: options.prior } : {})
  for (let i = 0; i < (options.count ?? 400); i++) {
    const newTokens = 64 + Math.floor(random() ** 2 * 8000)
    const prefix = Math.floor(random() ** 2 * 30_000)
    const worker = BigInt(Math.floor(random() * 8))
    let ms = evaluate(h200, newTokens, prefix) * (0.9 + 0.2 * random())
    if (options.slow?.has(worker)) ms *= 2
    if (random() < (options.outliers ?? 0)) ms *= 20
    estimator.observe(worker, newTokens, prefix, ms)
  }
  return estimator
}

function worstError(estimator: OnlineEstimator, worker = 0n, factor = 1): number {
  const cases = [200, 1000, 4000, 8000].flatMap((n) => [0, 4000, 20_000].map((p) => [n, p] as const))
  return Math.max(
    ...cases.map(([n, p]) => Math.abs((estimator.predictMs(worker, n, p) ?? 0) / (factor * evaluate(h200, n, p)) - 1)),
  )
}

describe('learning', () => {
  it('says nothing before it has seen enough, unless it was given something to believe', () => {
    expect(new OnlineEstimator().predictMs(1n, 100, 0)).toBeUndefined()
    expect(new OnlineEstimator({ prior: h200 }).predictMs(1n, 1000, 0)).toBeCloseTo(evaluate(h200, 1000, 0), 6)
  })

  it.each([1, 2, 3, 4, 5])('finds the shape, prefix term included, from noisy observations (seed %s)', (seed) => {
    const estimator = taught(seed)
    expect(worstError(estimator)).toBeLessThan(0.15)
    expect(estimator.errorRatio).toBeLessThan(0.12)
  })

  it.each([1, 2, 3])('is moved little by outliers (seed %s)', (seed) => {
    expect(worstError(taught(seed, { outliers: 0.02, count: 1500 }))).toBeLessThan(0.6)
  })

  it.each([1, 2, 3])('leaves a wrong prior (seed %s)', (seed) => {
    const wrong = { base: 100, perToken: 0.1, perToken2: 0, perTokenPrefix: 0 }
    expect(worstError(taught(seed, { prior: wrong, count: 1500 }))).toBeLessThan(0.25)
  })

  it('finds the workers that are slower than the fleet, and leaves the others at 1', () => {
    const slow = new Set([5n])
    const estimator = taught(1, { slow, count: 1500 })
    expect(estimator.speedOf(5n)).toBeGreaterThan(1.6)
    expect(estimator.speedOf(5n)).toBeLessThan(2.4)
    for (const worker of [0n, 1n, 2n, 3n]) expect(estimator.speedOf(worker)).toBe(1)
    estimator.removeWorker(5n)
    expect(estimator.speedOf(5n)).toBe(1)
  })

  it('ignores what no clock can have shown, and never predicts below zero', () => {
    const value = fc.constantFrom(0, -1, 1, 1000, Number.NaN, Number.POSITIVE_INFINITY, 1e12)
    fc.assert(
      fc.property(fc.array(fc.tuple(value, value, value), { maxLength: 50 }), (observations) => {
        const estimator = new OnlineEstimator({ prior: h200 })
        for (const [newTokens, prefix, ms] of observations) estimator.observe(1n, newTokens, prefix, ms)
        const predicted = estimator.predictMs(1n, 1000, 1000)
        expect(predicted! >= 0 && Number.isFinite(predicted)).toBe(true)
      }),
    )
  })

  it('knows at most so many workers', () => {
    const estimator = new OnlineEstimator({ prior: h200, workersMax: 3 })
    const slow = new Set([2n, 9n])
    for (let i = 0; i < 40; i++) {
      for (let worker = 0n; worker < 10n; worker++) estimator.observe(worker, 1000, 0, slow.has(worker) ? 90 : 30)
    }
    expect(estimator.speedOf(2n)).toBeGreaterThan(1.5)
    expect(estimator.speedOf(9n)).toBe(1) // one too many to be known
  })
})

describe('learning without end', () => {
  type Prompts = (draw: () => number) => readonly [newTokens: number, prefixTokens: number]
  const workloads: readonly (readonly [name: string, prompts: Prompts])[] = [
    ['prompts of any length', (draw) => [1 + Math.floor(draw() * 6000), Math.floor(draw() * 30_000)]],
    ['prompts of one length', () => [512, 0]],
    ['never a cached prefix', (draw) => [1 + Math.floor(draw() * 6000), 0]],
  ]

  it.each(workloads)(
    '%s: as well after sixty thousand prefills as at first, and a fleet that changes is followed',
    (_, prompts) => {
      const online = new OnlineEstimator()
      const draw = noise(5)
      const teach = (prefills: number, factor: number): void => {
        for (let turn = 0; turn < prefills; turn++) {
          const [tokens, prefix] = prompts(draw)
          online.observe(
            BigInt(turn % 8),
            tokens,
            prefix,
            factor * evaluate(h200, tokens, prefix) * (0.95 + 0.1 * draw()),
          )
        }
      }
      const worst = (factor: number): number =>
        Math.max(
          ...Array.from({ length: 50 }, () => {
            const [tokens, prefix] = prompts(draw)
            return Math.abs(Math.log(online.predictMs(1n, tokens, prefix)! / (factor * evaluate(h200, tokens, prefix))))
          }),
        )
      teach(60_000, 1)
      expect(worst(1)).toBeLessThan(0.05)
      teach(6000, 2)
      expect(worst(2)).toBeLessThan(0.35) // not at all would be 0.69
    },
  )
})
