import { expect, it } from 'vitest'
import type { ConditionalFacts, ConditionalSettings } from './conditional.js'
import { bypassRemotePrefill } from './conditional.js'

const settings: ConditionalSettings = { policy: 'isl_bounding', effIslThreshold: 2048, effIslRatioThreshold: 0.7 }
const facts: ConditionalFacts = { promptTokens: 10_000, decodeCachedTokens: 9_000 }
const busyPrefill = { prefillActiveTokens: 4001, prefillCapacityTokens: 1000 }

it.each<[string, Partial<ConditionalSettings>, Partial<ConditionalFacts>, string | undefined]>([
  ['a mostly cached prompt', {}, {}, 'mostly-cached'],
  ['new tokens at the threshold', {}, { decodeCachedTokens: 10_000 - 2048 }, undefined],
  ['a share at the threshold', { effIslThreshold: 100_000, effIslRatioThreshold: 0.1 }, {}, undefined],
  ['more cached than the prompt is long counts as all cached', {}, { decodeCachedTokens: 99_999 }, 'mostly-cached'],
  ['an empty prompt', {}, { promptTokens: 0, decodeCachedTokens: 0 }, undefined],
  ['a prefill pin', {}, { hasPrefillPin: true }, undefined],
  ['a decode router that knows no cache', {}, { isKvDecode: false }, undefined],
  ['a decode rank that cannot be resolved', {}, { decodeCachedTokens: undefined }, undefined],
  [
    'load policy, a busy prefill worker',
    { policy: 'prefill_load', prefillBusyThreshold: 4 },
    busyPrefill,
    'prefill-busy',
  ],
  ['load policy, at the threshold', { policy: 'prefill_load', prefillBusyThreshold: 4.001 }, busyPrefill, undefined],
  [
    'load policy falls back to the queue threshold',
    { policy: 'prefill_load', routerQueueThreshold: 4 },
    busyPrefill,
    'prefill-busy',
  ],
  ['load policy without any threshold', { policy: 'prefill_load' }, busyPrefill, undefined],
  ['load policy, load unknown', { policy: 'prefill_load', prefillBusyThreshold: 0 }, {}, undefined],
  ['load policy ignores the cache', { policy: 'prefill_load', prefillBusyThreshold: 9 }, busyPrefill, undefined],
  ['either policy, cached', { policy: 'isl_or_load', prefillBusyThreshold: 9 }, busyPrefill, 'mostly-cached'],
  [
    'either policy, busy',
    { policy: 'isl_or_load', prefillBusyThreshold: 4 },
    { ...busyPrefill, decodeCachedTokens: 0 },
    'prefill-busy',
  ],
  [
    'veto: a busy decode worker',
    { decodeBusyThreshold: 0.5 },
    { decodePotentialBlocks: 51, decodeTotalBlocks: 100 },
    undefined,
  ],
  [
    'no veto at the threshold',
    { decodeBusyThreshold: 0.5 },
    { decodePotentialBlocks: 50, decodeTotalBlocks: 100 },
    'mostly-cached',
  ],
  ['veto: a decode worker of unknown size', { decodeBusyThreshold: 0.5 }, { decodePotentialBlocks: 1 }, undefined],
])('%s', (_says, changedSettings, changedFacts, reason) => {
  expect(bypassRemotePrefill({ ...settings, ...changedSettings }, { ...facts, ...changedFacts })).toBe(reason)
})
