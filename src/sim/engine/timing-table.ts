/** Step times looked up in measured points: bilinear between them, along the last edge beyond them. */
import { WarmrouteError } from '../../core/protocol/index.js'

export interface StepTable {
  /** One sequence: `newTokens` after `prefixTokens` cached ones. Every pair of the two axes must be there. */
  readonly prefill: readonly { readonly newTokens: number; readonly prefixTokens: number; readonly ms: number }[]
  /** One step of `batch` sequences with `context` tokens each; larger batches of long contexts may be missing. */
  readonly decode: readonly { readonly batch: number; readonly context: number; readonly ms: number }[]
}

interface Grid {
  readonly xs: readonly number[]
  readonly ys: readonly number[]
  readonly values: readonly (readonly number[])[] // values[x][y]
}

/** A timer over a table; its interface is `StepTimer` of timing.ts. */
export class TableTimer {
  readonly #prefill: Grid
  readonly #decode: Grid
  readonly #launchMs: number
  readonly #speed: { readonly speedup: number; readonly decodeSpeedup: number }
  #prefills = 0
  #prefillMs = 0
  #decodes = 0
  #contextTokens = 0

  constructor(table: StepTable, speed: { readonly speedup: number; readonly decodeSpeedup: number }) {
    this.#prefill = toGrid(table.prefill.map(({ newTokens, prefixTokens, ms }) => [newTokens, prefixTokens, ms]))
    this.#decode = toGrid(table.decode.map(({ batch, context, ms }) => [batch, context, ms]))
    this.#launchMs = Math.min(...table.prefill.map(({ ms }) => ms))
    this.#speed = speed
  }

  prefill(newTokens: number, prefixTokens: number): void {
    const ms = interpolate(this.#prefill, newTokens, prefixTokens)
    // Measured alone, each sequence paid for a launch; sequences of one pass share it.
    this.#prefillMs += this.#prefills++ === 0 ? ms : Math.max(0, ms - this.#launchMs)
  }

  decode(contextTokens: number): void {
    this.#decodes++
    this.#contextTokens += contextTokens
  }

  take(): number {
    const { speedup, decodeSpeedup } = this.#speed
    let ms = this.#prefillMs / speedup
    if (this.#decodes > 0)
      ms += interpolate(this.#decode, this.#decodes, this.#contextTokens / this.#decodes) / (speedup * decodeSpeedup)
    this.#prefills = this.#prefillMs = this.#decodes = this.#contextTokens = 0
    return ms
  }
}

function toGrid(points: readonly (readonly number[])[]): Grid {
  const xs = axis(points.map(([x]) => x!))
  const ys = axis(points.map(([, y]) => y!))
  if (xs.length < 2 || ys.length < 2)
    throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: 'a step table needs at least two values on each axis' })
  const known = new Map(points.map(([x, y, ms]) => [`${x} ${y}`, ms!]))
  const values = xs.map((x) => ys.map((y) => known.get(`${x} ${y}`) ?? Number.NaN))
  for (const column of values) fill(column, ys)
  return { xs, ys, values }
}

/** A hole (not enough memory to measure it) continues the line of the two points before it. */
function fill(column: number[], ys: readonly number[]): void {
  for (let y = 0; y < column.length; y++) {
    if (!Number.isNaN(column[y]!)) continue
    if (y < 2)
      throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: 'a step table has a hole that cannot be filled' })
    const slope = (column[y - 1]! - column[y - 2]!) / (ys[y - 1]! - ys[y - 2]!)
    column[y] = column[y - 1]! + slope * (ys[y]! - ys[y - 1]!)
  }
}

function axis(values: readonly number[]): number[] {
  return [...new Set(values)].sort((a, b) => a - b)
}

function interpolate(grid: Grid, x: number, y: number): number {
  const column = below(grid.xs, x)
  const row = below(grid.ys, y)
  // Below the first point nothing is cheaper than the first point; above the last the line goes on.
  const alongX = Math.max(0, (x - grid.xs[column]!) / (grid.xs[column + 1]! - grid.xs[column]!))
  const alongY = Math.max(0, (y - grid.ys[row]!) / (grid.ys[row + 1]! - grid.ys[row]!))
  const low = mix(grid.values[column]![row]!, grid.values[column]![row + 1]!, alongY)
  const high = mix(grid.values[column + 1]![row]!, grid.values[column + 1]![row + 1]!, alongY)
  return Math.max(0, mix(low, high, alongX))
}

function below(points: readonly number[], value: number): number {
  let index = 0
  while (index < points.length - 2 && points[index + 1]! <= value) index++
  return index
}

function mix(low: number, high: number, share: number): number {
  return low + (high - low) * share
}

/**
 * Reads measured points, one JSON object per line: `{kind:"prefill",new,prefix,ms}` and `{kind:"decode",batch,context,ms}`.
 *
 * @example
 * import { parseStepTable } from 'warmroute/sim'
 *
 * const points = [
 *   { kind: 'prefill', new: 1024, prefix: 0, ms: 40 },
 *   { kind: 'prefill', new: 4096, prefix: 0, ms: 150 },
 *   { kind: 'decode', batch: 1, context: 1024, ms: 6 },
 *   { kind: 'decode', batch: 8, context: 8192, ms: 9 },
 * ]
 * parseStepTable(points.map((point) => JSON.stringify(point)).join('\n'))
 */
export function parseStepTable(text: string): StepTable {
  const rows = text.split('\n').flatMap((line, at) => (line.trim() === '' ? [] : [rowOf(line, at + 1)]))
  const numberOf = (row: Record<string, unknown>, key: string): number => {
    const value = row[key]
    if (typeof value === 'number' && Number.isFinite(value)) return value
    throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: `a ${String(row['kind'])} row lacks ${key}` })
  }
  return {
    prefill: rows
      .filter((row) => row['kind'] === 'prefill')
      .map((row) => ({
        newTokens: numberOf(row, 'new'),
        prefixTokens: numberOf(row, 'prefix'),
        ms: numberOf(row, 'ms'),
      })),
    decode: rows
      .filter((row) => row['kind'] === 'decode')
      .map((row) => ({ batch: numberOf(row, 'batch'), context: numberOf(row, 'context'), ms: numberOf(row, 'ms') })),
  }
}

function rowOf(text: string, line: number): Record<string, unknown> {
  try {
    const json: unknown = JSON.parse(text)
    if (typeof json === 'object' && json !== null) return json as Record<string, unknown>
  } catch {
    // said below
  }
  throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: `line ${line} of the step times is no JSON object`, line })
}
