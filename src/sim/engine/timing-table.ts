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

  /** `name`: of the file that the points came from, for complaints. */
  constructor(table: StepTable, speed: { readonly speedup: number; readonly decodeSpeedup: number }, name: string) {
    const prefill = table.prefill.map(({ newTokens, prefixTokens, ms }) => [newTokens, prefixTokens, ms])
    const decode = table.decode.map(({ batch, context, ms }) => [batch, context, ms])
    this.#prefill = toGrid(prefill, `${name}: prefill points by new and prefix`)
    this.#decode = toGrid(decode, `${name}: decode points by batch and context`)
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

function toGrid(points: readonly (readonly number[])[], what: string): Grid {
  const xs = axis(points.map(([x]) => x!))
  const ys = axis(points.map(([, y]) => y!))
  if (xs.length < 2 || ys.length < 2)
    refuse(`${what} need at least two values of each, not ${xs.length} and ${ys.length}`)
  const known = new Map(points.map(([x, y, ms]) => [`${x} ${y}`, ms!]))
  const values = xs.map((x) => ys.map((y) => known.get(`${x} ${y}`) ?? Number.NaN))
  for (const [index, column] of values.entries()) fill(column, ys, `${what} have a hole at ${xs[index]} and`)
  return { xs, ys, values }
}

/** A hole (not enough memory to measure it) continues the line of the two points before it. */
function fill(column: number[], ys: readonly number[], hole: string): void {
  for (let y = 0; y < column.length; y++) {
    if (!Number.isNaN(column[y]!)) continue
    if (y < 2) refuse(`${hole} ${ys[y]} with no two points before it`)
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
 * Lines of other kinds are facts for people.
 *
 * @example
 * import { parseStepTable } from 'warmroute/sim'
 *
 * const points = [
 *   ...[1024, 4096].flatMap((fresh) => [0, 8192].map((prefix) => ({ kind: 'prefill', new: fresh, prefix, ms: fresh / 25 }))),
 *   ...[1, 8].flatMap((batch) => [1024, 8192].map((context) => ({ kind: 'decode', batch, context, ms: 6 + batch / 8 }))),
 * ]
 * console.log(parseStepTable(points.map((point) => JSON.stringify(point)).join('\n')).decode.length) // => 4
 */
export function parseStepTable(text: string): StepTable {
  const rows = text.split('\n').flatMap((line, at) => (line.trim() === '' ? [] : [rowOf(line, at + 1)]))
  return {
    prefill: rows
      .filter(({ kind }) => kind === 'prefill')
      .map((row) => ({
        newTokens: numberOf(row, 'new', 1),
        prefixTokens: numberOf(row, 'prefix', 0),
        ms: numberOf(row, 'ms', msMin),
      })),
    decode: rows
      .filter(({ kind }) => kind === 'decode')
      .map((row) => ({
        batch: numberOf(row, 'batch', 1),
        context: numberOf(row, 'context', 0),
        ms: numberOf(row, 'ms', msMin),
      })),
  }
}

/** A pass that takes no time would be no pass. */
const msMin = 1e-6

interface Row {
  readonly line: number
  readonly kind: unknown
  readonly fields: Readonly<Record<string, unknown>>
}

function numberOf({ line, kind, fields }: Row, key: string, least: number): number {
  const value = fields[key]
  if (typeof value === 'number' && value >= least && value <= 1e9) return value
  return refuse(`line ${line} of the step times, a ${String(kind)}, lacks a usable ${key}`, line)
}

function rowOf(text: string, line: number): Row {
  try {
    const json: unknown = JSON.parse(text)
    if (typeof json === 'object' && json !== null) {
      const fields = json as Record<string, unknown>
      return { line, kind: fields['kind'], fields }
    }
  } catch {
    // said below
  }
  return refuse(`line ${line} of the step times is no JSON object`, line)
}

function refuse(reason: string, line?: number): never {
  throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason, ...(line === undefined ? {} : { line }) })
}
