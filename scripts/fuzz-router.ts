/** `npm run fuzz:router -- --minutes N [--seed S]`: whole routers under random operations, replayed; prints a ledger entry. */
import { parseArgs } from 'node:util'
import { RecordingRouter, replay } from '../src/core/router/index.js'
import { RouterDriver, routerOptions } from '../test/property/router-driver.js'

const { values: flags } = parseArgs({
  options: { minutes: { type: 'string', default: '1' }, seed: { type: 'string', default: '1' } },
})
const first = Number(flags.seed)
const steps = 20_000
const configs = [
  {},
  { compat: 'dynamo-1.2' },
  { compat: 'dynamo-1.5', routerQueueThreshold: 0.2 },
  { useKvEvents: false },
  { routerTemperature: 0.7, overlapScoreCreditDecay: 1 },
  { policy: 'warm' },
  { policy: 'warm', routerLateBinding: true },
] as const
const started = Date.now()
let seed = first
for (; Date.now() - started < 60_000 * Number(flags.minutes); seed++) {
  const options = () => routerOptions(configs[seed % configs.length]!, seed % 2 === 0)
  const pieces: Uint8Array[] = []
  const recording = new RecordingRouter(options(), (bytes) => pieces.push(bytes))
  const driver = new RouterDriver(recording, recording.core, seed)
  for (let step = 0; step < steps; step++) {
    driver.step()
    if (step % 64 === 0) driver.check()
  }
  driver.drain()
  recording.flush()
  const { firstDifference } = replay(new Uint8Array(Buffer.concat(pieces)), options)
  if (firstDifference !== undefined) throw new Error(`seed ${seed}: the replay differs at record ${firstDifference}`)
}
console.log(
  JSON.stringify({
    what: 'whole router: books agree on the way, every counter is zero after drain, the replay decides the same',
    command: `npm run fuzz:router -- --minutes ${flags.minutes} --seed ${first}`,
    seeds: `${first}..${seed - 1}`,
    cases: steps * (seed - first),
    result: 'ok',
    seconds: Math.round((Date.now() - started) / 1000),
  }),
)
