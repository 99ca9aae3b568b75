/**
 * A router's settings as Dynamo's peers write them: snake case, one flat object. What is younger than 1.3 and at its default
 * is left out, so that a peer of 1.3 can read it; what only concerns one process, and what is ours alone, is never written.
 * Reading judges as any other source is judged.
 */
import { WarmrouteError } from './errors.js'
import { completeOverride, completeRouterConfig } from './judge-router-config.js'
import type { JsonInput, JsonObject, JsonValue } from './lossless-json.js'
import { parseLosslessJson, stringifyLosslessJson } from './lossless-json.js'
import type { CompatMode, RouterConfig, RouterConfigInput, RouterConfigOverride } from './router-config.js'
import { defaultRouterConfig } from './router-config.js'

const sinceSeed: readonly (keyof RouterConfig)[] = [
  'overlapScoreCredit',
  'prefillLoadScale',
  'hostCacheHitWeight',
  'diskCacheHitWeight',
  'routerTemperature',
  'useKvEvents',
  'durableKvEvents',
  'routerReplicaSync',
  'routerTrackActiveBlocks',
  'routerTrackOutputBlocks',
  'routerAssumeKvReuse',
  'routerTrackPrefillTokens',
  'routerPrefillLoadModel',
  'routerSnapshotThreshold',
  'routerResetStates',
  'routerTtlSecs',
  'routerQueueThreshold',
  'routerEventThreads',
  'skipInitialWorkerWait',
  'routerQueuePolicy',
  'useRemoteIndexer',
  'serveIndexer',
  'sharedCacheMultiplier',
  'sharedCacheType',
]

const younger: readonly (keyof RouterConfig)[] = [
  'overlapScoreCreditDecay',
  'decodeActiveRequestWeight',
  'routerPredictedTtlSecs',
  'routerTrackingHash',
  'routerTrackingKeyFile',
  'routerTrackingKeyId',
  'routerPolicyConfig',
  'conditionalDisaggEnabled',
  'conditionalDisaggPolicy',
  'conditionalDisaggEffIslThreshold',
  'conditionalDisaggEffIslRatioThreshold',
  'conditionalDisaggPrefillBusyThreshold',
  'conditionalDisaggDecodeBusyThreshold',
]

const fieldOf = new Map([...sinceSeed, ...younger].map((field) => [snakeCase(field), field]))
const aliases = new Map([...fieldOf, ['overlap_score_weight', 'overlapScoreWeight']])
const overrideFields = new Map(
  (
    [
      'overlapScoreCredit',
      'prefillLoadScale',
      'routerTemperature',
      'assumeKvReuse',
      'trackPrefillTokens',
      'sharedCacheMultiplier',
      'overlapScoreWeight',
    ] as const
  ).map((field) => [snakeCase(field), field]),
)

export function stringifyRouterConfig(config: RouterConfig): string {
  const written: Record<string, JsonInput> = {}
  for (const field of sinceSeed) written[snakeCase(field)] = config[field] ?? null
  for (const field of younger) {
    const value = config[field]
    if (value !== defaultRouterConfig[field]) written[snakeCase(field)] = value ?? null
  }
  return stringifyLosslessJson(written)
}

/** Throws `WR_INVALID_JSON`, and `WR_INVALID_CONFIG` for unknown keys and broken rules. */
export function parseRouterConfig(text: string, compat: CompatMode = 'default'): RouterConfig {
  const input = { ...fieldsOf(text, aliases), compat } as RouterConfigInput
  return completeRouterConfig(input)
}

/** The same for what one request asks for. */
export function parseConfigOverride(text: string, compat: CompatMode = 'default'): RouterConfigOverride {
  return completeOverride(fieldsOf(text, overrideFields), compat)
}

function fieldsOf(text: string, names: ReadonlyMap<string, string>): Record<string, unknown> {
  const object = parseLosslessJson(text)
  if (!isObject(object)) throw refused('a router config is an object')
  const unknown = Object.keys(object).filter((key) => !names.has(key))
  if (unknown.length > 0) throw refused(`unknown field ${unknown.map((key) => `\`${key}\``).join(', ')}`)
  return Object.fromEntries(Object.entries(object).map(([key, value]) => [names.get(key)!, plain(value)]))
}

/** Null is upstream's "none". */
function plain(value: JsonValue): unknown {
  if (value === null) return undefined
  return typeof value === 'bigint' ? Number(value) : value
}

function isObject(value: JsonValue): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function snakeCase(field: string): string {
  return field.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

function refused(reason: string): WarmrouteError {
  return new WarmrouteError('WR_INVALID_CONFIG', { reason, issues: [{ field: 'config', message: reason }] })
}
