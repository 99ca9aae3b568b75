/**
 * The grid on which `policy: warm` is judged beside `dynamo`: which cells there are, what one costs to run, and what each must
 * hold. A central composite design over four factors for each generated shape: all corners, and from the centre every level of one
 * factor at a time. Used by `npm run routing:grid` and by the tests, which run a few cells.
 */
import { runExperiment } from './experiment.js'
import type { PolicyResult } from './experiment.js'
import { generateTrace, traceShapes } from './generate.js'
import type { TraceShape } from './generate.js'

export interface GridCell {
  readonly shape: TraceShape
  readonly workers: number
  readonly arrivalSpeedup: number
  readonly blocks: number
  readonly eventDelayMs: number
}

export interface GridFigures {
  readonly ttft: number
  readonly p90: number
  readonly p99: number
  readonly itl: number
  readonly e2e: number
  readonly reuse: number
}

export interface GridResult {
  readonly warm: GridFigures
  readonly dynamo: GridFigures
  readonly tuned: GridFigures
}

const levels = {
  workers: [4, 8, 16, 32, 64],
  arrivalSpeedup: [1, 2, 4, 8],
  blocks: [4096, 16_384, 65_536],
  eventDelayMs: [0, 200, 1000],
} as const
type Factor = keyof typeof levels
const factors = Object.keys(levels) as Factor[]
const centre = { workers: 16, arrivalSpeedup: 4, blocks: 16_384, eventDelayMs: 200 } as const

/** Of the generator at x1, whatever the fleet: from a fleet that is nearly idle to one that is nearly full. */
const requestsPerSecond = 4

/** Upstream's settings that gained most on the conversation trace without a queue. */
export const tunedSettings = ['prefill_load_scale=10']

export function gridCells(): GridCell[] {
  const corners = factors.reduce<Record<string, number>[]>(
    (made, factor) =>
      made.flatMap((cell) =>
        [levels[factor][0], levels[factor].at(-1)!].map((level) => ({ ...cell, [factor]: level })),
      ),
    [{}],
  ) as unknown as Omit<GridCell, 'shape'>[]
  const star = factors.flatMap((factor) =>
    levels[factor].filter((level) => level !== centre[factor]).map((level) => ({ ...centre, [factor]: level })),
  )
  return traceShapes.flatMap((shape) => [...corners, centre, ...star].map((cell) => ({ shape, ...cell })))
}

export function gridKey({ shape, workers, arrivalSpeedup, blocks, eventDelayMs }: GridCell): string {
  return `${shape} N${workers} x${arrivalSpeedup} ${blocks / 1024}k ${eventDelayMs} ms`
}

export function runGridCell(cell: GridCell, options: { readonly requests: number; readonly seed: number }): GridResult {
  const { shape, ...fleet } = cell
  const trace = generateTrace(shape, { ...options, requestsPerSecond })
  const figures = (policy: 'warm' | 'dynamo', settings: readonly string[]): GridFigures =>
    figuresOf(runExperiment(trace, { ...fleet, policies: [policy], settings, seed: options.seed })[0]!)
  return { warm: figures('warm', []), dynamo: figures('dynamo', []), tuned: figures('dynamo', tunedSettings) }
}

/** What a cell must hold and does not: empty where all is well. */
export function missedIn({ warm, dynamo, tuned }: GridResult): string[] {
  const rules: readonly (readonly [string, number, number, number])[] = [
    ['TTFT > default', warm.ttft, dynamo.ttft, 1.001], // a thousandth is a tie
    ['TTFT > tuned + 2 %', warm.ttft, tuned.ttft, 1.02],
    ['p99 > default + 3 %', warm.p99, dynamo.p99, 1.03],
    ['E2E > default + 2 %', warm.e2e, dynamo.e2e, 1.02],
  ]
  return rules.flatMap(([name, value, than, factor]) => (value > than * factor ? [name] : []))
}

function figuresOf({ ttft_ms, itl_ms, e2e_ms, reuse }: PolicyResult): GridFigures {
  const { mean: ttft, p90, p99 } = ttft_ms
  return { ttft, p90, p99, itl: itl_ms.mean, e2e: e2e_ms.mean, reuse }
}
