import { expect, it } from 'vitest'
import { groups, loadConfig } from '../../config/index.js'
import type { PrefillEstimator } from '../../core/router/index.js'
import { prefillEstimatorOf } from './prefill-times.js'

/** As it would stand in a file. */
function estimatorFor(times: unknown): PrefillEstimator {
  const text = JSON.stringify({ serve: { prefill_times: times } })
  const { serve } = loadConfig(groups, { file: { path: 'warmroute.yaml', text } }).values
  const estimator = prefillEstimatorOf(serve.prefillTimes)
  if (typeof estimator !== 'function') throw new TypeError(`it is ${estimator}`)
  return estimator
}

it('prices a prefill by a formula', () => {
  const estimate = estimatorFor({ base: 10, per_token: 0.02, per_token_prefix: 0.00001 })
  expect(estimate(1000, 0)).toBeCloseTo(30)
  expect(estimate(1000, 1000)).toBeCloseTo(40)
})

it('prices a prefill by measured points', () => {
  const estimate = estimatorFor([
    { new: 1000, prefix: 0, ms: 40 },
    { new: 2000, prefix: 0, ms: 80 },
  ])
  expect(estimate(1500, 0)).toBeCloseTo(60)
})

it.each([
  ['a file', { file: { path: 'w.yaml', text: 'serve: { prefill_times: online }' } }],
  ['a flag', { flags: ['--prefill-times', 'online'] }],
  ['the environment', { env: { WARMROUTE_PREFILL_TIMES: 'online' } }],
])('learns where %s says so', (_, sources) => {
  expect(prefillEstimatorOf(loadConfig(groups, sources).values.serve.prefillTimes)).toBe('online')
})

it('knows nothing unless told', () => {
  expect(prefillEstimatorOf(loadConfig(groups, {}).values.serve.prefillTimes)).toBeUndefined()
})

it.each([[{ base: -1, per_token: 0 }], [[]], [[{ new: 0, prefix: 0, ms: 1 }]], [{ per_token: 1 }]])(
  'refuses %j',
  (times) => {
    expect(() => estimatorFor(times)).toThrow('prefill_times')
  },
)
