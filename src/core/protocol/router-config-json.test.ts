import { describe, expect, it } from 'vitest'
import { completeRouterConfig } from './judge-router-config.js'
import { parseConfigOverride, parseRouterConfig, stringifyRouterConfig } from './router-config-json.js'

describe('a config on the wire', () => {
  it('leaves out what is younger than 1.3 and at its default, and what concerns one process', () => {
    const config = completeRouterConfig({ routerPrefillPolicy: 'p', routerDecodePolicy: 'd', policy: 'warm' })
    const written = JSON.parse(stringifyRouterConfig(config)) as Record<string, unknown>
    expect(
      Object.keys(written).filter((key) => /policy$|tracking_hash|key_|disagg|decay|weight$|compat/.test(key)),
    ).toEqual(['host_cache_hit_weight', 'disk_cache_hit_weight', 'router_queue_policy'])
    expect(written).toMatchObject({ router_queue_threshold: 4, router_snapshot_threshold: 1_000_000 })
    expect(Object.keys(written)).toHaveLength(24)
  })

  it('keeps what is younger and set, and comes back as it was', () => {
    const config = completeRouterConfig({
      overlapScoreCreditDecay: 0.5,
      routerPredictedTtlSecs: 3,
      conditionalDisaggEnabled: true,
      routerQueueThreshold: undefined,
    })
    const text = stringifyRouterConfig(config)
    expect(JSON.parse(text)).toMatchObject({
      overlap_score_credit_decay: 0.5,
      router_predicted_ttl_secs: 3,
      conditional_disagg_enabled: true,
      router_queue_threshold: null,
    })
    expect(parseRouterConfig(text)).toEqual(config)
  })

  it('reads what a 1.3 peer writes', () => {
    const text = '{"durable_kv_events":false,"router_snapshot_threshold":1000000,"router_reset_states":false}'
    expect(parseRouterConfig(text)).toEqual(completeRouterConfig())
    expect(parseRouterConfig(text, 'dynamo-1.5').routerQueueThreshold).toBeUndefined()
  })

  it.each([
    ['{"router_queue_by_incoming_missing_isl":null}', 'unknown field `router_queue_by_incoming_missing_isl`'],
    ['{"overlap_score_credit":-0.1}', 'overlap_score_credit'],
    ['{"prefill_load_scale":-0.1}', 'prefill_load_scale must be at least 0'],
    ['{"shared_cache_multiplier":1.1}', 'shared_cache_multiplier must be between 0 and 1'],
    ['[]', 'a router config is an object'],
    ['{"router_temperature":"hot"}', 'router_temperature must be a finite number'],
    ['{"router_prefill_policy":"mine"}', 'unknown field `router_prefill_policy`'],
  ])('is judged as it is read: %s', (text, message) => {
    expect(() => parseRouterConfig(text)).toThrow(message)
  })

  it('as of 1.5 a durable stream is refused, and so is nothing about credit above one', () => {
    expect(() => parseRouterConfig('{"durable_kv_events":true}', 'dynamo-1.5')).toThrow(
      'durable_kv_events=true is not supported',
    )
    expect(parseRouterConfig('{"overlap_score_credit":1.5}', 'dynamo-1.5').overlapScoreCredit).toBe(1.5)
    expect(() => parseRouterConfig('{"overlap_score_credit":1.5}')).toThrow('raise prefill_load_scale instead')
  })
})

describe('an override on the wire', () => {
  it('maps the deprecated name, and zero turns the credit off', () => {
    expect(parseConfigOverride('{"overlap_score_weight":2.5}')).toEqual({ prefillLoadScale: 2.5 })
    expect(parseConfigOverride('{"overlap_score_weight":0,"overlap_score_credit":0.5,"prefill_load_scale":3}')).toEqual(
      {
        prefillLoadScale: 0,
        overlapScoreCredit: 0,
      },
    )
  })

  it('is judged by the router’s own rules', () => {
    expect(parseConfigOverride('{"overlap_score_credit":1.5}', 'dynamo-1.5')).toEqual({ overlapScoreCredit: 1.5 })
    for (const text of [
      '{"overlap_score_credit":1.5}',
      '{"host_cache_hit_weight":0.5}',
      '{"shared_cache_multiplier":-1}',
    ])
      expect(() => parseConfigOverride(text)).toThrow(expect.objectContaining({ code: 'WR_INVALID_CONFIG' }))
  })
})
