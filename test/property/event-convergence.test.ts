import { expect, it } from 'vitest'
import { detectionMs, runHistory } from './event-convergence.case.js'

it('ends up equal to the engine, and never credits a block lost longer ago than the detection delay', () => {
  const totals = {
    gaps: 0,
    restarts: 0,
    replays: 0,
    purges: 0,
    stale: 0,
    credits: 0,
    staleCredits: 0,
    completeRanks: 0,
    comparedRanks: 0,
    proved: 0,
    unproved: 0,
  }
  const histories = [...seeds('long', 40), ...seeds('short', 2_000)]
  for (const [span, seed] of histories) {
    const history = runHistory(seed, { span })
    for (const name of Object.keys(totals) as (keyof typeof totals)[]) totals[name] += history[name]
    expect(history.staleCreditMs).toBeLessThanOrEqual(detectionMs)
  }
  // The machinery looks: every branch was walked and credit was given.
  for (const count of Object.values(totals)) expect(count).toBeGreaterThan(20)
  expect(totals.comparedRanks).toBe(2 * histories.length)
}, 120_000)

// 2264 failed first, 182 when the model let engines come back at once: a restarted engine went on with the very next number,
// and a rank that cannot be asked was continued (decision 0152).
it.each([2264, 182])('does not continue an engine by the number of another (seed %i)', (seed) => {
  expect(runHistory(seed).comparedRanks).toBe(2)
})

function seeds<const Span>(span: Span, count: number): [Span, number][] {
  return Array.from({ length: count }, (_, at) => [span, at + 1])
}

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
