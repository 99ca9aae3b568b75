import { describe, expect, it } from 'vitest'
import { groups, loadConfig } from '../config/index.js'
import type { LoadThresholds } from '../core/load/index.js'
import { gatewayOptionsOf, modelRulesOf } from './from-config.js'
import { defaultDeadlines, defaultHealth, defaultLimits } from './options.js'

it('says nothing else than the defaults of the room when nothing is set', () => {
  const { server } = loadConfig(groups, {}).values
  const options = gatewayOptionsOf(server)
  expect({ ...defaultDeadlines, ...options.deadlines }).toEqual(defaultDeadlines)
  expect({ ...defaultHealth, ...options.health }).toEqual(defaultHealth)
  expect({ ...defaultLimits, ...options.limits }).toEqual(defaultLimits)
  expect(modelRulesOf(server, 'm', 'default')).toEqual({
    thresholds: {},
    monitor: '1.1',
    sessionAffinityTtlSecs: undefined,
  })
})

it.each([
  ['old', '1.0'],
  ['new', '1.1'],
  ['other', '1.0'],
  ['constructor', '1.0'],
])('judges the load of %s by the rules of %s', (model, version) => {
  const file = { path: 'w.yaml', text: 'server: { monitor: "1.0", monitors: { old: "1.0", new: "1.1" } }' }
  expect(modelRulesOf(loadConfig(groups, { file }).values.server, model, 'default').monitor).toBe(version)
})

describe('busy thresholds that nobody set', () => {
  const upstreams: LoadThresholds = {
    activeDecodeBlocksThreshold: 1,
    activePrefillTokensThreshold: 10_000_000,
    activePrefillTokensThresholdFrac: 10,
  }
  const { activePrefillTokensThresholdFrac: _off, ...withoutFrac } = upstreams

  it.each<[string, string[], LoadThresholds]>([
    ['are unset', [], {}],
    ['are unset as of 1.5', ['--compat', 'dynamo-1.5'], {}],
    ["are the command line's own as of 1.2", ['--compat', 'dynamo-1.2'], upstreams],
    [
      'are unset for the monitor of 1.0, which has values of its own for them',
      ['--compat', 'dynamo-1.2', '--monitor', '1.0'],
      {},
    ],
    [
      'give way to the one that is set',
      ['--compat', 'dynamo-1.2', '--active-decode-blocks-threshold', '0.5'],
      { ...upstreams, activeDecodeBlocksThreshold: 0.5 },
    ],
    [
      'are off where somebody says None',
      ['--compat', 'dynamo-1.2', '--active-prefill-tokens-threshold-frac', 'None'],
      withoutFrac,
    ],
    ['stay unset where somebody says None', ['--active-decode-blocks-threshold', 'None'], {}],
  ])('%s', (_says, flags, thresholds) => {
    const { server, routing } = loadConfig(groups, { flags }).values
    expect(modelRulesOf(server, 'm', routing.compat).thresholds).toEqual(thresholds)
  })

  it.each([
    ['--active-decode-blocks-threshold', '1.01'],
    ['--active-prefill-tokens-threshold', '-1'],
    ['--active-prefill-tokens-threshold', '0.5'],
    ['--active-prefill-tokens-threshold-frac', '-0.1'],
    ['--active-prefill-tokens-threshold-frac', 'Infinity'],
  ])('%s %s is refused', (...flags) => {
    expect(() => loadConfig(groups, { flags })).toThrow(expect.objectContaining({ code: 'WR_INVALID_CONFIG' }) as Error)
  })
})
