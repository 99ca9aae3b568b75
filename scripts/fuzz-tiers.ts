/** `npm run fuzz:tiers -- --minutes N [--seed S]`: tiers, predictions and moves against plain facts; prints a ledger entry. */
import { parseArgs } from 'node:util'
import { createPrefixIndex } from '../src/core/index/index.js'
import { inTurn } from '../src/core/index/kv-drive.case.js'
import { checkKvIndexAgainstFacts } from '../src/core/index/kv-index-model.case.js'
import { checkTiersAgainstFacts } from '../src/core/index/lower-tier-model.case.js'

const { values: flags } = parseArgs({
  options: { minutes: { type: 'string', default: '1' }, seed: { type: 'string', default: '1' } },
})
const first = Number(flags.seed)
const numRuns = 200
const started = Date.now()
let seed = first
for (; Date.now() - started < 60_000 * Number(flags.minutes); seed++) {
  checkTiersAgainstFacts({ numRuns, seed })
  for (const implementation of ['wasm', 'ts'] as const) {
    const newIndex = inTurn(() => createPrefixIndex({ implementation, seedLo: seed, seedHi: 1 }))
    checkKvIndexAgainstFacts(newIndex, { numRuns, seed })
  }
}
console.log(
  JSON.stringify({
    what: 'KvIndex (wasm, ts) and lower tiers: every answer is what plain facts give, after every step',
    command: `npm run fuzz:tiers -- --minutes ${flags.minutes} --seed ${first}`,
    seeds: `${first}..${seed - 1}`,
    cases: 3 * numRuns * (seed - first),
    result: 'ok',
    seconds: Math.round((Date.now() - started) / 1000),
  }),
)
