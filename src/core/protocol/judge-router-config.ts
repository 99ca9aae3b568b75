/**
 * Ranges of single fields and rules between fields. Every message is stable: operators search for them. A judgement
 * lists everything that is wrong, so that a person corrects a file once.
 */
import { WarmrouteError } from './errors.js'
import type {
  CompatMode,
  RouterConfig,
  RouterConfigInput,
  RouterConfigOverride,
  RouterConfigOverrideInput,
} from './router-config.js'
import {
  compatModes,
  defaultRouterConfig,
  disaggPolicies,
  prefillLoadModels,
  queuePolicies,
  routingPolicies,
  sharedCacheTypes,
  trackingHashes,
} from './router-config.js'

export interface ConfigIssue {
  readonly field: string
  readonly message: string
}

interface Rule {
  /** What a person may write, for the reference page. */
  readonly accepts: string
  /** The complaint about a value, or nothing. */
  readonly judge: (value: unknown) => string | undefined
}

const isBoolean: Rule = {
  accepts: 'true or false',
  judge: (value) => (typeof value === 'boolean' ? undefined : 'must be true or false'),
}
const text: Rule = {
  accepts: 'a text',
  judge: (value) => (typeof value === 'string' && value.trim() !== '' ? undefined : 'must be a non-empty text'),
}
const instanceName: Rule = {
  accepts: "a name other than 'default'",
  judge: (value) => (value === 'default' ? "must not be 'default', which is reserved" : text.judge(value)),
}
const atLeastZero = number({ min: 0 })
const share = number({ min: 0, max: 1 })
const creditRule: Rule = {
  accepts: `${share.accepts}; any from 0 with \`compat: dynamo-1.5\``,
  judge: (value) =>
    typeof value === 'number' && value > 1
      ? 'must be between 0 and 1; to make prefill weigh more, raise prefill_load_scale instead'
      : share.judge(value),
}

/** Where 1.5 accepts what 1.2 refuses. */
function rulesOf<Table extends { readonly overlapScoreCredit: Rule }>(table: Table, compat: CompatMode): Table {
  return compat === 'dynamo-1.5' ? { ...table, overlapScoreCredit: optional(atLeastZero) } : table
}

const overrideRules: Readonly<Record<keyof RouterConfigOverride, Rule>> = {
  overlapScoreCredit: optional(creditRule),
  prefillLoadScale: optional(atLeastZero),
  routerTemperature: optional(atLeastZero),
  assumeKvReuse: optional(isBoolean),
  trackPrefillTokens: optional(isBoolean),
  sharedCacheMultiplier: optional(share),
}

const rules: Readonly<Record<keyof RouterConfig, Rule>> = {
  overlapScoreCredit: creditRule,
  prefillLoadScale: atLeastZero,
  hostCacheHitWeight: share,
  diskCacheHitWeight: share,
  routerTemperature: atLeastZero,
  useKvEvents: isBoolean,
  durableKvEvents: isBoolean,
  routerReplicaSync: isBoolean,
  routerTrackActiveBlocks: isBoolean,
  routerTrackOutputBlocks: isBoolean,
  routerAssumeKvReuse: isBoolean,
  routerTrackPrefillTokens: isBoolean,
  routerPrefillLoadModel: oneOf(prefillLoadModels),
  routerSnapshotThreshold: optional(integer({ min: 1, max: 0xffff_ffff })),
  routerResetStates: isBoolean,
  routerTtlSecs: atLeastZero,
  routerQueueThreshold: optional(atLeastZero),
  routerEventThreads: integer({ min: 1, max: 0xffff_ffff }),
  skipInitialWorkerWait: isBoolean,
  routerQueuePolicy: oneOf(queuePolicies),
  useRemoteIndexer: isBoolean,
  serveIndexer: isBoolean,
  sharedCacheMultiplier: share,
  sharedCacheType: oneOf(sharedCacheTypes),
  overlapScoreCreditDecay: atLeastZero,
  decodeActiveRequestWeight: atLeastZero,
  routerPredictedTtlSecs: optional(atLeastZero),
  routerTrackingHash: oneOf(trackingHashes),
  routerTrackingKeyFile: optional(text),
  routerTrackingKeyId: optional(text),
  routerPolicyConfig: optional(text),
  routerPrefillPolicy: optional(instanceName),
  routerDecodePolicy: optional(instanceName),
  conditionalDisaggEnabled: isBoolean,
  conditionalDisaggPolicy: oneOf(disaggPolicies),
  conditionalDisaggEffIslThreshold: integer({ min: 0 }),
  conditionalDisaggEffIslRatioThreshold: share,
  conditionalDisaggPrefillBusyThreshold: optional(atLeastZero),
  conditionalDisaggDecodeBusyThreshold: optional(atLeastZero),
  routerMinInitialWorkers: integer({ min: 0 }),
  routerOverlapRefreshAfterSecs: number({ min: -Infinity }),
  routerActiveRequestExpirySecs: integer({ min: 1 }),
  routerQueueParkedMax: integer({ min: 1, max: 0x3fff_ffff }),
  indexMaxBlocks: integer({ min: 1, max: 0xffff_fffe }),
  indexMaxBlocksPerRank: optional(integer({ min: 1, max: 0xffff_fffe })),
  indexShards: integer({ min: 1, max: 64 }),
  policy: oneOf(routingPolicies),
  routerLateBinding: isBoolean,
  compat: oneOf(compatModes),
}

/** Every rule that `config` breaks; empty when it may be used. */
export function judgeRouterConfig(config: RouterConfig): ConfigIssue[] {
  return [...judgeFields(config, rulesOf(rules, config.compat)), ...judgeTogether(config)]
}

/** What a setting accepts, as a phrase for its reference page. */
export function acceptedBy(field: keyof RouterConfig): string {
  return rules[field].accepts
}

/** Defaults, the deprecated alias and every rule. Throws `WR_INVALID_CONFIG` with all that is wrong. */
export function completeRouterConfig(input: RouterConfigInput = {}): RouterConfig {
  const { overlapScoreWeight, ...given } = input
  const known: Record<string, unknown> = { ...defaultRouterConfig }
  if (given.compat === 'dynamo-1.5') known['routerQueueThreshold'] = undefined
  for (const [field, value] of Object.entries(given)) {
    // An explicit undefined keeps the default, except where undefined is a value that means "off".
    if (value !== undefined || field === 'routerQueueThreshold' || field === 'routerSnapshotThreshold')
      known[field] = value
  }
  applyWeightAlias(known, overlapScoreWeight)
  const config = known as unknown as RouterConfig
  const unknown = Object.keys(known).filter((field) => !(field in rules))
  refuse([
    ...unknown.map((field) => ({ field, message: `${snake(field)} is not a setting of the router` })),
    ...judgeRouterConfig(config),
  ])
  return Object.freeze(config)
}

/** The same for what one request asks for; `compat` is the router's. */
export function completeOverride(
  input: RouterConfigOverrideInput,
  compat: CompatMode = 'default',
): RouterConfigOverride {
  const { overlapScoreWeight, ...given } = input
  const known: Record<string, unknown> = { ...given }
  applyWeightAlias(known, overlapScoreWeight)
  const unknown = Object.keys(known).filter((field) => !(field in overrideRules))
  refuse([
    ...unknown.map((field) => ({ field, message: `${snake(field)} cannot be changed by a request` })),
    ...judgeFields(known as RouterConfigOverride, rulesOf(overrideRules, compat)),
  ])
  return known as RouterConfigOverride
}

/** `overlap_score_weight` wins over the fields it stands for; exactly 0 turns the credit off as well. */
function applyWeightAlias(known: Record<string, unknown>, weight: number | undefined): void {
  if (weight === undefined) return
  known['prefillLoadScale'] = weight
  if (weight === 0) known['overlapScoreCredit'] = 0
}

function judgeFields<T extends object>(values: T, table: Readonly<Record<keyof T & string, Rule>>): ConfigIssue[] {
  const issues: ConfigIssue[] = []
  for (const field of Object.keys(table) as (keyof T & string)[]) {
    const complaint = table[field].judge(values[field])
    if (complaint) issues.push({ field, message: `${snake(field)} ${complaint}` })
  }
  return issues
}

function judgeTogether(config: RouterConfig): ConfigIssue[] {
  const issues: ConfigIssue[] = []
  const rule = (field: keyof RouterConfig, isBroken: boolean, message: string): void => {
    if (isBroken) issues.push({ field, message })
  }
  rule(
    'durableKvEvents',
    config.durableKvEvents && !config.useKvEvents,
    'durable_kv_events requires use_kv_events=true',
  )
  rule(
    'durableKvEvents',
    config.durableKvEvents && config.compat === 'dynamo-1.5',
    'durable_kv_events=true is not supported',
  )
  rule(
    'routerTrackOutputBlocks',
    config.routerTrackOutputBlocks && !config.routerTrackActiveBlocks,
    'router_track_output_blocks requires router_track_active_blocks=true',
  )
  const isModelled = config.routerPrefillLoadModel !== 'none'
  rule(
    'routerPrefillLoadModel',
    isModelled && !config.routerTrackPrefillTokens,
    'router_prefill_load_model requires router_track_prefill_tokens=true',
  )
  rule(
    'routerPrefillLoadModel',
    isModelled && config.routerQueuePolicy !== 'fcfs' && config.compat !== 'dynamo-1.5',
    "router_prefill_load_model currently requires router_queue_policy='fcfs'",
  )
  rule(
    'useRemoteIndexer',
    config.useRemoteIndexer && config.serveIndexer,
    'use_remote_indexer and serve_indexer are mutually exclusive',
  )
  rule(
    'serveIndexer',
    config.serveIndexer && !(config.overlapScoreCredit > 0),
    'serve_indexer requires overlap_score_credit > 0',
  )
  rule(
    'routerPredictedTtlSecs',
    config.routerPredictedTtlSecs !== undefined && !config.useKvEvents,
    'router_predicted_ttl_secs requires use_kv_events=true',
  )
  const isKeyed = config.routerTrackingHash === 'keyed-xxh3-v1'
  const hasKey = config.routerTrackingKeyFile !== undefined && config.routerTrackingKeyId !== undefined
  const hasKeyPart = config.routerTrackingKeyFile !== undefined || config.routerTrackingKeyId !== undefined
  rule(
    'routerTrackingHash',
    isKeyed && !hasKey,
    "router_tracking_hash='keyed-xxh3-v1' requires router_tracking_key_file and router_tracking_key_id",
  )
  rule(
    'routerTrackingHash',
    !isKeyed && hasKeyPart,
    "router_tracking_key_file and router_tracking_key_id require router_tracking_hash='keyed-xxh3-v1'",
  )
  return issues
}

function refuse(issues: readonly ConfigIssue[]): void {
  if (issues.length === 0) return
  const reason = issues.map((issue) => issue.message).join('; ')
  throw new WarmrouteError('WR_INVALID_CONFIG', { reason, issues })
}

function number({ min, max = Infinity }: { min: number; max?: number }): Rule {
  const isOpen = max === Infinity
  return {
    accepts: min === -Infinity ? 'a number' : isOpen ? `a number from ${min}` : `a number from ${min} to ${max}`,
    judge: (value) => {
      if (typeof value !== 'number' || !Number.isFinite(value)) return 'must be a finite number'
      if (value >= min && value <= max) return undefined
      return isOpen ? `must be at least ${min}` : `must be between ${min} and ${max}`
    },
  }
}

function integer(range: { min: number; max?: number }): Rule {
  const inRange = number(range)
  return {
    accepts: inRange.accepts.replace('a number', 'a whole number'),
    judge: (value) => inRange.judge(value) ?? (Number.isSafeInteger(value) ? undefined : 'must be a whole number'),
  }
}

function oneOf(words: readonly string[]): Rule {
  return {
    accepts: words.map((word) => `\`${word}\``).join(', '),
    judge: (value) => (words.includes(value as string) ? undefined : `must be one of ${words.join(', ')}`),
  }
}

function optional(rule: Rule): Rule {
  return {
    accepts: `${rule.accepts}, or none`,
    judge: (value) => (value === undefined ? undefined : rule.judge(value)),
  }
}

function snake(field: string): string {
  return field.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}
