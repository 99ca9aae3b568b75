import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import type { WarmrouteError } from '../core/protocol/index.js'
import { defineGroup } from './group.js'
import { groups } from './groups.js'
import type { ConfigSources } from './load.js'
import { loadConfig } from './load.js'
import { nameOptions } from './names.js'
import { number, structure, text } from './option.js'
import { describeOrigin } from './sources.js'

const load = (sources: ConfigSources) => loadConfig(groups, sources)
const routing = (sources: ConfigSources) => load(sources).values.routing
const file = (content: string): ConfigSources => ({ file: { path: 'w.yaml', text: content } })
const env = (values: Record<string, string>): ConfigSources => ({ env: values })

function complaints(sources: ConfigSources): string {
  try {
    load(sources)
  } catch (error) {
    expect((error as WarmrouteError).code).toBe('WR_INVALID_CONFIG')
    return String((error as WarmrouteError).details['reason'])
  }
  return ''
}

it('the last source that speaks is right, and each value keeps its origin', () => {
  const all: ConfigSources = {
    ...file('routing:\n  router_temperature: 0.1\n  prefill_load_scale: 2\n  overlap_score_credit: 0.5\n'),
    env: { WARMROUTE_ROUTER_TEMPERATURE: '0.2', WARMROUTE_PREFILL_LOAD_SCALE: '3' },
    flags: ['--router-temperature', '0.3', 'serve'],
  }
  const { values, origins, rest } = load(all)
  expect(values.routing).toMatchObject({ routerTemperature: 0.3, prefillLoadScale: 3, overlapScoreCredit: 0.5 })
  const at = (key: string) => describeOrigin(origins.get(`routing.${key}`)!)
  expect([at('router_temperature'), at('prefill_load_scale'), at('overlap_score_credit'), at('compat')]).toEqual([
    '--router-temperature',
    'WARMROUTE_PREFILL_LOAD_SCALE',
    'w.yaml:4',
    'default',
  ])
  expect(rest).toEqual(['serve'])
})

it.each([
  {
    says: 'unknown key',
    sources: file('routing:\n  overlap_score_credits: 1\n'),
    text: 'w.yaml:2: unknown key "routing.overlap_score_credits"; did you mean overlap_score_credit?',
  },
  {
    says: 'unknown section',
    sources: file('rooting: {}\n'),
    text: 'w.yaml:1: unknown section "rooting"; did you mean routing?',
  },
  {
    says: 'unknown flag',
    sources: { flags: ['--router-temprature', '1'] },
    text: 'unknown flag --router-temprature; did you mean --router-temperature?',
  },
  {
    says: 'withdrawn setting',
    sources: file('routing: { router_queue_by_incoming_missing_isl: true }'),
    text: 'w.yaml:1: unknown key "routing.router_queue_by_incoming_missing_isl"',
  },
  {
    says: 'wrong type',
    sources: file('routing:\n  router_temperature: warm\n'),
    text: 'w.yaml:2: routing.router_temperature must be a number from 0',
  },
  {
    says: 'duplicate key',
    sources: file('routing:\n  compat: default\n  compat: default\n'),
    text: 'w.yaml: Map keys must be unique at line 3, column 3',
  },
  { says: 'no map', sources: file('- 1\n'), text: 'w.yaml: expected sections such as "routing:"' },
  { says: 'missing value', sources: { flags: ['--router-temperature'] }, text: '--router-temperature needs a value' },
  {
    says: 'a number that is left empty',
    sources: { flags: ['--router-temperature='] },
    text: '--router-temperature: "" is not a number from 0',
  },
  {
    says: 'more aliases than a person writes',
    sources: file(
      `routing: &a {${Array.from({ length: 9 }, (_, at) => `b${at}: &b${at} [${at ? `*b${at - 1}, `.repeat(9) : '1'}]`).join(', ')}}`,
    ),
    text: 'w.yaml: Excessive alias count indicates a resource exhaustion attack',
  },
  {
    says: 'an unknown key that was merged in',
    sources: file('x-base: &base { nosuch: 1 }\nrouting:\n  <<: *base\n'),
    text: 'w.yaml:2: unknown key "routing.nosuch"',
  },
  {
    says: 'a section that refers to no keys',
    sources: file('x-base: &base 3\nrouting: *base\n'),
    text: 'w.yaml:2: section "routing" must hold keys',
  },
  {
    says: 'more than one document',
    sources: file('routing: {}\n---\nserver: {}\n'),
    text: 'w.yaml: holds more than one document',
  },
  {
    says: 'unreadable own variable',
    sources: env({ WARMROUTE_ROUTER_TEMPERATURE: 'warm' }),
    text: 'WARMROUTE_ROUTER_TEMPERATURE: "warm" is not a number from 0',
  },
  {
    says: 'range, with its origin',
    sources: env({ DYN_ROUTER_TEMPERATURE: '-1' }),
    text: 'DYN_ROUTER_TEMPERATURE: router_temperature must be at least 0',
  },
  {
    says: 'two fields, with the origin of the first',
    sources: { flags: ['--serve-indexer', '--use-remote-indexer'] },
    text: '--use-remote-indexer: use_remote_indexer and serve_indexer are mutually exclusive',
  },
  {
    says: 'bad enum in a strict variable',
    sources: env({ DYN_ROUTER_TRACKING_HASH: 'md5' }),
    text: 'DYN_ROUTER_TRACKING_HASH: routing.router_tracking_hash must be `public-xxh3-v1`, `keyed-xxh3-v1`',
  },
  {
    says: 'bad minimum of workers',
    sources: env({ DYN_ROUTER_MIN_INITIAL_WORKERS: 'two' }),
    text: 'DYN_ROUTER_MIN_INITIAL_WORKERS: "two" is not a whole number from 0',
  },
  {
    says: 'negative minimum of workers',
    sources: env({ DYN_ROUTER_MIN_INITIAL_WORKERS: '-1' }),
    text: 'DYN_ROUTER_MIN_INITIAL_WORKERS: router_min_initial_workers must be at least 0',
  },
  {
    says: 'longer than a timer of Node waits',
    sources: { flags: ['--connect-timeout-ms', '3000000000'] },
    text: '--connect-timeout-ms: server.connect_timeout_ms must be milliseconds from 1 to 2147483647',
  },
  {
    says: 'no time at all where 0 does not mean never',
    sources: file('server:\n  total_timeout_ms: 0\n'),
    text: 'w.yaml:2: server.total_timeout_ms must be milliseconds from 1 to 2147483647',
  },
  {
    says: "a range under upstream's name, which is never ignored",
    sources: env({ DYN_HTTP_PORT: '70000' }),
    text: 'DYN_HTTP_PORT: server.port must be a whole number from 0 to 65535',
  },
  {
    says: 'a setting of serve, by its name',
    sources: { flags: ['--snapshot-interval-secs', '-1'] },
    text: '--snapshot-interval-secs: serve.snapshot_interval_secs must be a number from 0 to 86400',
  },
  {
    says: 'rules between settings, by the name of one',
    sources: file('server:\n  tls_key_path: k.pem\n'),
    text: 'w.yaml:2: tls_key_path: certificate and key go together',
  },
  {
    says: 'one key of one entry of a list',
    sources: file('serve:\n  workers:\n    - http://a:1\n    - { url: http://b:2, role: both }\n'),
    text: 'w.yaml:2: serve.workers[1].role: invalid option: expected one of "aggregated"|"prefill"|"decode"',
  },
  {
    says: 'an unknown key of one entry of a list',
    sources: file('serve:\n  workers:\n    - { url: http://b:2, key: k }\n'),
    text: 'w.yaml:2: serve.workers[0]: unrecognized key: "key"',
  },
  {
    says: 'disaggregation config alone',
    sources: { flags: ['--router-conditional-disagg-config', '{"policy":"prefill_load"}'] },
    text: '--router-conditional-disagg-config: conditional_disagg_config requires conditional_disagg_enabled=true',
  },
])('refuses, naming the place: $says', ({ sources, text: expected }) => {
  expect(complaints(sources)).toBe(expected)
})

it('reads the canonical upstream names', () => {
  const config = routing(
    env({
      DYN_ROUTER_KV_OVERLAP_SCORE_CREDIT: ' 0.5 ',
      DYN_ROUTER_QUEUE_THRESHOLD: 'None',
      DYN_USE_KV_EVENTS: 'OFF',
      DYN_ROUTER_QUEUE_POLICY: 'wspt',
      DYN_SHARED_CACHE_TYPE: '',
    }),
  )
  expect(config).toMatchObject({
    overlapScoreCredit: 0.5,
    routerQueueThreshold: undefined,
    useKvEvents: false,
    routerQueuePolicy: 'wspt',
    sharedCacheType: 'none',
  })
  expect(routing({ flags: ['--router-kv-overlap-score-credit=0.25', '--no-kv-events'] })).toMatchObject({
    overlapScoreCredit: 0.25,
    useKvEvents: false,
  })
})

it('the first of two upstream names counts, and our own before both', () => {
  expect(routing(env({ DYN_USE_KV_EVENTS: '0', DYN_ROUTER_USE_KV_EVENTS: '1' })).useKvEvents).toBe(true)
  expect(routing(env({ WARMROUTE_USE_KV_EVENTS: '0', DYN_ROUTER_USE_KV_EVENTS: '1' })).useKvEvents).toBe(false)
})

it('the deprecated weight wins over the canonical names, from any source', () => {
  const fromEnv = routing(env({ DYN_OVERLAP_SCORE_WEIGHT: '0', DYN_ROUTER_PREFILL_LOAD_SCALE: '3' }))
  expect([fromEnv.prefillLoadScale, fromEnv.overlapScoreCredit]).toEqual([0, 0])
  const both = routing(env({ DYN_ROUTER_KV_OVERLAP_SCORE_WEIGHT: '2', DYN_OVERLAP_SCORE_WEIGHT: '5' }))
  expect(both.prefillLoadScale).toBe(2)
  expect(routing({ flags: ['--kv-overlap-score-weight', '4'] }).prefillLoadScale).toBe(4)
})

it('YAML anchors: a section may be another one, or take some of its keys and have its own', () => {
  const base = 'x-base: &base\n  router_temperature: 0.4\n  prefill_load_scale: 3\n'
  const merged = load(file(`${base}routing:\n  <<: *base\n  prefill_load_scale: 2\n`))
  expect(merged.values.routing).toMatchObject({ routerTemperature: 0.4, prefillLoadScale: 2 })
  expect(describeOrigin(merged.origins.get('routing.prefill_load_scale')!)).toBe('w.yaml:6')
  expect(describeOrigin(merged.origins.get('routing.router_temperature')!)).toBe('w.yaml:4')
  expect(routing(file(`${base}routing: *base\n`))).toMatchObject({ routerTemperature: 0.4, prefillLoadScale: 3 })
})

it('an upstream variable that cannot be read is ignored with a warning', () => {
  const { values, warnings } = load(env({ DYN_ROUTER_TEMPERATURE: 'warm', DYN_ROUTER_ACTIVE_REQUEST_EXPIRY_SECS: '0' }))
  expect(values.routing).toMatchObject({ routerTemperature: 0, routerActiveRequestExpirySecs: 300 })
  expect(warnings).toEqual([
    'DYN_ROUTER_TEMPERATURE: "warm" is not a number from 0; ignored',
    'DYN_ROUTER_ACTIVE_REQUEST_EXPIRY_SECS: routing.router_active_request_expiry_secs must be a whole number from 1; ignored',
  ])
})

it('settings without effect and deprecated ones are accepted with one warning each', () => {
  const { warnings } = load(
    file(
      'routing:\n  durable_kv_events: true\n  router_snapshot_threshold: 5\n  router_reset_states: true\n  overlap_score_weight: 1\n',
    ),
  )
  expect(warnings.map((line) => line.split(' ')[0])).toEqual([
    'routing.overlap_score_weight',
    'routing.durable_kv_events',
    'routing.router_snapshot_threshold',
    'routing.router_reset_states',
  ])
})

it('a misspelt variable of ours is pointed out', () => {
  expect(load(env({ WARMROUTE_ROUTER_TEMPERATUR: '1' })).warnings).toEqual([
    'WARMROUTE_ROUTER_TEMPERATUR is not a setting; did you mean WARMROUTE_ROUTER_TEMPERATURE?',
  ])
  expect(load(env({ WARMROUTE_NOSUCH: '1' })).warnings).toEqual(['WARMROUTE_NOSUCH is not a setting'])
})

it('one variable names the selection policy of both stages, unless a stage names its own', () => {
  const env = { DYN_ROUTER_WORKER_SELECTION_POLICY: 'ours', DYN_ROUTER_PREFILL_POLICY: 'mine' }
  expect(routing({ env })).toMatchObject({ routerPrefillPolicy: 'mine', routerDecodePolicy: 'ours' })
})

it('the credit may exceed 1 where 1.5 is asked for, from any source', () => {
  expect(routing(file('routing: { compat: dynamo-1.5, overlap_score_credit: 1.5 }'))).toMatchObject({
    overlapScoreCredit: 1.5,
  })
})

it('load-aware is one switch for many settings', () => {
  expect(routing({ flags: ['--load-aware'], ...file('routing: { shared_cache_type: hicache }') })).toMatchObject({
    overlapScoreCredit: 0,
    useKvEvents: false,
    routerAssumeKvReuse: false,
    sharedCacheMultiplier: 0,
    sharedCacheType: 'none',
  })
})

it('conditional disaggregation may be given as one object', () => {
  const flags = [
    '--router-conditional-disagg',
    '--router-conditional-disagg-config',
    '{"policy":"isl_or_load","eff_isl_threshold":9}',
  ]
  expect(routing({ flags })).toMatchObject({
    conditionalDisaggPolicy: 'isl_or_load',
    conditionalDisaggEffIslThreshold: 9,
    conditionalDisaggEffIslRatioThreshold: 0.7,
  })
})

it('compat decides the default of the queue threshold, a setting decides over compat', () => {
  expect(routing({}).routerQueueThreshold).toBe(4)
  expect(routing(file('routing: { compat: dynamo-1.5 }')).routerQueueThreshold).toBeUndefined()
  expect(routing(file('routing: { compat: dynamo-1.5, router_queue_threshold: 2 }')).routerQueueThreshold).toBe(2)
})

it('another room adds its group with one declaration, structures included', () => {
  const members = structure(z.array(z.string()), [], 'Addresses of workers.', 'a list of addresses')
  const more = defineGroup('fleet', 'Who exists.', { members, fleetName: text('a', 'Name.') }, (values) => values)
  const loaded = loadConfig(
    { ...groups, fleet: more },
    { ...file('fleet:\n  members:\n    - a\n    - b\n'), flags: ['--fleet-name', 'x'] },
  )
  expect(loaded.values.fleet).toEqual({ members: ['a', 'b'], fleetName: 'x' })
  expect(loadConfig({ fleet: more }, { flags: ['--members', '["c"]'] }).values.fleet.members).toEqual(['c'])
})

it('a word that looks like a number needs no quotes in a file', () => {
  const { server } = load(file('server:\n  monitor: 1.0\n  metrics_compat: 1.2\n  monitors: { a: 1.1 }\n')).values
  expect(server).toMatchObject({ monitor: '1.0', metricsCompat: '1.2', monitors: { a: '1.1' } })
  expect(complaints(file('server: { monitor: 1.2 }'))).toBe('w.yaml:1: server.monitor must be `1.1`, `1.0`')
})

it('every setting in milliseconds is one that a timer can wait', () => {
  const names = nameOptions(Object.values(groups)).all.filter(({ name }) => name.endsWith('Ms'))
  expect(names.length).toBeGreaterThan(10)
  for (const { name, option } of names) expect(option.extras.range?.max, name).toBeLessThanOrEqual(2 ** 31 - 1)
})

it('two options never share a name', () => {
  const one = defineGroup('one', '', { size: number(1, '') }, (values) => values)
  const two = defineGroup('two', '', { size: number(1, '') }, (values) => values)
  expect(() => nameOptions([one, two])).toThrow('--size would set both one.size and two.size')
})

it.each(['', ' , ', ','])('serve: a key that is given and empty is refused, not taken for none: %j', (value) => {
  for (const flag of ['--api-key', '--admin-key'])
    expect(() => loadConfig(groups, { flags: [`${flag}=${value}`] })).toThrow('is given and holds no key')
  expect(() => loadConfig(groups, file(`serve: { api_key: '${value}' }`))).toThrow('api_key is given and holds no key')
  expect(loadConfig(groups, { flags: ['--api-key', 'none'] }).values.serve.apiKeys).toEqual([])
})

it('serve: keys are split, workers may be addresses or objects', () => {
  const yaml = 'serve:\n  workers:\n    - http://a:1\n    - { url: http://b:2, api_key: k, events: tcp://b:5557 }\n'
  const { serve } = loadConfig(groups, { ...file(yaml), flags: ['--api-key', 'one, two'] }).values
  expect(serve).toMatchObject({ apiKeys: ['one', 'two'], adminKeys: [], routerMode: 'kv' })
  expect(serve.workers).toEqual([{ url: 'http://a:1' }, { url: 'http://b:2', apiKey: 'k', events: 'tcp://b:5557' }])
  expect(() => loadConfig(groups, { flags: ['--workers', '["gpu1"]'] })).toThrow('"gpu1" is not an address such as')
})

describe('a list of texts', () => {
  const hash = 'ab'.repeat(32)
  it.each([
    ['one', hash, [hash]],
    ['several', `${hash}, ${'cd'.repeat(32)},`, [hash, 'cd'.repeat(32)]],
    ['as JSON', `["${hash}"]`, [hash]],
  ])('is read from a flag and from the environment: %s', (_says, text, hashes) => {
    expect(loadConfig(groups, { flags: ['--api-key-hashes', text] }).values.server.apiKeyHashes).toEqual(hashes)
    expect(loadConfig(groups, env({ WARMROUTE_API_KEY_HASHES: text })).values.server.apiKeyHashes).toEqual(hashes)
  })

  it('of hashes says how one is made, where something else is given', () => {
    expect(() => loadConfig(groups, { flags: ['--api-key-hashes', 'abc'] })).toThrow(/SHA-256 of a key.*sha256sum/)
  })

  it('that is no list says what it may be', () => {
    const flags = ['--allowed-engine-fields', '[1']
    expect(() => loadConfig(groups, { flags })).toThrow('"[1" is not texts, as a list or separated by commas')
  })
})
