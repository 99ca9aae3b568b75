import { expect, it } from 'vitest'
import type { MetricKey } from './catalogue.js'
import { catalogue } from './catalogue.js'
import { unitOf } from './unit.js'

it.each<[MetricKey, string]>([
  ['requestDuration', 'seconds'],
  ['overheadTotal', 'milliseconds'],
  ['indexBytes', 'bytes'],
  ['outputTokens', 'tokens'],
  ['workerActiveDecodeBlocks', 'blocks'],
  ['routerKvHitRate', 'ratio'],
  ['eventState', 'flag'],
  ['requests', 'count'],
])('%s is in %s', (key, unit) => {
  expect(unitOf(key)).toBe(unit)
})

it('a histogram is of something that can be measured', () => {
  const keys = Object.keys(catalogue) as MetricKey[]
  expect(keys.filter((key) => catalogue[key].type === 'histogram' && unitOf(key) === 'count')).toEqual([])
})
