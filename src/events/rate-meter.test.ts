import fc from 'fast-check'
import { expect, it } from 'vitest'
import { RateMeter } from './rate-meter.js'

it('is the mean of the last ten whole seconds, whatever was before', () => {
  const steps = fc.array(fc.record({ pause: fc.double({ min: 0, max: 15, noNaN: true }), count: fc.nat(9) }))
  fc.assert(
    fc.property(steps, (given) => {
      const meter = new RateMeter()
      const seen: { readonly second: number; readonly count: number }[] = []
      let now = 1_000
      for (const { pause, count } of given) {
        now += pause
        meter.add(now, count)
        seen.push({ second: Math.floor(now), count })
        const last = Math.floor(now)
        const inWindow = seen.filter(({ second }) => second < last && second >= last - 10)
        const wanted = inWindow.reduce((sum, it) => sum + it.count, 0) / 10
        expect(meter.perSecond(now)).toBeCloseTo(wanted, 9)
      }
    }),
  )
})

it('is zero before anything was counted', () => {
  expect(new RateMeter().perSecond(5)).toBe(0)
})
