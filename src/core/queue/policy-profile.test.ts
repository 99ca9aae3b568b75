import { expect, it } from 'vitest'
import { completeRouterConfig } from '../protocol/index.js'
import type { WarmrouteError } from '../protocol/index.js'
import { parsePolicyConfig } from './parse-policy-config.js'
import { ClassResolver, isQueueing, profileFor } from './policy-profile.js'

const sample = {
  default_policy_family: 'standard',
  uncached_isl_buckets: [
    { min_tokens: 0, bucket: 'short' },
    { min_tokens: 1000, bucket: 'long' },
  ],
  policy_classes: [
    {
      name: 'standard-short',
      policy_family: 'standard',
      cache_bucket: 'short',
      quantum: 3,
      prefill_busy_threshold_frac: 1,
    },
    {
      name: 'standard-long',
      policy_family: 'standard',
      cache_bucket: 'long',
      queue_policy: 'wspt',
      prefill_busy_threshold: 99,
    },
    { name: 'batch-short', policy_family: 'batch', cache_bucket: 'short' },
    { name: 'batch-long', policy_family: 'batch', cache_bucket: 'long' },
    { name: 'urgent', request_queue_limit_per_worker: 2 },
  ],
  models: {
    small: {
      default_policy_family: 'only',
      uncached_isl_buckets: [{ min_tokens: 0, bucket: 'any' }],
      policy_classes: [{ name: 'only-any', policy_family: 'only', cache_bucket: 'any' }],
    },
  },
}
const config = completeRouterConfig()

function resolve(wanted: string | undefined, uncached: number): string {
  const profile = profileFor(parsePolicyConfig(sample), undefined, config)
  return profile.classes[new ClassResolver(profile).resolve(wanted, uncached)]!.name
}

it('families and buckets of uncached tokens select the class', () => {
  expect([resolve('batch', 0), resolve('batch', 999), resolve('batch', 1000)]).toEqual([
    'batch-short',
    'batch-short',
    'batch-long',
  ])
})

it('an explicit class is addressed by its name; no class and an unknown one mean the default family', () => {
  expect([resolve('urgent', 5000), resolve(undefined, 5), resolve('nobody', 5000)]).toEqual([
    'urgent',
    'standard-short',
    'standard-long',
  ])
})

it("a model's profile replaces the root's, and other models use the root's", () => {
  const policies = parsePolicyConfig(sample)
  expect(profileFor(policies, 'small', config).classes.map((it) => it.name)).toEqual(['only-any'])
  expect(profileFor(policies, 'other', config).classes).toHaveLength(5)
})

it('without a root, models that are not named fall back to one class of the router settings', () => {
  const policies = parsePolicyConfig({ models: sample.models })
  expect(profileFor(policies, 'other', config).classes).toMatchObject([
    { name: 'default', quantum: 1, prefillBusyThresholdFrac: 4, queuePolicy: 'fcfs' },
  ])
})

it('a file with nothing but worker selection keeps the default queue', () => {
  const policies = parsePolicyConfig({ worker_selection: { instances: [] } })
  expect(profileFor(policies, undefined, config).classes[0]!.name).toBe('default')
})

it('the synthetic class queues exactly when a threshold is set', () => {
  expect(isQueueing(profileFor(undefined, undefined, config))).toBe(true)
  const off = completeRouterConfig({ routerQueueThreshold: undefined })
  expect(isQueueing(profileFor(undefined, undefined, off))).toBe(false)
})

const rule = (change: object): object => ({ ...sample, models: {}, ...change })
const classes = (...rows: object[]): object => rule({ policy_classes: [...sample.policy_classes, ...rows] })

it.each([
  [
    rule({
      uncached_isl_buckets: [
        { min_tokens: 1, bucket: 'short' },
        { min_tokens: 2, bucket: 'long' },
      ],
    }),
    'must start at 0',
  ],
  [
    rule({
      uncached_isl_buckets: [
        { min_tokens: 0, bucket: 'short' },
        { min_tokens: 0, bucket: 'long' },
      ],
    }),
    'must ascend strictly',
  ],
  [rule({ default_policy_family: 'none-such' }), 'none-such is no family'],
  [rule({ default_policy_family: 'bad name' }), 'must be a name'],
  [rule({ extra: 1 }), 'unknown key extra'],
  [classes({ name: 'half', policy_family: 'standard' }), 'needs both policy_family and cache_bucket, or neither'],
  [classes({ name: 'batch' }), 'class batch has the name of a family'],
  [classes({ name: 'urgent' }), 'class urgent is named twice'],
  [classes({ name: 'x-short', policy_family: 'x', cache_bucket: 'short' }), 'family x has no class for bucket long'],
  [
    classes({ name: 'y', policy_family: 'batch', cache_bucket: 'short' }),
    'family batch has two classes for bucket short',
  ],
  [classes({ name: 'z', policy_family: 'batch', cache_bucket: 'huge' }), 'unknown bucket huge'],
  [classes({ name: 'q', quantum: 0 }), 'quantum must be above 0'],
  [classes({ name: 'q', queue_policy: 'lcfs' }), 'queue_policy must be fcfs or wspt'],
  [classes({ name: 'q', prefill_busy_threshold_frac: Number.NaN }), 'must be a finite number from 0'],
  [classes({ name: 'q', request_queue_limit_per_worker: -1 }), 'must be a whole number from 0'],
  [classes({ name: 'q', priority: 1 }), 'unknown key priority'],
  [[], 'the policy file must hold keys'],
  [null, 'the policy file must hold keys'],
])('refuses a policy file that contradicts itself (%#)', (content, complaint) => {
  let error: WarmrouteError | undefined
  try {
    parsePolicyConfig(content)
  } catch (caught) {
    error = caught as WarmrouteError
  }
  expect(error?.code).toBe('WR_INVALID_CONFIG')
  expect(error?.message).toContain(complaint)
})
