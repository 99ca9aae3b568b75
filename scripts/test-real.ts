/**
 * `npm run test:real -- URL URL [--requests N] [--concurrent N] [--after-kill N] [--tokenizer FOLDER]`: the end-to-end suite with the real
 * `openai` and Anthropic clients against any running OpenAI-compatible engines, with `warmroute serve` in front. Every
 * route, whole and streamed, errors and aborts; bytes against those of the engine itself; predicted against reported
 * cached tokens; and again after the router was killed under load. Prints what was seen and fails if anything differs.
 */
import { parseArgs } from 'node:util'
import type { RealReport } from '../test/real/suite.js'
import { faultsOf, runRealSuite } from '../test/real/suite.js'

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    requests: { type: 'string', default: '200' },
    concurrent: { type: 'string', default: '64' },
    'after-kill': { type: 'string', default: '20' },
    tokenizer: { type: 'string' },
  },
})
if (positionals.length === 0) throw new Error('name at least one engine, such as http://127.0.0.1:8000')
const report = await runRealSuite({
  engineUrls: positionals,
  words: flags.tokenizer === undefined ? [] : ['--tokenizer', flags.tokenizer],
  requests: Number(flags.requests),
  concurrent: Number(flags.concurrent),
  afterKill: Number(flags['after-kill']),
})
for (const line of linesOf(report)) console.log(line)
const faults = faultsOf(report)
for (const fault of faults) console.log(`FAULT ${fault}`)
console.log(faults.length === 0 ? 'everything holds' : `${faults.length} faults`)
process.exitCode = faults.length === 0 ? 0 : 1

function linesOf({ engines, checks, bytes, cached, removedBlocks, restart }: RealReport): string[] {
  const count = (outcome: string): number => bytes.requests.filter((it) => it.outcome === outcome).length
  const again = bytes.requests.filter((it) => it.outcome === 'equal' && it.tries > 1).length
  const routes = new Map<string, { requests: number; equal: number; reported: number }>()
  for (const { route, predicted, reported } of cached.rows) {
    const row = routes.get(route) ?? { requests: 0, equal: 0, reported: 0 }
    routes.set(route, {
      requests: row.requests + 1,
      equal: row.equal + (predicted === reported ? 1 : 0),
      reported: row.reported + reported,
    })
  }
  return [
    ...engines,
    '',
    ...checks.map(({ name, outcome, note }) => `${outcome.padEnd(7)} ${name} (${note})`),
    '',
    `bytes: ${count('equal')} of ${bytes.requests.length} equal (${again} after another try), ${count('different')} different, ${count('unstable')} unstable`,
    `blanked: ${bytes.blanked.join(', ')}`,
    ...bytes.requests.filter((it) => it.outcome === 'unstable').map((it) => `unstable: ${it.status} ${it.name}`),
    '',
    `cached tokens, one request at a time: ${cached.equal} of ${cached.rows.length} as predicted; ${cached.hits} hits, ${cached.cachedTokens} of ${cached.promptTokens} prompt tokens; ${removedBlocks} blocks were removed in all`,
    ...[...routes].map(([route, row]) => `  ${route}: ${row.equal} of ${row.requests}, ${row.reported} tokens cached`),
    `at once, reported minus predicted tokens: ${cached.concurrent.map(([difference, requests]) => `${difference}: ${requests}`).join(', ')}`,
    ...(restart ? ['', afterKill(restart)] : []),
  ]
}

function afterKill({ outcomes, rows }: NonNullable<RealReport['restart']>): string {
  const equal = rows.filter((it) => it.predicted === it.reported).length
  const reported = rows.reduce((sum, it) => sum + it.reported, 0)
  const ranks = Object.entries(outcomes).map(([outcome, count]) => `${count} ${outcome}`)
  return `after kill -9 under load: ranks ${ranks.join(', ')}; ${equal} of ${rows.length} as predicted, the first ${rows[0]!.predicted} and ${rows[0]!.reported}, ${reported} tokens cached`
}
