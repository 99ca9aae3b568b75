import fc from 'fast-check'
import { expect, it } from 'vitest'
import { WarmrouteError } from './errors.js'
import { completeOverride, completeRouterConfig, judgeRouterConfig } from './judge-router-config.js'
import type { RouterConfig, RouterConfigInput, RouterConfigOverrideInput } from './router-config.js'
import {
  assumesKvReuse,
  defaultRouterConfig,
  queueRecheckIntervalMs,
  shouldSubscribeToKvEvents,
  trackedBlockCount,
  tracksPrefillTokens,
} from './router-config.js'

function messages(input: RouterConfigInput): string[] {
  try {
    completeRouterConfig(input)
    return []
  } catch (error) {
    expect(error).toBeInstanceOf(WarmrouteError)
    const { code, details } = error as WarmrouteError
    expect(code).toBe('WR_INVALID_CONFIG')
    return (details['issues'] as { message: string }[]).map((issue) => issue.message)
  }
}

it('the range of the overlap credit follows compat, in a config and in an override', () => {
  expect(completeRouterConfig({ overlapScoreCredit: 1.1, compat: 'dynamo-1.5' }).overlapScoreCredit).toBe(1.1)
  expect(completeOverride({ overlapScoreCredit: 1.1 }, 'dynamo-1.5')).toEqual({ overlapScoreCredit: 1.1 })
  for (const compat of ['default', 'dynamo-1.2'] as const) {
    expect(messages({ overlapScoreCredit: 1.1, compat })).toHaveLength(1)
    expect(() => completeOverride({ overlapScoreCredit: 1.1 }, compat)).toThrow('overlap_score_credit')
  }
  for (const bad of [-0.1, Number.NaN, Infinity]) {
    expect(messages({ overlapScoreCredit: bad, compat: 'dynamo-1.5' })).toHaveLength(1)
    expect(() => completeOverride({ overlapScoreCredit: bad }, 'dynamo-1.5')).toThrow('overlap_score_credit')
  }
})

it.each([
  { input: { useKvEvents: false, routerPredictedTtlSecs: 5 }, isRefused: true },
  { input: { useKvEvents: false, routerPredictedTtlSecs: 5, useRemoteIndexer: true }, isRefused: true },
  { input: { routerPredictedTtlSecs: 5, useRemoteIndexer: true }, isRefused: false },
  { input: { routerPredictedTtlSecs: 5, serveIndexer: true }, isRefused: false },
])('predictions beside events need events, wherever the index is: $input', ({ input, isRefused }) => {
  expect(messages(input)).toEqual(isRefused ? ['router_predicted_ttl_secs requires use_kv_events=true'] : [])
})

it('the defaults break no rule, and the shared cache multiplier is off', () => {
  expect(judgeRouterConfig(defaultRouterConfig)).toEqual([])
  expect(completeRouterConfig()).toEqual(defaultRouterConfig)
  expect(defaultRouterConfig.sharedCacheMultiplier).toBe(0)
  expect(defaultRouterConfig.routerQueueThreshold).toBe(4)
})

it.each([
  { input: { sharedCacheMultiplier: -0.1 }, says: 'shared_cache_multiplier must be between 0 and 1' },
  { input: { sharedCacheMultiplier: 1.1 }, says: 'shared_cache_multiplier must be between 0 and 1' },
  { input: { overlapScoreCredit: -0.1 }, says: 'overlap_score_credit must be between 0 and 1' },
  {
    input: { overlapScoreCredit: 1.1 },
    says: 'overlap_score_credit must be between 0 and 1; to make prefill weigh more, raise prefill_load_scale instead',
  },
  { input: { prefillLoadScale: -1 }, says: 'prefill_load_scale must be at least 0' },
  { input: { routerTemperature: Number.NaN }, says: 'router_temperature must be a finite number' },
  { input: { routerTtlSecs: Infinity }, says: 'router_ttl_secs must be a finite number' },
  { input: { routerEventThreads: 0 }, says: 'router_event_threads must be between 1 and 4294967295' },
  { input: { routerEventThreads: 1.5 }, says: 'router_event_threads must be a whole number' },
  { input: { routerSnapshotThreshold: 0 }, says: 'router_snapshot_threshold must be between 1 and 4294967295' },
  { input: { routerQueueThreshold: -1 }, says: 'router_queue_threshold must be at least 0' },
  { input: { routerMinInitialWorkers: -1 }, says: 'router_min_initial_workers must be at least 0' },
  { input: { routerDecodePolicy: 'default' }, says: "router_decode_policy must not be 'default', which is reserved" },
  { input: { useKvEvents: false, durableKvEvents: true }, says: 'durable_kv_events requires use_kv_events=true' },
  {
    input: { routerTrackActiveBlocks: false, routerTrackOutputBlocks: true },
    says: 'router_track_output_blocks requires router_track_active_blocks=true',
  },
  {
    input: { routerPrefillLoadModel: 'aic', routerTrackPrefillTokens: false },
    says: 'router_prefill_load_model requires router_track_prefill_tokens=true',
  },
  {
    input: { routerPrefillLoadModel: 'aic', routerQueuePolicy: 'wspt' },
    says: "router_prefill_load_model currently requires router_queue_policy='fcfs'",
  },
  {
    input: { useRemoteIndexer: true, serveIndexer: true },
    says: 'use_remote_indexer and serve_indexer are mutually exclusive',
  },
  { input: { serveIndexer: true, overlapScoreCredit: 0 }, says: 'serve_indexer requires overlap_score_credit > 0' },
  {
    input: { useKvEvents: false, routerPredictedTtlSecs: 5 },
    says: 'router_predicted_ttl_secs requires use_kv_events=true',
  },
  {
    input: { routerTrackingHash: 'keyed-xxh3-v1', routerTrackingKeyId: 'a' },
    says: "router_tracking_hash='keyed-xxh3-v1' requires router_tracking_key_file and router_tracking_key_id",
  },
  {
    input: { routerTrackingKeyFile: 'key.bin' },
    says: "router_tracking_key_file and router_tracking_key_id require router_tracking_hash='keyed-xxh3-v1'",
  },
] as { input: RouterConfigInput; says: string }[])(
  'refuses a config that breaks one rule: $says',
  ({ input, says }) => {
    expect(messages(input)).toEqual([says])
  },
)

it('names every broken rule at once', () => {
  expect(
    messages({ overlapScoreCredit: 2, routerTemperature: -1, serveIndexer: true, useRemoteIndexer: true }),
  ).toHaveLength(3)
})

it('refuses a setting it does not know', () => {
  expect(messages({ routerQueueByIncomingMissingIsl: true } as RouterConfigInput)).toEqual([
    'router_queue_by_incoming_missing_isl is not a setting of the router',
  ])
})

it('off is a value of the queue threshold, and 0 another', () => {
  expect(completeRouterConfig({ routerQueueThreshold: undefined }).routerQueueThreshold).toBeUndefined()
  expect(completeRouterConfig({ routerQueueThreshold: 0 }).routerQueueThreshold).toBe(0)
  expect(completeRouterConfig({ compat: 'dynamo-1.5' }).routerQueueThreshold).toBeUndefined()
  expect(completeRouterConfig({ compat: 'dynamo-1.5', routerQueueThreshold: 3 }).routerQueueThreshold).toBe(3)
})

it('the deprecated overlap weight becomes the prefill scale and wins over it', () => {
  const config = completeRouterConfig({ overlapScoreWeight: 2.5, prefillLoadScale: 1, overlapScoreCredit: 0.5 })
  expect([config.prefillLoadScale, config.overlapScoreCredit]).toEqual([2.5, 0.5])
  const override = completeOverride({ overlapScoreWeight: 2.5, prefillLoadScale: 1 })
  expect(override).toEqual({ prefillLoadScale: 2.5 })
})

it('a deprecated overlap weight of 0 turns the credit off as well', () => {
  const config = completeRouterConfig({ overlapScoreWeight: 0, overlapScoreCredit: 1 })
  expect([config.prefillLoadScale, config.overlapScoreCredit]).toEqual([0, 0])
  expect(completeOverride({ overlapScoreWeight: 0, overlapScoreCredit: 1 })).toEqual({
    prefillLoadScale: 0,
    overlapScoreCredit: 0,
  })
  expect(messages({ overlapScoreWeight: -1 })).toEqual(['prefill_load_scale must be at least 0'])
})

it.each([
  [{ sharedCacheMultiplier: -0.1 }],
  [{ sharedCacheMultiplier: 1.1 }],
  [{ overlapScoreCredit: 1.1 }],
  [{ overlapScoreCredit: -0.1 }],
  [{ routerTemperature: Number.NaN }],
  [{ hostCacheHitWeight: 0.5 }],
])('refuses the override %j', (override) => {
  expect(() => completeOverride(override as RouterConfigOverrideInput)).toThrow(WarmrouteError)
})

it('a credit of 0 subscribes to no events', () => {
  const subscribes = (input: RouterConfigInput) => shouldSubscribeToKvEvents(completeRouterConfig(input))
  expect([subscribes({}), subscribes({ overlapScoreCredit: 0 }), subscribes({ useKvEvents: false })]).toEqual([
    true,
    false,
    false,
  ])
})

it('looks at parked requests often only where load falls by itself', () => {
  const modelled = completeRouterConfig({ routerPrefillLoadModel: 'aic' })
  expect(queueRecheckIntervalMs(modelled, true)).toBe(100)
  expect(queueRecheckIntervalMs(modelled, false)).toBe(60_000)
  expect(queueRecheckIntervalMs(defaultRouterConfig, true)).toBe(60_000)
})

it('an override decides over the config', () => {
  expect(assumesKvReuse(defaultRouterConfig, { assumeKvReuse: false })).toBe(false)
  expect(assumesKvReuse(defaultRouterConfig)).toBe(true)
  expect(tracksPrefillTokens(defaultRouterConfig, { trackPrefillTokens: false })).toBe(false)
  expect(tracksPrefillTokens(defaultRouterConfig, {})).toBe(true)
})

it('tracks complete blocks only; an Eagle block needs one more token', () => {
  const counts = (isEagle: boolean) => [0, 15, 16, 17, 32, 33].map((tokens) => trackedBlockCount(tokens, 16, isEagle))
  expect(counts(false)).toEqual([0, 0, 1, 1, 2, 2])
  expect(counts(true)).toEqual([0, 0, 0, 1, 1, 2])
})

it('no number outside the range of its field is accepted, whatever the field', () => {
  const numeric = Object.entries(defaultRouterConfig).filter(
    ([field, value]) => typeof value === 'number' && field !== 'routerOverlapRefreshAfterSecs', // any number: 0 or less is off
  )
  const bad = fc.constantFrom(Number.NaN, Infinity, -Infinity, -1, -1e-9, '1', null)
  fc.assert(
    fc.property(fc.constantFrom(...numeric), bad, ([field], value) => {
      expect(judgeRouterConfig({ ...defaultRouterConfig, [field]: value } as RouterConfig)).not.toEqual([])
    }),
  )
})
