/** `npm run fuzz:sequences -- --minutes N [--seed S]`: tracker, replicas and selection against their models; prints a ledger entry. */
import { parseArgs } from 'node:util'
import { checkReasons, checkSelection } from '../src/core/selection/selection-model.case.js'
import { checkBadNetwork, checkGoodNetwork } from '../src/core/sequences/replica-model.case.js'
import { checkTrackerAgainstModel, checkWeights } from '../src/core/sequences/tracker-model.case.js'

const { values: flags } = parseArgs({
  options: { minutes: { type: 'string', default: '1' }, seed: { type: 'string', default: '1' } },
})
const first = Number(flags.seed)
const numRuns = 100
const checks = [
  () => checkTrackerAgainstModel('anchor', { numRuns, seed }),
  () => checkTrackerAgainstModel('full', { numRuns, seed }),
  () => checkWeights(1, { numRuns, seed }),
  () => checkWeights(2, { numRuns, seed }),
  ...(['default', 'dynamo-1.2', 'dynamo-1.5'] as const).flatMap((compat) => [
    () => checkBadNetwork(compat, { numRuns, seed }),
    () => checkGoodNetwork(compat, { numRuns, seed }),
  ]),
  () => checkSelection({ numRuns, seed }),
  () => checkReasons({ numRuns, seed }),
]
const started = Date.now()
let seed = first
for (; Date.now() - started < 60_000 * Number(flags.minutes); seed++) for (const check of checks) check()
console.log(
  JSON.stringify({
    what: 'tracker, replica events and selection: every reading is what the models give, after every step',
    command: `npm run fuzz:sequences -- --minutes ${flags.minutes} --seed ${first}`,
    seeds: `${first}..${seed - 1}`,
    cases: checks.length * numRuns * (seed - first),
    result: 'ok',
    seconds: Math.round((Date.now() - started) / 1000),
  }),
)
