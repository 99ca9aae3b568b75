/** From the setting `prefill_times` to an estimator: how long a prefill should take, by a formula, by measured points, or learned. */
import type { PrefillTimes } from '../../config/index.js'
import { PolynomialEstimator, TableEstimator } from '../../core/load/index.js'
import type { PrefillEstimator } from '../../core/router/index.js'

/** Undefined: nobody said. The same for every worker, as the setting is. */
export function prefillEstimatorOf(times: PrefillTimes | undefined): PrefillEstimator | 'online' | undefined {
  if (times === undefined || times === 'online') return times
  const estimator = Array.isArray(times) ? tableOf(times) : polynomialOf(times as PrefillFormula)
  return (newTokens, cachedTokens) => estimator.predictMs(anyWorker, newTokens, cachedTokens)
}

type PrefillFormula = Exclude<PrefillTimes, readonly unknown[] | 'online'>
type PrefillPoint = Extract<PrefillTimes, readonly unknown[]>[number]

const anyWorker = 0n

function polynomialOf(times: PrefillFormula): PolynomialEstimator {
  return new PolynomialEstimator({
    base: times.base,
    perToken: times.per_token,
    perToken2: times.per_token2 ?? 0,
    perTokenPrefix: times.per_token_prefix ?? 0,
  })
}

function tableOf(points: readonly PrefillPoint[]): TableEstimator {
  return new TableEstimator(points.map((it) => ({ newTokens: it.new, prefixTokens: it.prefix, ms: it.ms })))
}
