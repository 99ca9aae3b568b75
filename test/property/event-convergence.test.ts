import { expect, it } from 'vitest'
import { detectionMs, runHistory } from './event-convergence.case.js'

it('ends up equal to the engine, and never credits a block lost longer ago than the detection delay', () => {
  const totals = { gaps: 0, restarts: 0, replays: 0, purges: 0, stale: 0, credits: 0 }
  for (let seed = 1; seed <= 60; seed++) {
    const history = runHistory(seed)
    for (const name of Object.keys(totals) as (keyof typeof totals)[]) totals[name] += history[name]
    expect(history.staleCreditMs).toBeLessThanOrEqual(detectionMs)
  }
  // The machinery looks: every branch was walked and credit was given.
  for (const count of Object.values(totals)) expect(count).toBeGreaterThan(20)
})

it('would notice: with the gaps hidden, some history fails', () => {
  const failed = Array.from({ length: 10 }, (_, seed) => {
    try {
      runHistory(seed + 1, { hidesGaps: true })
      return false
    } catch {
      return true
    }
  })
  expect(failed).toContain(true)
})
