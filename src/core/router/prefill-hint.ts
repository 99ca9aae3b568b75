/** What a prefill will cost the chosen rank: the tokens it has not cached, and how long they should take. */
import type { PrefillLoadHint } from '../sequences/index.js'

/** Predicts the time of one prefill; throws or answers undefined when it cannot. */
export type PrefillEstimator = (newTokens: number, cachedTokens: number) => number | undefined

export interface PrefillHintInput {
  readonly promptTokens: number
  readonly cachedTokens: number
  readonly tracksPrefillTokens: boolean
  readonly estimate?: PrefillEstimator | undefined
  /** Told when the estimator failed; the request goes on without a duration. */
  readonly onFailure?: ((cause: unknown) => void) | undefined
}

/** Nothing when prefill tokens are not tracked, and nothing when everything is cached. */
export function prefillHint(input: PrefillHintInput): PrefillLoadHint | undefined {
  if (!input.tracksPrefillTokens) return undefined
  const cached = Math.min(input.cachedTokens, input.promptTokens)
  const tokens = input.promptTokens - cached
  if (tokens === 0) return undefined
  const durationMs = input.estimate && predict(input.estimate, tokens, cached, input.onFailure)
  return durationMs === undefined ? { tokens } : { tokens, durationMs }
}

function predict(
  estimate: PrefillEstimator,
  tokens: number,
  cached: number,
  onFailure: PrefillHintInput['onFailure'],
): number | undefined {
  try {
    const durationMs = estimate(tokens, cached)
    if (durationMs === undefined || (Number.isFinite(durationMs) && durationMs >= 0)) return durationMs
    throw new RangeError(`a prefill cannot take ${durationMs} ms`)
  } catch (cause) {
    onFailure?.(cause)
    return undefined
  }
}
