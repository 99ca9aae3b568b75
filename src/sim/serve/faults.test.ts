import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { faultKinds, Faults, parseFaults } from './faults.js'

it('has a row in the reference for every fault, and no row without one', () => {
  const page = readFileSync('docs/reference/sim-faults.md', 'utf8')
  const rows = [...page.matchAll(/^\|\s*`([a-z_]+)`\s*\|/gm)].map((match) => match[1])
  expect(rows).toEqual([...faultKinds])
})

it('strikes in its time, as often as it may, and only its worker and rank', () => {
  let now = 0
  const faults = new Faults(() => now, 1, 2)
  faults.arm(
    parseFaults([
      { fault: 'drop_events', at_ms: 10, for_ms: 20, count: 2, rank: 1 },
      { fault: 'trickle', worker: 3 },
    ]),
  )
  expect(faults.strike('drop_events', 1)).toBeUndefined() // too early
  now = 15
  expect(faults.strike('drop_events', 0)).toBeUndefined() // another rank
  expect(faults.strike('drop_events', 1)).toBeDefined()
  expect(faults.strike('drop_events', 1)).toBeDefined()
  expect(faults.strike('drop_events', 1)).toBeUndefined() // often enough
  expect(faults.strike('trickle')).toBeUndefined() // another worker
  faults.arm(parseFaults({ fault: 'drop_events', at_ms: 0, for_ms: 5 }))
  now = 20
  expect(faults.strike('drop_events', 1)).toBeUndefined() // too late
})

it.each([
  [{ fault: 'earthquake' }],
  [{ fault: 'status', status: 200 }],
  [{ fault: 'drop_events', share: 2 }],
  [{ fault: 'drop_events', when: 3 }],
  ['drop_events'],
])('refuses %j', (script) => {
  expect(() => parseFaults(script)).toThrow('fault script')
})
