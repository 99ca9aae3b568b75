import { expect, it } from 'vitest'
import { eventSourceRequirement, needsEventSource } from './event-source-requirement.js'
import { completeRouterConfig } from './judge-router-config.js'
import type { RouterConfigInput } from './router-config.js'

const disagg = (conditionalDisaggPolicy: 'isl_bounding' | 'prefill_load' | 'isl_or_load'): RouterConfigInput => ({
  conditionalDisaggEnabled: true,
  conditionalDisaggPolicy,
})

it.each([
  ['prefill', {}, 'cache_aware_routing', true],
  ['aggregated', {}, 'cache_aware_routing', true],
  ['decode', {}, 'not_required', false],
  ['encode', {}, 'not_required', false],
  [undefined, {}, 'unknown', true],
  ['decode', disagg('isl_bounding'), 'conditional_disagg_decode_cache', true],
  ['decode', disagg('prefill_load'), 'conditional_disagg_decode_cache', true],
  ['decode', disagg('isl_or_load'), 'conditional_disagg_decode_cache', true],
  ['encode', disagg('isl_or_load'), 'not_required', false],
  ...[{ useRemoteIndexer: true }, { useKvEvents: false }, { overlapScoreCredit: 0 }].flatMap(
    (config) =>
      [
        [undefined, config, 'unknown', false],
        ['aggregated', config, 'not_required', false],
        ['decode', config, 'not_required', false],
      ] as const,
  ),
] as const)('workers of role %s with %j: %s', (role, config, requirement, isNeeded) => {
  const complete = completeRouterConfig(config)
  expect([eventSourceRequirement(role, complete), needsEventSource(role, complete)]).toEqual([requirement, isNeeded])
})
