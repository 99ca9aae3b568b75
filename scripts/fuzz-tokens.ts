/** `npm run fuzz:tokens -- parity|caches|memory|stalls [--cases N] [--seed S] [--only MODEL]`: prints a ledger entry. */
import { parseArgs } from 'node:util'
import { setCollector } from '../src/cli/collector.js'
import { fuzzStalls } from '../src/tokens/fuzz-stalls.case.js'
import { fuzzCaches, fuzzMemory, fuzzParity } from '../src/tokens/fuzz.case.js'

const runs = {
  parity: { what: 'tokens: ids equal the Rust binding on random texts, each tokenizer', run: fuzzParity },
  caches: { what: 'tokens: cached equals uncached under random edits, ids and hashes', run: fuzzCaches },
  stalls: {
    what: 'tokens: the longest turns of the loop under hostile requests at random, with files and asked of engines',
    run: fuzzStalls,
  },
  memory: { what: 'tokens: 32 MB of caches under distinct texts', run: fuzzMemory },
}
const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    cases: { type: 'string', default: '10000' },
    seed: { type: 'string', default: '1' },
    only: { type: 'string' },
  },
})
const name = (positionals[0] ?? 'parity') as keyof typeof runs
const { what, run } = runs[name]
const cases = Number(flags.cases)
setCollector() // as the command does
const started = Date.now()
const result = await run(Number(flags.seed), cases, flags.only)
console.log(
  JSON.stringify({
    what,
    command: `npm run fuzz:tokens -- ${name} --cases ${cases} --seed ${flags.seed}`,
    seeds: flags.seed,
    cases,
    result,
    seconds: Math.round((Date.now() - started) / 1000),
  }),
)
