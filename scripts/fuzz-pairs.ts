/** `npm run fuzz:pairs -- --minutes N [--seed S]`: pairs in random worlds, in virtual time; prints a ledger entry. */
import fc from 'fast-check'
import { parseArgs } from 'node:util'
import { runWorld } from '../test/property/pair-worlds/run-world.js'
import { anyWorld } from '../test/property/pair-worlds/world.js'

const { values: flags } = parseArgs({
  options: { minutes: { type: 'string', default: '1' }, seed: { type: 'string', default: '1' } },
})
const first = Number(flags.seed)
const runsPerSeed = 200
const started = Date.now()
let [seed, cases, requests, holds] = [first, 0, 0, 0]
for (; Date.now() - started < 60_000 * Number(flags.minutes); seed++) {
  const property = fc.asyncProperty(anyWorld, async (world) => {
    const report = await runWorld(world)
    cases++
    requests += report.requests
    holds += report.holds
    if (report.wrongs.length > 0) throw new Error(report.wrongs.join('\n'))
  })
  await fc.assert(property, { numRuns: runsPerSeed, seed })
}
console.log(
  JSON.stringify({
    what: 'pairs, both engines: deadlines, bookings, held KV, leases and the truth table hold in random worlds',
    command: `npm run fuzz:pairs -- --minutes ${flags.minutes} --seed ${first}`,
    seeds: `${first}..${seed - 1}`,
    cases,
    result: `ok: ${requests} requests, ${holds} prefills whose KV was held`,
    seconds: Math.round((Date.now() - started) / 1000),
  }),
)
