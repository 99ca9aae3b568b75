/** `npm run fuzz:decoder -- --cases N [--seed S]`: the decoder against random and mutated frames; prints a ledger entry. */
import { parseArgs } from 'node:util'
import { fuzzDecoder } from '../src/engines/wire/decoder-fuzz.case.js'

const { values: flags } = parseArgs({
  options: { cases: { type: 'string', default: '1000000' }, seed: { type: 'string', default: '1' } },
})
const cases = Number(flags.cases)
const seed = Number(flags.seed)
const started = Date.now()
const totals = fuzzDecoder(seed, cases)
const refused = Object.entries(totals.refused).map(([reason, count]) => `${reason} ${count}`)
console.log(
  JSON.stringify({
    what: 'KV event decoder: any bytes give events or a reason',
    command: `npm run fuzz:decoder -- --cases ${cases} --seed ${seed}`,
    seeds: String(seed),
    cases,
    result: `ok: ${totals.decoded} decoded, refused ${refused.join(', ')}`,
    seconds: Math.round((Date.now() - started) / 1000),
  }),
)
