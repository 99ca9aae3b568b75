import { expect, it } from 'vitest'
import { groups, loadConfig } from '../config/index.js'
import { gatewayOptionsOf, modelRulesOf } from './from-config.js'
import { defaultDeadlines, defaultHealth, defaultLimits } from './options.js'

it('says nothing else than the defaults of the room when nothing is set', () => {
  const { server } = loadConfig(groups, {}).values
  const options = gatewayOptionsOf(server)
  expect({ ...defaultDeadlines, ...options.deadlines }).toEqual(defaultDeadlines)
  expect({ ...defaultHealth, ...options.health }).toEqual(defaultHealth)
  expect({ ...defaultLimits, ...options.limits }).toEqual(defaultLimits)
  expect(modelRulesOf(server)).toEqual({ thresholds: {}, monitor: '1.1', sessionAffinityTtlSecs: undefined })
})
