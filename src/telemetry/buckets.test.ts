import { expect, it } from 'vitest'
import { exponentialBuckets, linearBuckets, logBuckets } from './buckets.js'

it.each([
  ['request duration', logBuckets(1, 512, 10), [0, 2, 4, 8, 16, 32, 64, 130, 260, 510]],
  ['request duration of 1.0.2', logBuckets(1, 256, 10), [0, 1.9, 3.4, 6.3, 12, 22, 40, 75, 140, 260]],
  ['output length', logBuckets(50, 32_000, 10), [0, 100, 210, 430, 880, 1800, 3700, 7600, 16_000, 32_000]],
  ['no buckets', logBuckets(1, 2, 0), []],
  ['one bucket', logBuckets(1, 2, 1), [0]],
  ['duplicates go', logBuckets(1, 1.01, 5), [0, 1]],
  ['linear keeps float noise', linearBuckets(0, 0.05, 4), [0, 0.05, 0.1, 0.15000000000000002]],
  [
    'exponential keeps float noise',
    exponentialBuckets(0.01, 3, 7),
    [0.01, 0.03, 0.09, 0.27, 0.81, 2.43, 7.290000000000001],
  ],
])('%s', (_says, bounds, expected) => {
  expect(bounds).toEqual(expected)
})
