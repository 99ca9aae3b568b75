/**
 * How long would a prefill take? Estimates that come from configuration: a polynomial, or a table of measured steps. Cached
 * tokens are not free: attention reads the prefix, so its length is part of the question.
 */
import { WarmrouteError } from '../protocol/index.js'

export interface PrefillEstimator {
  /** Milliseconds for `newTokens` behind `prefixTokens` cached ones on this worker; undefined when nothing is known yet. */
  predictMs(workerId: bigint, newTokens: number, prefixTokens: number): number | undefined
}

/** ms = base + perToken n + perToken2 n^2 + perTokenPrefix n p, for each pass of at most `chunkTokens` of a prompt. */
export interface PrefillCoefficients {
  /** Per pass. */
  readonly base: number
  readonly perToken: number
  readonly perToken2: number
  readonly perTokenPrefix: number
}

/** The simulator's polynomial (lib/mocker at v1.4.1): it knows no prefix. */
export const mockerCoefficients: PrefillCoefficients = {
  base: 16.50142,
  perToken: 1.518344e-2,
  perToken2: 4.209989e-7,
  perTokenPrefix: 0,
}

export class PolynomialEstimator implements PrefillEstimator {
  readonly #coefficients: PrefillCoefficients

  constructor(coefficients: PrefillCoefficients) {
    for (const [name, value] of Object.entries(coefficients)) {
      if (!Number.isFinite(value))
        throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: `prefill coefficient ${name} is ${value}` })
    }
    this.#coefficients = coefficients
  }

  predictMs(_workerId: bigint, newTokens: number, prefixTokens: number): number {
    return evaluate(this.#coefficients, newTokens, prefixTokens)
  }
}

export interface MeasuredPrefill {
  readonly newTokens: number
  readonly prefixTokens: number
  readonly ms: number
}

/** Interpolates between measured points: along new tokens first, then along the prefix; beyond the ends, by the last slope. */
export class TableEstimator implements PrefillEstimator {
  /** One row per prefix length, ascending; its points ascend by new tokens. */
  readonly #rows: readonly { readonly prefix: number; readonly points: readonly Point[] }[]

  constructor(measured: readonly MeasuredPrefill[]) {
    const byPrefix = new Map<number, Point[]>()
    for (const { newTokens, prefixTokens, ms } of measured) {
      if (!(newTokens > 0 && prefixTokens >= 0 && ms >= 0)) {
        throw new WarmrouteError('WR_INVALID_ARGUMENT', {
          reason: 'a measured prefill has a count or time below zero',
          newTokens,
          prefixTokens,
          ms,
        })
      }
      const row = byPrefix.get(prefixTokens)
      if (row) row.push({ at: newTokens, value: ms })
      else byPrefix.set(prefixTokens, [{ at: newTokens, value: ms }])
    }
    this.#rows = [...byPrefix]
      .map(([prefix, points]) => ({ prefix, points: points.sort((a, b) => a.at - b.at) }))
      .sort((a, b) => a.prefix - b.prefix)
    if (this.#rows.length === 0)
      throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: 'a table of prefills needs at least one row' })
  }

  predictMs(_workerId: bigint, newTokens: number, prefixTokens: number): number {
    if (newTokens <= 0) return 0
    const along = this.#rows.map(({ prefix, points }) => ({ at: prefix, value: interpolate(points, newTokens) }))
    return Math.max(0, interpolate(along, prefixTokens))
  }
}

/** One pass for the whole prompt unless told how many tokens a pass takes. */
export function evaluate(
  coefficients: PrefillCoefficients,
  newTokens: number,
  prefixTokens: number,
  chunkTokens = Number.POSITIVE_INFINITY,
): number {
  if (newTokens <= 0) return 0
  const { base, perToken, perToken2, perTokenPrefix } = coefficients
  const passes = Math.max(1, Math.ceil(newTokens / chunkTokens))
  const cross = crossTokens(newTokens, prefixTokens, chunkTokens)
  const ms =
    base * passes + perToken * newTokens + perToken2 * squareTokens(newTokens, chunkTokens) + perTokenPrefix * cross
  return Math.max(0, ms)
}

/** Sum over the passes of (tokens of the pass) squared. */
export function squareTokens(newTokens: number, chunkTokens: number): number {
  const full = Math.floor(newTokens / chunkTokens)
  if (full === 0) return newTokens * newTokens
  const rest = newTokens - full * chunkTokens
  return full * chunkTokens * chunkTokens + rest * rest
}

/** Sum over the passes of (tokens of the pass) times (tokens before it). */
export function crossTokens(newTokens: number, prefixTokens: number, chunkTokens: number): number {
  const full = Math.floor(newTokens / chunkTokens)
  if (full === 0) return newTokens * prefixTokens
  const rest = newTokens - full * chunkTokens
  const before = chunkTokens * (full * prefixTokens + (chunkTokens * full * (full - 1)) / 2)
  return before + rest * (prefixTokens + full * chunkTokens)
}

interface Point {
  readonly at: number
  readonly value: number
}

function interpolate(points: readonly Point[], at: number): number {
  const last = points.length - 1
  if (last === 0) return points[0]!.value
  let right = points.findIndex((point) => point.at >= at)
  if (right === -1) right = last
  if (right === 0) {
    if (points[0]!.at >= at) return points[0]!.value // below the first point it costs what the first one costs
    right = 1
  }
  const [a, b] = [points[right - 1]!, points[right]!]
  return a.value + ((b.value - a.value) * (at - a.at)) / (b.at - a.at)
}
