import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fillChances, pickLowest, pickSampled } from './pick.js'

function lowest(costs: number[], draw: number): number {
  return pickLowest(Float64Array.from(costs), costs.length, draw)
}

function sampled(costs: number[], temperature: number, draw: number): number {
  return pickSampled(Float64Array.from(costs), costs.length, temperature, draw, new Float64Array(costs.length))
}

function chances(costs: number[], temperature: number): number[] {
  const weights = new Float64Array(costs.length)
  const total = fillChances(Float64Array.from(costs), costs.length, temperature, weights)
  return [...weights].map((weight) => weight / total)
}

describe('at temperature 0', () => {
  it('takes the lowest cost, negative ones too', () => {
    expect([lowest([3, 1, 2], 0.9), lowest([-1, -5, 0], 0.9)]).toEqual([1, 1])
  })

  it('breaks exact ties uniformly by the draw, never by position', () => {
    const picks = [0, 0.24, 0.25, 0.49, 0.5, 0.74, 0.75, 0.999].map((draw) => lowest([1, 5, 1, 1, 9, 1], draw))
    expect(picks).toEqual([0, 0, 2, 2, 3, 3, 5, 5])
  })

  it('gives both of two tied rows their turn', () => {
    expect(new Set([0.1, 0.9].map((draw) => lowest([2, 2], draw)))).toEqual(new Set([0, 1]))
  })
})

describe('with a temperature', () => {
  it.each([
    [0.1, [0.99326, 0.00669, 0.000045]],
    [0.5, [0.66524, 0.24473, 0.09003]],
    [1, [0.50648, 0.3072, 0.18632]],
    [10, [0.35013, 0.33306, 0.31681]],
  ])('%d spreads the costs 2, 4, 6 as the table says', (temperature, expected) => {
    for (const [row, chance] of chances([2, 4, 6], temperature).entries()) expect(chance).toBeCloseTo(expected[row]!, 5)
  })

  it.each([
    [0.5, 0],
    [0.51, 1],
    [0.82, 2],
  ])('1 and a draw of %d picks row %d of 2, 4, 6', (draw, row) => {
    expect(sampled([2, 4, 6], 1, draw)).toBe(row)
  })

  it('a draw in the middle of a row’s share picks that row', () => {
    const costs = [2, 4, 6]
    let below = 0
    for (const [row, chance] of chances(costs, 1).entries()) {
      expect(sampled(costs, 1, below + chance / 2)).toBe(row)
      below += chance
    }
  })

  it('gives equal costs equal chances', () => {
    expect(chances([7, 7, 7, 7], 3)).toEqual([0.25, 0.25, 0.25, 0.25])
    expect([0.1, 0.3, 0.6, 0.9].map((draw) => sampled([7, 7, 7, 7], 3, draw))).toEqual([0, 1, 2, 3])
  })

  it('always returns the only row, at any temperature and cost', () => {
    for (const temperature of [0.001, 1, 1000])
      for (const cost of [-3, 0, 1e300]) expect(sampled([cost], temperature, 0.7)).toBe(0)
  })

  it('orders extreme finite costs without NaN', () => {
    const spread = chances([-Number.MAX_VALUE, 0, Number.MAX_VALUE], 1)
    expect(spread.every(Number.isFinite)).toBe(true)
    expect(spread[0]).toBeGreaterThan(spread[1]!)
    expect(spread[1]).toBeGreaterThan(spread[2]!)
  })

  it('too small to tell rows apart takes the lowest', () => {
    expect(sampled([2, 1, 3], Number.MIN_VALUE, 0.99)).toBe(1)
  })
})

// Goal: the pick is the brute-force pick, and no finite input makes it leave the table or take an impossible row.
it('agrees with brute force', () => {
  const cost = fc.oneof(fc.constantFrom(0, 1, 2), fc.double({ noNaN: true, noDefaultInfinity: true }))
  const draw = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
  const temperature = fc.double({ min: 0.01, max: 100, noNaN: true })
  fc.assert(
    fc.property(fc.array(cost, { minLength: 1, maxLength: 12 }), draw, temperature, (costs, u, t) => {
      const least = Math.min(...costs)
      const ties = costs.flatMap((it, row) => (it === least ? [row] : []))
      expect(lowest(costs, u)).toBe(ties[Math.floor(u * ties.length)])
      const row = sampled(costs, t, u)
      const shares = chances(costs, t)
      if (shares.some(Number.isNaN)) {
        expect(row).toBe(lowest(costs, u)) // the range is too small to divide
        return
      }
      const before = shares.slice(0, row).reduce((sum, it) => sum + it, 0)
      if (row < costs.length - 1) expect(before + shares[row]!).toBeGreaterThanOrEqual(u)
      if (row > 0) expect(before).toBeLessThan(u)
    }),
  )
})
