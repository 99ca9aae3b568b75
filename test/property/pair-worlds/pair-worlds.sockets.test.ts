// Goal: whatever happens around a pair, in both engines' ways: no request outlives its deadline, every booking on both legs
//       returns to zero, KV held on the prefill side is released (read, or by its lease, and then the gateway knows), a decode
//       is never sent outside the lease or with parameters used before, and a model is never hidden or served against its truth
//       table. A draining worker waits for its readers and no longer.
// Method: random worlds (`world.ts`) in virtual time over connections inside the process: one seed is one run, so that a failure
//       shrinks. Engines are scripted, to fail anywhere, or the simulator's own, where a late or second read gives wrong words, every
//       answer is held against what one engine alone says, and so is every decode engine's cache at the end. `npm run fuzz:pairs -- --minutes N` runs as many as fit.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { runWorld } from './run-world.js'
import { anyWorld } from './world.js'

const runs = Number(process.env['PAIR_RUNS'] ?? 150)

it('keeps every promise in every world', { timeout: 60_000 + runs * 200 }, async () => {
  let holds = 0
  await fc.assert(
    fc.asyncProperty(anyWorld, async (world) => {
      const report = await runWorld(world)
      holds += report.holds
      expect(report.wrongs).toEqual([])
    }),
    { numRuns: runs },
  )
  expect(holds).toBeGreaterThan(runs / 10) // the worlds are not so bad that nothing ever gets as far as a transfer
})
