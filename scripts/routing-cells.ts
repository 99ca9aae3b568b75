/**
 * `npm run routing:cells`: the cells that `policy: warm` must hold, measured with the product's own router, beside what each
 * may be at most. All of them take some minutes. `-- --cells N8,N16` runs those, `--seeds 3` takes the mean of three,
 * `--requests 2000` only the start of the trace (figures then say nothing about the limits), `--set key=value` a setting,
 * `--policy dynamo` another policy for comparison.
 */
import { parseArgs } from 'node:util'
import { policyNames, runExperiment, timingProfiles } from '../src/sim/index.js'
import type { ExperimentOptions, PolicyResult } from '../src/sim/index.js'
import { readTrace } from '../src/sim/replay/dynamo-cells.case.js'

/** Milliseconds, and reuse as a share; absent: nothing is asked. */
interface Must {
  readonly mean: number
  readonly p50?: number
  readonly p99?: number
  readonly e2e?: number
  readonly reuse?: number
}

type Cell = readonly [name: string, fleet: Omit<ExperimentOptions, 'policies'>, must: Must]

const profile = timingProfiles['h200-llama8b']!
/** On the H200 steps, beside `dynamo` in the same simulator (docs/routing.md): p99 with `prefill_load_scale` 10 and 3 %, E2E without it less 5 %. */
const beside = (tunedP99: number, e2e: number): Pick<Must, 'p99' | 'e2e'> => ({
  p99: Math.round(tunedP99 * 1.03),
  e2e: Math.round(e2e * 0.95),
})

const cells: readonly Cell[] = [
  ['N4', { workers: 4 }, { mean: 305, p50: 160, p99: 2000, e2e: 3790, reuse: 0.17 }],
  ['N8', { workers: 8 }, { mean: 222, p50: 105, p99: 1640, e2e: 2715, reuse: 0.245 }],
  ['N16', { workers: 16 }, { mean: 183, p50: 76, p99: 1565, e2e: 2425, reuse: 0.318 }],
  ['N8x4', { workers: 8, arrivalSpeedup: 4 }, { mean: 265, p50: 145, p99: 1800, e2e: 6250, reuse: 0.24 }],
  [
    'smooth',
    { workers: 8, arrivalSpeedup: 2, smoothMs: 3000 },
    { mean: 213, p50: 99, p99: 1715, e2e: 3180, reuse: 0.245 },
  ],
  ['slow', { workers: 8, slow: { share: 0.5, factor: 2 } }, { mean: 290, p50: 150, p99: 1830, e2e: 3750 }],
  ['half-whole', { workers: 8, arrivalSpeedup: 4, wholeShare: 0.5 }, { mean: 280, p99: 1900, e2e: 6400 }],
  ['whole', { workers: 8, arrivalSpeedup: 4, wholeShare: 1 }, { mean: 290, p99: 1900, e2e: 6450 }],
  ['H200-N8', { workers: 8, profile }, { mean: 565, ...beside(8050, 3365) }],
  ['H200-N8x2', { workers: 8, arrivalSpeedup: 2, profile }, { mean: 625, ...beside(8112, 5506) }],
  ['H200-N4', { workers: 4, profile }, { mean: 840, ...beside(10_152, 6920) }],
  ['H200-N16x4', { workers: 16, arrivalSpeedup: 4, profile }, { mean: 550, ...beside(7646, 4837) }],
]

const { values: flags } = parseArgs({
  options: {
    cells: { type: 'string' },
    seeds: { type: 'string', default: '1' },
    requests: { type: 'string' },
    policy: { type: 'string', default: 'warm' },
    set: { type: 'string', multiple: true, default: [] },
  },
})
const policy = policyNames.find((name) => name === flags.policy)
if (!policy) throw new Error(`no policy ${flags.policy}`)
const wanted = flags.cells?.split(',')
const unknown = wanted?.filter((name) => !cells.some(([cell]) => cell === name)) ?? []
if (unknown.length > 0)
  throw new Error(`no cell ${unknown.join(', ')}; there are ${cells.map(([it]) => it).join(', ')}`)
const trace = readTrace().slice(0, flags.requests === undefined ? undefined : Number(flags.requests))
console.log('| Cell | TTFT mean | p50 | p90 | p99 | ITL mean | E2E mean | reuse | Missed |')
console.log('|---|---|---|---|---|---|---|---|---|')
for (const [name, fleet, must] of cells) {
  if (wanted && !wanted.includes(name)) continue
  const results = Array.from(
    { length: Number(flags.seeds) },
    (_, index) => runExperiment(trace, { ...fleet, policies: [policy], settings: flags.set, seed: index + 1 })[0]!,
  )
  console.log(rowOf(name, results, must))
}

function rowOf(name: string, results: readonly PolicyResult[], must: Must): string {
  const mean = (of: (result: PolicyResult) => number): number =>
    results.reduce((sum, result) => sum + of(result), 0) / results.length
  const missed: string[] = []
  const held = (title: string, value: number, limit: number | undefined): string => {
    if (limit !== undefined && value > limit) missed.push(title)
    return value.toFixed(0) + (limit === undefined ? '' : ` (≤ ${limit})`)
  }
  const reuse = mean((it) => it.reuse)
  if (must.reuse !== undefined && reuse < must.reuse) missed.push('reuse')
  const figures = [
    held(
      'mean',
      mean((it) => it.ttft_ms.mean),
      must.mean,
    ),
    held(
      'p50',
      mean((it) => it.ttft_ms.p50),
      must.p50,
    ),
    held(
      'p90',
      mean((it) => it.ttft_ms.p90),
      undefined,
    ),
    held(
      'p99',
      mean((it) => it.ttft_ms.p99),
      must.p99,
    ),
    mean((it) => it.itl_ms.mean).toFixed(2),
    held(
      'E2E',
      mean((it) => it.e2e_ms.mean),
      must.e2e,
    ),
    reuse.toFixed(3) + (must.reuse === undefined ? '' : ` (≥ ${must.reuse})`),
  ]
  return `| ${[name, ...figures, missed.join(', ') || '–'].join(' | ')} |`
}
