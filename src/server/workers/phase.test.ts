import fc from 'fast-check'
import { expect, it } from 'vitest'
import { phaseOf, Round, Turns } from './phase.js'

it.each([10, 300, 1000, 5000])('of %i workers no part of a period has much more than its share', (count) => {
  for (const first of [1n, 77n, 2n ** 63n]) {
    const shares = Array.from({ length: count / 10 }, () => 0)
    for (let at = 0; at < count; at++) {
      const phase = phaseOf(first + BigInt(at))
      expect(phase >= 0 && phase < 1).toBe(true)
      shares[Math.floor((phase * count) / 10)]!++
    }
    expect(Math.max(...shares)).toBeLessThanOrEqual(13) // 10 would be even
  }
})

it('a worker that is looked at when its moment has come is looked at once in every period, however early or late the timer', () => {
  const late = fc.double({ min: -0.9, max: 30, noNaN: true })
  fc.assert(
    fc.property(
      fc.bigInt(0n, 5000n),
      fc.double({ min: 0, max: 1e6, noNaN: true }),
      fc.array(late),
      (id, start, lates) => {
        const periodMs = 100
        const turns = new Turns(phaseOf(id), periodMs)
        let nowMs = start
        let before = -1
        for (const it of lates) {
          const waitMs = turns.waitMs(nowMs)
          expect(waitMs > 0 && waitMs <= periodMs + 1).toBe(true)
          const momentMs = nowMs + waitMs
          if (before >= 0) expect(momentMs - before).toBeCloseTo(periodMs, 6)
          before = momentMs
          nowMs = momentMs + it
        }
      },
    ),
  )
})

it('one that missed its moments waits for the next one alone', () => {
  const turns = new Turns(0.25, 100)
  expect(turns.waitMs(0)).toBe(25)
  expect(turns.waitMs(30)).toBe(95)
  expect(turns.waitMs(560)).toBe(65)
})

// Goal: nobody is left out of a round or looked at twice in it. Method: any steps; the looks at each phase against the periods that passed.
it('comes past every phase once in a period, in whatever steps', () => {
  const step = fc.integer({ min: 0, max: 2 ** 13 })
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 2 ** 20 }), fc.array(step, { maxLength: 60 }), (start, steps) => {
      const periodMs = 4096
      const round = new Round(periodMs, start)
      const phases = [0, 0.25, 0.5, 0.999]
      const lastMs = phases.map(() => start)
      let nowMs = start
      for (const it of steps) {
        const before = nowMs
        nowMs += it
        const isDue = round.advance(nowMs)
        for (const [at, phase] of phases.entries()) {
          const momentMs = (Math.floor(nowMs / periodMs - phase) + phase) * periodMs // the last one up to now
          expect(isDue(phase)).toBe(momentMs > before)
          if (isDue(phase)) lastMs[at] = nowMs
          else expect(nowMs - lastMs[at]!).toBeLessThanOrEqual(periodMs)
        }
      }
    }),
  )
})
