/**
 * Every setting of the router with its default. Names follow `KvRouterConfig` of lib/kv-router/src/scheduling/config.rs
 * at v1.2.0, in camel case; what later versions added stands below the line. Ranges and rules between fields are in
 * `judge-router-config.ts`; where a value comes from (file, environment, flag) is the business of `config/`.
 */

export const queuePolicies = ['fcfs', 'lcfs', 'wspt'] as const
export type QueuePolicy = (typeof queuePolicies)[number]

export const prefillLoadModels = ['none', 'aic'] as const
export type PrefillLoadModel = (typeof prefillLoadModels)[number]

export const sharedCacheTypes = ['none', 'hicache'] as const
export type SharedCacheType = (typeof sharedCacheTypes)[number]

export const trackingHashes = ['public-xxh3-v1', 'keyed-xxh3-v1'] as const
export type TrackingHash = (typeof trackingHashes)[number]

export const disaggPolicies = ['isl_bounding', 'prefill_load', 'isl_or_load'] as const
export type DisaggPolicy = (typeof disaggPolicies)[number]

/** `default` is ours; the others repeat one Dynamo version where its behaviour is observable and not a leak. */
export const compatModes = ['default', 'dynamo-1.2', 'dynamo-1.5'] as const
export type CompatMode = (typeof compatModes)[number]

/** `dynamo`: the cost in blocks, as upstream has it. `warm`: ours, in milliseconds (core/selection/warm-cost.ts). */
export const routingPolicies = ['dynamo', 'warm'] as const
export type RoutingPolicy = (typeof routingPolicies)[number]

export interface RouterConfig {
  readonly overlapScoreCredit: number
  readonly prefillLoadScale: number
  readonly hostCacheHitWeight: number
  readonly diskCacheHitWeight: number
  readonly routerTemperature: number
  readonly useKvEvents: boolean
  readonly durableKvEvents: boolean
  readonly routerReplicaSync: boolean
  readonly routerTrackActiveBlocks: boolean
  readonly routerTrackOutputBlocks: boolean
  readonly routerAssumeKvReuse: boolean
  readonly routerTrackPrefillTokens: boolean
  readonly routerPrefillLoadModel: PrefillLoadModel
  readonly routerSnapshotThreshold: number | undefined
  readonly routerResetStates: boolean
  readonly routerTtlSecs: number
  /** `undefined` never parks a request. */
  readonly routerQueueThreshold: number | undefined
  readonly routerEventThreads: number
  readonly skipInitialWorkerWait: boolean
  readonly routerQueuePolicy: QueuePolicy
  readonly useRemoteIndexer: boolean
  readonly serveIndexer: boolean
  readonly sharedCacheMultiplier: number
  readonly sharedCacheType: SharedCacheType

  // Added after 1.2.0.
  readonly overlapScoreCreditDecay: number
  readonly decodeActiveRequestWeight: number
  readonly routerPredictedTtlSecs: number | undefined
  readonly routerTrackingHash: TrackingHash
  readonly routerTrackingKeyFile: string | undefined
  readonly routerTrackingKeyId: string | undefined
  readonly routerPolicyConfig: string | undefined
  readonly routerPrefillPolicy: string | undefined
  readonly routerDecodePolicy: string | undefined
  readonly conditionalDisaggEnabled: boolean
  readonly conditionalDisaggPolicy: DisaggPolicy
  readonly conditionalDisaggEffIslThreshold: number
  readonly conditionalDisaggEffIslRatioThreshold: number
  readonly conditionalDisaggPrefillBusyThreshold: number | undefined
  readonly conditionalDisaggDecodeBusyThreshold: number | undefined

  // Knobs that upstream reads from the environment alone.
  readonly routerMinInitialWorkers: number
  /** 0 or less keeps the cache figures a parked request arrived with. */
  readonly routerOverlapRefreshAfterSecs: number
  readonly routerActiveRequestExpirySecs: number

  // Ours.
  readonly routerQueueParkedMax: number
  /** Blocks that the index holds over all ranks, counted once per rank; past it the oldest knowledge goes. */
  readonly indexMaxBlocks: number
  /** The same for each rank; `undefined` leaves it to the whole. */
  readonly indexMaxBlocksPerRank: number | undefined
  readonly indexShards: number
  readonly policy: RoutingPolicy
  /** With `policy: warm`: hold a request until its best worker is about to be free. For one router, or synced ones. */
  readonly routerLateBinding: boolean
  readonly compat: CompatMode
}

export const defaultRouterConfig: RouterConfig = Object.freeze({
  overlapScoreCredit: 1,
  prefillLoadScale: 1,
  hostCacheHitWeight: 0.75,
  diskCacheHitWeight: 0.25,
  routerTemperature: 0,
  useKvEvents: true,
  durableKvEvents: false,
  routerReplicaSync: false,
  routerTrackActiveBlocks: true,
  routerTrackOutputBlocks: false,
  routerAssumeKvReuse: true,
  routerTrackPrefillTokens: true,
  routerPrefillLoadModel: 'none',
  routerSnapshotThreshold: 1_000_000,
  routerResetStates: false,
  routerTtlSecs: 120,
  routerQueueThreshold: 4,
  routerEventThreads: 4,
  skipInitialWorkerWait: false,
  routerQueuePolicy: 'fcfs',
  useRemoteIndexer: false,
  serveIndexer: false,
  sharedCacheMultiplier: 0,
  sharedCacheType: 'none',
  overlapScoreCreditDecay: 0,
  decodeActiveRequestWeight: 0,
  routerPredictedTtlSecs: undefined,
  routerTrackingHash: 'public-xxh3-v1',
  routerTrackingKeyFile: undefined,
  routerTrackingKeyId: undefined,
  routerPolicyConfig: undefined,
  routerPrefillPolicy: undefined,
  routerDecodePolicy: undefined,
  conditionalDisaggEnabled: false,
  conditionalDisaggPolicy: 'isl_bounding',
  conditionalDisaggEffIslThreshold: 2048,
  conditionalDisaggEffIslRatioThreshold: 0.7,
  conditionalDisaggPrefillBusyThreshold: undefined,
  conditionalDisaggDecodeBusyThreshold: undefined,
  routerMinInitialWorkers: 0,
  routerOverlapRefreshAfterSecs: 10,
  routerActiveRequestExpirySecs: 300,
  routerQueueParkedMax: 100_000,
  indexMaxBlocks: 64_000_000, // about 2 to 2.7 GB; one WebAssembly memory ends at about 100 M
  indexMaxBlocksPerRank: undefined,
  indexShards: 1,
  policy: 'dynamo',
  routerLateBinding: false,
  compat: 'default',
})

/** What one request may change for itself. Weights of the lower tiers, decay and the active-request weight are not among them. */
export interface RouterConfigOverride {
  readonly overlapScoreCredit?: number
  readonly prefillLoadScale?: number
  readonly routerTemperature?: number
  readonly assumeKvReuse?: boolean
  readonly trackPrefillTokens?: boolean
  readonly sharedCacheMultiplier?: number
}

/**
 * A config as somebody wrote it: any subset, with the name that 1.2.0 deprecates.
 *
 * @example
 * import { createRouter, type RouterConfigInput } from 'warmroute'
 *
 * const config: RouterConfigInput = { policy: 'warm', routerQueueThreshold: undefined }
 * await (await createRouter({ blockSize: 16, config })).close()
 */
export type RouterConfigInput = Partial<RouterConfig> & { readonly overlapScoreWeight?: number }
export type RouterConfigOverrideInput = RouterConfigOverride & { readonly overlapScoreWeight?: number }

const queueRecheckMs = 60_000
const queueRecheckModelledMs = 100

/** Credit 0 ignores caches, so there is nothing to listen for. */
export function shouldSubscribeToKvEvents(config: RouterConfig): boolean {
  return config.useKvEvents && config.overlapScoreCredit > 0
}

/** A prefill-load model lets load fall with time alone, so a parked request must be looked at often. */
export function queueRecheckIntervalMs(config: RouterConfig, isQueueing: boolean): number {
  return config.routerPrefillLoadModel !== 'none' && isQueueing ? queueRecheckModelledMs : queueRecheckMs
}

export function assumesKvReuse(config: RouterConfig, override?: RouterConfigOverride): boolean {
  return override?.assumeKvReuse ?? config.routerAssumeKvReuse
}

export function tracksPrefillTokens(config: RouterConfig, override?: RouterConfigOverride): boolean {
  return override?.trackPrefillTokens ?? config.routerTrackPrefillTokens
}

/** How many blocks of a prompt are tracked while it runs: complete ones, and an Eagle block needs the token after it. */
export function trackedBlockCount(tokenCount: number, blockSize: number, isEagle: boolean): number {
  return Math.max(0, Math.floor((isEagle ? tokenCount - 1 : tokenCount) / blockSize))
}
