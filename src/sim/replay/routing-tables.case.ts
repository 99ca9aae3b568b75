/** The tables of docs/routing.md: which cells there are, how each is run, and how its row reads. Used by `npm run docs:replay`. */
import { readFileSync } from 'node:fs'
import { dynamo12Profile, dynamoProfile, h200Profile } from '../engine/timing.js'
import type { TimingProfile } from '../engine/timing.js'
import { parseStepTable } from '../engine/timing-table.js'
import { readPairRecording, readReplayCells } from './dynamo-cells.case.js'
import type { ReplayCell } from './dynamo-cells.case.js'
import { runExperiment } from './experiment.js'
import type { ExperimentOptions, PolicyResult } from './experiment.js'
import { generateTrace, traceShapes } from './generate.js'
import type { PolicyName } from './policies.js'
import type { TraceRequest } from './trace.js'

export interface TableRow {
  /** First cell of the row; what `--only` looks at. */
  readonly key: string
  /** Runs it and answers the other cells. */
  readonly run: (trace: readonly TraceRequest[], seeds: number) => string[]
}

export interface RoutingTable {
  /** The page has `<!-- name -->` and `<!-- /name -->` around it. */
  readonly name: string
  /** Runs of each row whose mean it shows, unless told otherwise. */
  readonly seeds: number
  readonly head: readonly string[]
  readonly rows: readonly TableRow[]
}

export const routingTables = (): RoutingTable[] => [
  recordedTable(),
  fleetTable(),
  gpuTable(),
  wholeTable(),
  pairTable(),
  shapeTable(),
]

/** `dynamo` of the product against what Dynamo itself answered for the same arguments. */
function recordedTable(): RoutingTable {
  return {
    name: 'recorded',
    seeds: 5,
    head: ['Cell', ...comparedFigures.map(({ title, limit }) => `${title} (${limit * 100} %)`), 'Seeds', 'Within'],
    rows: readReplayCells()
      .filter(({ routerMode }) => routerMode === 'kv_router')
      .map((cell) => ({ key: keyOf(cell), run: (trace, seeds) => compareRecorded(cell, trace, seeds) })),
  }
}

interface Compared {
  readonly title: string
  readonly theirs: string
  readonly ours: (result: PolicyResult) => number
  readonly limit: number
}

const comparedFigures: readonly Compared[] = [
  { title: 'TTFT mean', theirs: 'mean_ttft_ms', ours: ({ ttft_ms: it }) => it.mean, limit: 0.02 },
  { title: 'p50', theirs: 'median_ttft_ms', ours: ({ ttft_ms: it }) => it.p50, limit: 0.04 },
  { title: 'p99', theirs: 'p99_ttft_ms', ours: ({ ttft_ms: it }) => it.p99, limit: 0.04 },
  { title: 'ITL mean', theirs: 'mean_itl_ms', ours: ({ itl_ms: it }) => it.mean, limit: 0.02 },
  { title: 'p99', theirs: 'p99_itl_ms', ours: ({ itl_ms: it }) => it.p99, limit: 0.04 },
  { title: 'E2E mean', theirs: 'mean_e2e_latency_ms', ours: ({ e2e_ms: it }) => it.mean, limit: 0.02 },
  { title: 'p99', theirs: 'p99_e2e_latency_ms', ours: ({ e2e_ms: it }) => it.p99, limit: 0.04 },
]

export function compareRecorded(cell: ReplayCell, trace: readonly TraceRequest[], seeds: number): string[] {
  const results = runSeeds(trace, seeds, {
    workers: cell.workers,
    policies: ['dynamo'],
    blockTokens: cell.blockTokens,
    blocks: cell.blocks,
    arrivalSpeedup: cell.arrivalSpeedup,
    eventDelayMs: cell.eventDelayMs,
    settings: cell.settings,
    profile: cell.version.startsWith('1.2') ? dynamo12Profile : dynamoProfile,
  })
  const missed: string[] = []
  const cells = comparedFigures.map(({ title, theirs, ours, limit }, index) => {
    const value = meanOf(results, ours)
    const difference = value / cell.summary[theirs]! - 1
    const family = index < 3 ? 'TTFT' : index < 5 ? 'ITL' : 'E2E'
    if (Math.abs(difference) > limit) missed.push(title.includes(family) ? title : `${family} ${title}`)
    return `${figure(value)} (${(difference * 100).toFixed(1)} %)`
  })
  return [...cells, String(seeds), missed.length === 0 ? 'yes' : `no: ${missed.join(', ')}`]
}

function keyOf(cell: ReplayCell): string {
  const settings = [...cell.settings, ...(cell.eventDelayMs > 0 ? [`event delay ${cell.eventDelayMs} ms`] : [])]
  const fleet = `${cell.version}, N${cell.workers}, ${cell.blocks} x ${cell.blockTokens}, x${cell.arrivalSpeedup}`
  const runs = cell.runs > 1 ? [`${cell.runs} recorded runs`] : []
  return [fleet, ...settings.map((setting) => setting.replace(/^router_/, '')), ...runs].join(', ')
}

type Fleet = Omit<ExperimentOptions, 'policies'>

const fleets: readonly (readonly [string, Fleet])[] = [
  ['N4', { workers: 4 }],
  ['N8', { workers: 8 }],
  ['N16', { workers: 16 }],
  ['N8 x4', { workers: 8, arrivalSpeedup: 4 }],
  ['N8 x2 smoothed', { workers: 8, arrivalSpeedup: 2, smoothMs: 3000 }],
  ['N8, half 2x slower', { workers: 8, slow: { share: 0.5, factor: 2 } }],
]

/** Replicas that do not share bookings; late binding is off there anyway. */
const replicas: typeof fleets = [
  ['N8, 2 routers', { workers: 8, routers: 2 }],
  ['N8, 4 routers', { workers: 8, routers: 4 }],
]

const contenders: readonly (readonly [string, PolicyName, readonly string[]])[] = [
  ['warm', 'warm', []],
  ['dynamo', 'dynamo', []],
  ['dynamo scale 10', 'dynamo', ['prefill_load_scale=10']],
  ['warm, no late binding', 'warm', ['router_late_binding=false']],
]

const fleetHead = ['Cell', 'TTFT mean', 'p50', 'p90', 'p99', 'ITL mean', 'E2E mean', 'reuse', 'Seeds']

function fleetTable(): RoutingTable {
  return {
    name: 'fleets',
    seeds: 3,
    head: fleetHead,
    rows: [
      ...fleets.flatMap((fleet) => [...contend([fleet], contenders), ...recordedBest(fleet[0])]),
      ...contend(replicas, contenders.slice(0, 3)),
    ],
  }
}

/** Dynamo itself with the best settings that were found for it, where such a cell was recorded. */
const bestRecordings: Readonly<Record<string, string>> = {
  N4: 'n4-kv_router-bs64-blocks16384-x1-scale30-wspt-thr0',
  N8: 'n8-kv_router-bs64-blocks16384-x1-scale30-wspt-thr0',
  N16: 'n16-kv_router-bs64-blocks16384-x1-scale10',
  'N8 x4': 'n8-kv_router-bs64-blocks16384-x4-scale10-wspt-thr0',
}

function recordedBest(fleet: string): TableRow[] {
  const name = bestRecordings[fleet]
  if (name === undefined) return []
  const { summary, settings, runs } = readReplayCells().find((cell) => cell.name.endsWith(name))!
  const set = settings.map((setting) => setting.replace(/^router_/, '')).join(', ')
  return [
    {
      key: `${fleet}: recorded, ${set}`,
      run: () => [...recordedCells(summary), runs === 1 ? '1 run' : `${runs} runs`],
    },
  ]
}

function recordedCells(summary: Readonly<Record<string, number>>): string[] {
  const figures = ['mean_ttft_ms', 'median_ttft_ms', 'p90_ttft_ms', 'p99_ttft_ms', 'mean_itl_ms', 'mean_e2e_latency_ms']
  return [...figures, 'prefix_cache_reused_ratio'].map((key) => figure(summary[key]!))
}

/** The same policies over step times of a GPU, where a cached prefix is not free: fitted, and the measured points themselves. */
function gpuTable(): RoutingTable {
  const table = parseStepTable(readFileSync('test/fixtures/gpu/h200-llama8b-steps.jsonl', 'utf8'))
  const cells = (title: string, profile: TimingProfile): typeof fleets => [
    [`${title} N8`, { workers: 8, profile }],
    [`${title} N8 x2`, { workers: 8, arrivalSpeedup: 2, profile }],
    [`${title} N4`, { workers: 4, profile }],
    [`${title} N16 x4`, { workers: 16, arrivalSpeedup: 4, profile }],
  ]
  const all = [
    ...cells('h200-llama8b', h200Profile),
    ...cells('measured points', { kind: 'table', name: 'h200-llama8b-steps', ...table }),
  ]
  return { name: 'gpu', seeds: 3, head: fleetHead, rows: contend(all, contenders.slice(0, 3)) }
}

/** Answers in one piece, of which a router sees nothing before they end; TTFT is what the engine knows of them. */
function wholeTable(): RoutingTable {
  const cells: typeof fleets = [
    ['N8, half whole', { workers: 8, wholeShare: 0.5 }],
    ['N8 x4, half whole', { workers: 8, arrivalSpeedup: 4, wholeShare: 0.5 }],
    ['N8 x4, all whole', { workers: 8, arrivalSpeedup: 4, wholeShare: 1 }],
    ['h200-llama8b N4, all whole', { workers: 4, profile: h200Profile, wholeShare: 1 }],
  ]
  const policies = [...contenders.slice(0, 2), ['round-robin', 'round-robin', []]] as const
  return { name: 'whole', seeds: 1, head: fleetHead, rows: contend(cells, policies) }
}

/** Some workers only prefill, the others decode; the same number of workers that do both stands beside them in the table of fleets. */
function pairTable(): RoutingTable {
  const cells: typeof fleets = [
    ['2 prefill + 2 decode', { workers: 4, prefillWorkers: 2 }],
    ['4 prefill + 4 decode', { workers: 8, prefillWorkers: 4 }],
  ]
  const plain = [contenders[1]!, ['round-robin', 'round-robin', []]] as const
  return {
    name: 'pairs',
    seeds: 3,
    head: fleetHead,
    rows: [
      ...contend(cells, [...contenders, plain[1]]),
      // Dynamo's replay lets KV arrive at once: on these terms it can stand beside ours.
      ...[2, 4].flatMap((side) => {
        const cell = `${side} prefill + ${side} decode, no transfer time`
        const fleet = { workers: 2 * side, prefillWorkers: side, transferMsPerToken: 0 }
        return [...contend([[cell, fleet]], plain), ...recordedPairs(cell, side)]
      }),
    ],
  }
}

function recordedPairs(cell: string, side: number): TableRow[] {
  return (['kv_router', 'round_robin'] as const).map((mode) => ({
    key: `${cell}: recorded, ${mode}`,
    run: () => [...recordedCells(readPairRecording(side, mode)), '1 run'],
  }))
}

/** Generated traces, a new one for every seed. */
function shapeTable(): RoutingTable {
  const policies: typeof contenders = [
    ...contenders,
    ['prefix-hash', 'prefix-hash', []],
    ['round-robin', 'round-robin', []],
  ]
  const rows = traceShapes.flatMap((shape) =>
    policies.map(
      ([title, policy, settings]): TableRow => ({
        key: `${shape}: ${title}`,
        run(_, seeds) {
          const results = Array.from({ length: seeds }, (__, index) => {
            const seed = index + 1
            const options = { workers: 6, policies: [policy], settings, seed }
            return runExperiment(generateTrace(shape, { requests: 2000, seed }), options)[0]!
          })
          return [...fleetCells(results), String(seeds)]
        },
      }),
    ),
  )
  return { name: 'shapes', seeds: 3, head: fleetHead, rows }
}

function fleetCells(results: readonly PolicyResult[]): string[] {
  const value = (of: (result: PolicyResult) => number): string => figure(meanOf(results, of))
  return [
    value(({ ttft_ms: it }) => it.mean),
    value(({ ttft_ms: it }) => it.p50),
    value(({ ttft_ms: it }) => it.p90),
    value(({ ttft_ms: it }) => it.p99),
    value(({ itl_ms: it }) => it.mean),
    value(({ e2e_ms: it }) => it.mean),
    value(({ reuse }) => reuse),
  ]
}

function contend(cells: typeof fleets, policies: typeof contenders): TableRow[] {
  return cells.flatMap(([cell, fleet]) =>
    policies.map(
      ([title, policy, settings]): TableRow => ({
        key: `${cell}: ${title}`,
        run(trace, seeds) {
          const results = runSeeds(trace, seeds, { ...fleet, policies: [policy], settings })
          return [...fleetCells(results), String(seeds)]
        },
      }),
    ),
  )
}

function runSeeds(trace: readonly TraceRequest[], seeds: number, options: ExperimentOptions): PolicyResult[] {
  return Array.from({ length: seeds }, (_, index) => runExperiment(trace, { ...options, seed: index + 1 })[0]!)
}

function meanOf(results: readonly PolicyResult[], of: (result: PolicyResult) => number): number {
  return results.reduce((sum, result) => sum + of(result), 0) / results.length
}

function figure(value: number): string {
  return value < 1 ? value.toFixed(3) : value < 100 ? value.toFixed(1) : value.toFixed(0)
}
