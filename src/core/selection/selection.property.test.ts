import { expect, it } from 'vitest'
import { fleetOf } from './selection.case.js'
import { checkReasons, checkSelection } from './selection-model.case.js'
import { DefaultWorkerSelector } from './worker-selector.js'

// Longer runs: npm run fuzz:sequences.
it('prices every eligible rank by the formula and picks the cheapest', () => checkSelection({ numRuns: 500 }))

it('gives an excluded pair one reason, the first that applies', () => checkReasons({ numRuns: 100 }))

it('chooses among ten thousand workers with ids above 2^63', () => {
  const states = Object.fromEntries(
    Array.from({ length: 10_000 }, (_, index) => [`${2n ** 63n + BigInt(index)}`, { decode: index === 7_777 ? 0 : 1 }]),
  )
  const { workers, request } = fleetOf(states)
  const selector = new DefaultWorkerSelector()
  expect(selector.selectWorker(workers, request).worker.workerId).toBe(2n ** 63n + 7_777n)
  expect(selector.rows.count).toBe(10_000)
})
