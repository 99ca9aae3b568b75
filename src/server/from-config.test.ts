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
  expect(modelRulesOf(server, 'm')).toEqual({ thresholds: {}, monitor: '1.1', sessionAffinityTtlSecs: undefined })
})

it.each([
  ['old', '1.0'],
  ['new', '1.1'],
  ['other', '1.0'],
  ['constructor', '1.0'],
])('judges the load of %s by the rules of %s', (model, version) => {
  const file = { path: 'w.yaml', text: 'server: { monitor: "1.0", monitors: { old: "1.0", new: "1.1" } }' }
  expect(modelRulesOf(loadConfig(groups, { file }).values.server, model).monitor).toBe(version)
})
