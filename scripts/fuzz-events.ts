/** `npm run fuzz:events -- --minutes N [--seed S]`: event histories through faults until the time is over; prints a ledger entry. */
import { parseArgs } from 'node:util'
import { detectionMs, runHistory } from '../test/property/event-convergence.case.js'

const { values: flags } = parseArgs({
  options: { minutes: { type: 'string', default: '1' }, seed: { type: 'string', default: '1' } },
})
const first = Number(flags.seed)
const until = Date.now() + Number(flags.minutes) * 60_000
const totals = {
  frames: 0,
  gaps: 0,
  restarts: 0,
  replays: 0,
  purges: 0,
  credits: 0,
  staleCredits: 0,
  completeRanks: 0,
  comparedRanks: 0,
  proved: 0,
  unproved: 0,
}
let staleCreditMs = 0
let seed = first
for (; Date.now() < until; seed++) {
  const history = runHistory(seed) // throws with the seed in its message
  staleCreditMs = Math.max(staleCreditMs, history.staleCreditMs)
  for (const name of Object.keys(totals) as (keyof typeof totals)[]) totals[name] += history[name]
}
const { frames, gaps, restarts, replays, purges } = totals
const results = [
  `ok: ${frames} frames, ${gaps} gaps, ${restarts} restarts, ${replays} replays, ${purges} purges`,
  `${totals.credits} credits judged, ${totals.staleCredits} of blocks lost with no later frame heard`,
  `longest with replay ${staleCreditMs} ms of ${detectionMs} ms stated`,
  `${totals.comparedRanks} ranks equal at the end, ${totals.completeRanks} complete and equal as soon as faults ended`,
  `after kills ${totals.proved} saved ranks proved, ${totals.unproved} not`,
]
console.log(
  JSON.stringify({
    what: 'KV event intake: histories through faults, the router killed among them, end equal to the engine, and credit no lost block too long',
    command: `npm run fuzz:events -- --minutes ${flags.minutes} --seed ${first}`,
    seeds: `${first}..${seed - 1}`,
    cases: seed - first,
    result: results.join('; '),
  }),
)
