/**
 * A profile of terms from measured step times. Least squares on relative errors, so that a prefill of 20 ms counts as much as
 * one of 2 s; a coefficient that comes out below zero is taken out and the others are fitted again.
 */
import { WarmrouteError } from '../../core/protocol/index.js'
import type { TermsProfile } from './timing.js'

export interface StepPoints {
  readonly prefill: readonly { readonly newTokens: number; readonly prefixTokens: number; readonly ms: number }[]
  readonly decode: readonly { readonly batch: number; readonly context: number; readonly ms: number }[]
}

export interface FittedProfile {
  readonly profile: TermsProfile
  /** Mean relative errors of the fit over its own points: 0.1 is ten percent. */
  readonly prefillError: number
  readonly decodeError: number
  /** The point that each of them is farthest off at; above 0 it takes less long than the fit says. */
  readonly prefillWorst: StepPoints['prefill'][number] & { readonly error: number }
  readonly decodeWorst: StepPoints['decode'][number] & { readonly error: number }
}

/** Prompts longer than `chunkTokens` were computed in several passes. */
export function fitProfile(points: StepPoints, name: string, chunkTokens: number): FittedProfile {
  if (points.prefill.length < 4 || points.decode.length < 3)
    throw new WarmrouteError('WR_INVALID_ARGUMENT', {
      reason: `a fit needs 4 prefills and 3 decode steps, not ${points.prefill.length} and ${points.decode.length}`,
    })
  const prefill = fit(points.prefill.map((point) => ({ ms: point.ms, features: prefillFeatures(point, chunkTokens) })))
  const decode = fit(points.decode.map(({ batch, context, ms }) => ({ ms, features: [1, batch, batch * context] })))
  const [constant, perNew, perNewSquared, perNewTimesPrefix] = prefill.weights
  const [base, perRequest, perContextToken] = decode.weights
  return {
    profile: {
      kind: 'terms',
      name,
      prefill: {
        constant: constant!,
        perNew: perNew!,
        perNewSquared: perNewSquared!,
        perNewTimesPrefix: perNewTimesPrefix!,
      },
      decode: { constant: base!, perRequest: perRequest!, perContextToken: perContextToken! },
    },
    prefillError: prefill.error,
    decodeError: decode.error,
    prefillWorst: { ...points.prefill[prefill.worst]!, error: prefill.errors[prefill.worst]! },
    decodeWorst: { ...points.decode[decode.worst]!, error: decode.errors[decode.worst]! },
  }
}

function prefillFeatures(point: StepPoints['prefill'][number], chunkTokens: number): number[] {
  const features = [0, 0, 0, 0]
  for (let done = 0; done < point.newTokens; done += chunkTokens) {
    const tokens = Math.min(chunkTokens, point.newTokens - done)
    features[0]! += 1
    features[1]! += tokens
    features[2]! += tokens * tokens
    features[3]! += tokens * (point.prefixTokens + done)
  }
  return features
}

interface Observation {
  readonly ms: number
  readonly features: readonly number[]
}

interface Fit {
  readonly weights: number[]
  /** Mean of what is off, and per observation: what is predicted over what was measured, less one. */
  readonly error: number
  readonly errors: readonly number[]
  /** The observation that is farthest off. */
  readonly worst: number
}

function fit(observations: readonly Observation[]): Fit {
  const size = observations[0]!.features.length
  let used = Array.from({ length: size }, (_, index) => index)
  for (;;) {
    const solved = solve(observations, used)
    const worst = used.reduce((least, index) => (solved[index]! < solved[least]! ? index : least), used[0]!)
    if (solved[worst]! >= 0 || used.length === 1) {
      const weights = solved.map((weight) => Math.max(0, weight))
      const errors = observations.map(({ features, ms }) => dot(weights, features) / ms - 1)
      const error = errors.reduce((sum, it) => sum + Math.abs(it), 0) / errors.length
      const farthest = errors.reduce((most, it, at) => (Math.abs(it) > Math.abs(errors[most]!) ? at : most), 0)
      return { weights, error, errors, worst: farthest }
    }
    used = used.filter((index) => index !== worst)
  }
}

/** Normal equations over the used features, each scaled to its largest value, solved by elimination with pivots. */
function solve(observations: readonly Observation[], used: readonly number[]): number[] {
  const scales = used.map((index) => Math.max(...observations.map(({ features }) => features[index]!)) || 1)
  const rows = used.map(() => new Float64Array(used.length + 1))
  for (const { ms, features } of observations) {
    const x = used.map((index, at) => features[index]! / scales[at]! / ms)
    for (const [i, row] of rows.entries()) {
      for (let j = 0; j < used.length; j++) row[j]! += x[i]! * x[j]!
      row[used.length]! += x[i]!
    }
  }
  const solved = observations[0]!.features.map(() => 0)
  for (const [at, value] of eliminate(rows).entries()) solved[used[at]!] = value / scales[at]!
  return solved
}

function eliminate(rows: Float64Array[]): number[] {
  const size = rows.length
  for (let column = 0; column < size; column++) {
    let pivot = column
    for (let row = column; row < size; row++)
      if (Math.abs(rows[row]![column]!) > Math.abs(rows[pivot]![column]!)) pivot = row
    ;[rows[column], rows[pivot]] = [rows[pivot]!, rows[column]!]
    const lead = rows[column]![column]!
    if (Math.abs(lead) < 1e-14) continue // two features that always go together: one of them gets nothing
    for (let row = 0; row < size; row++) {
      if (row === column) continue
      const factor = rows[row]![column]! / lead
      for (let at = column; at <= size; at++) rows[row]![at]! -= factor * rows[column]![at]!
    }
  }
  return rows.map((row, at) => (Math.abs(row[at]!) < 1e-14 ? 0 : row[size]! / row[at]!))
}

function dot(weights: readonly number[], features: readonly number[]): number {
  return weights.reduce((sum, weight, index) => sum + weight * features[index]!, 0)
}
