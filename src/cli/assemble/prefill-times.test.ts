import { expect, it } from 'vitest'
import { groups, loadConfig } from '../../config/index.js'
import { prefillEstimatorOf } from './prefill-times.js'

/** As it would stand in a file. */
function estimatorFor(times: unknown): ReturnType<typeof prefillEstimatorOf> {
  const text = JSON.stringify({ serve: { prefill_times: times } })
  const { serve } = loadConfig(groups, { file: { path: 'warmroute.yaml', text } }).values
  return prefillEstimatorOf(serve.prefillTimes)
}

it('prices a prefill by a formula', () => {
  const estimate = estimatorFor({ base: 10, per_token: 0.02, per_token_prefix: 0.00001 })!
  expect(estimate(1000, 0)).toBeCloseTo(30)
  expect(estimate(1000, 1000)).toBeCloseTo(40)
})

it('prices a prefill by measured points', () => {
  const estimate = estimatorFor([
    { new: 1000, prefix: 0, ms: 40 },
    { new: 2000, prefix: 0, ms: 80 },
  ])!
  expect(estimate(1500, 0)).toBeCloseTo(60)
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
