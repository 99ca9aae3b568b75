/** Dynamo's own replays, recorded, and how near ours comes to them. Used by the tests and by `npm run docs:sim`. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { dynamo12Profile, dynamoProfile } from '../engine/timing.js'
import { plainKvRouter } from './dynamo-policy.case.js'
import { replay } from './replay.js'
import type { ReplayReport } from './report.js'
import { roundRobin } from './round-robin.js'
import type { TraceRequest } from './trace.js'
import { parseMooncake } from './trace.js'

const folder = 'test/fixtures/dynamo/replay'

export interface ReplayCell {
  readonly name: string
  readonly version: string
  readonly workers: number
  readonly routerMode: string
  readonly blockTokens: number
  readonly blocks: number
  readonly arrivalSpeedup: number
  readonly eventDelayMs: number
  /** Settings of the router, as `--set` takes them. */
  readonly settings: readonly string[]
  /** Of several recorded runs, their mean. */
  readonly summary: Readonly<Record<string, number>>
  readonly runs: number
}

export interface ComparedFigure {
  readonly figure: string
  readonly ours: number
  readonly theirs: number
  /** Ours over theirs, less one. */
  readonly difference: number
  /** What the difference may be at most, either way. */
  readonly limit: number
}

interface Recording {
  readonly summary: Readonly<Record<string, number>>
  readonly arguments?: {
    readonly kv_event_lag_ms?: number
    readonly router_config?: Readonly<Record<string, number | string>>
  }
}

/** Everything that was asked for stands in a recording's name; see the README beside it. */
const namePattern = /^v([\d.]+)-conversation-n(\d+)-([a-z_]+)-bs(\d+)-blocks(\d+)-x(\d+)(.*)$/

export function readReplayCells(): ReplayCell[] {
  return readdirSync(folder)
    .filter((file) => file.endsWith('.json'))
    .map((file) => {
      const name = file.slice(0, -'.json'.length)
      const [, version, workers, routerMode, blockTokens, blocks, speedup] = namePattern.exec(name)!
      const { summary, arguments: asked } = JSON.parse(readFileSync(`${folder}/${file}`, 'utf8')) as Recording
      const runs = [summary, ...readFurtherRuns(file)]
      return {
        name,
        version: version!,
        workers: Number(workers),
        routerMode: routerMode!,
        blockTokens: Number(blockTokens),
        blocks: Number(blocks),
        arrivalSpeedup: Number(speedup),
        eventDelayMs: asked?.kv_event_lag_ms ?? 0,
        settings: Object.entries(asked?.router_config ?? {}).map(([key, value]) => `${key}=${value}`),
        summary: runs.length === 1 ? summary : meanSummary(runs),
        runs: runs.length,
      }
    })
}

/** A fleet of as many prefill as decode workers. */
export function readPairRecording(side: number, routerMode: 'kv_router' | 'round_robin'): Recording['summary'] {
  const name = `v1.6.1-conversation-p${side}d${side}-${routerMode}-bs64-blocks16384-x1`
  return (JSON.parse(readFileSync(`${folder}/pairs/${name}.json`, 'utf8')) as Recording).summary
}

/** The same call again, where one draw of its ties says too little. */
function readFurtherRuns(file: string): Recording['summary'][] {
  const path = `${folder}/again/${file}`
  if (!existsSync(path)) return []
  return (JSON.parse(readFileSync(path, 'utf8')) as { runs: Recording['summary'][] }).runs
}

/** Over the figures that every run has. */
function meanSummary(runs: readonly Recording['summary'][]): Record<string, number> {
  const shared = Object.keys(runs[0]!).filter((key) => runs.every((run) => typeof run[key] === 'number'))
  return Object.fromEntries(shared.map((key) => [key, runs.reduce((sum, run) => sum + run[key]!, 0) / runs.length]))
}

export function readTrace(): TraceRequest[] {
  return parseMooncake(gunzipSync(readFileSync('test/fixtures/traces/mooncake-conversation.jsonl.gz')).toString())
}

/** `seed` breaks the ties of `kv_router`; round robin has none. */
export function runCell(cell: ReplayCell, trace: readonly TraceRequest[], seed: number): ReplayReport {
  return replay(trace, {
    workers: cell.workers,
    policy:
      cell.routerMode === 'kv_router' ? plainKvRouter(cell.workers, cell.blockTokens, seed) : roundRobin(cell.workers),
    arrivalSpeedup: cell.arrivalSpeedup,
    engine: {
      blockTokens: cell.blockTokens,
      blocks: cell.blocks,
      profile: cell.version.startsWith('1.2') ? dynamo12Profile : dynamoProfile,
    },
  })
}

export function compareCell(cell: ReplayCell, trace: readonly TraceRequest[], seed = 1): ComparedFigure[] {
  const ours = runCell(cell, trace, seed)
  const isDrawn = cell.routerMode === 'kv_router'
  const figure = (name: string, value: number, theirs: string, limit: number, drawnLimit: number): ComparedFigure => ({
    figure: name,
    ours: value,
    theirs: cell.summary[theirs]!,
    difference: value / cell.summary[theirs]! - 1,
    limit: isDrawn ? drawnLimit : limit, // ties are drawn: two runs of upstream differ by about 1 %
  })
  return [
    figure('TTFT mean', ours.ttft_ms.mean, 'mean_ttft_ms', 0.01, 0.02),
    figure('TTFT p50', ours.ttft_ms.p50, 'median_ttft_ms', 0.01, 0.04),
    figure('TTFT p99', ours.ttft_ms.p99, 'p99_ttft_ms', 0.04, 0.04),
    figure('ITL mean', ours.itl_ms.mean, 'mean_itl_ms', 0.01, 0.02),
    figure('ITL p50', ours.itl_ms.p50, 'median_itl_ms', 0.01, 0.04),
    figure('ITL p99', ours.itl_ms.p99, 'p99_itl_ms', 0.04, 0.1),
    figure('E2E mean', ours.e2e_ms.mean, 'mean_e2e_latency_ms', 0.01, 0.02),
    figure('E2E p50', ours.e2e_ms.p50, 'median_e2e_latency_ms', 0.01, 0.04),
    figure('E2E p99', ours.e2e_ms.p99, 'p99_e2e_latency_ms', 0.04, 0.1),
    figure('output tokens/s', ours.output_tokens_per_s, 'output_throughput_tok_s', 0.01, 0.01),
    figure('reuse', ours.reuse, 'prefix_cache_reused_ratio', 0.01, 0.1),
  ]
}
