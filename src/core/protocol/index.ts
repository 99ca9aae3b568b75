/** Plain types that every room shares: errors, ranks, hashes, tiers. */
export { errorTexts, invariant, InvariantError, WarmrouteError } from './errors.js'
export type { ErrorCode } from './errors.js'
export { hashAt, hashCount, newHashColumn, setHashAt, toBigInts, toHashColumn } from './hash-column.js'
export type { HashColumn } from './hash-column.js'
export { completeOverride, completeRouterConfig, judgeRouterConfig } from './judge-router-config.js'
export type { ConfigIssue } from './judge-router-config.js'
export { newMatchColumns, resetMatchColumns } from './match-columns.js'
export type { MatchColumns } from './match-columns.js'
export { comparePairs, RankTable } from './rank-table.js'
export type { Rank, WorkerRank } from './rank-table.js'
export {
  assumesKvReuse,
  compatModes,
  defaultRouterConfig,
  disaggPolicies,
  prefillLoadModels,
  queuePolicies,
  queueRecheckIntervalMs,
  sharedCacheTypes,
  shouldSubscribeToKvEvents,
  trackedBlockCount,
  trackingHashes,
  tracksPrefillTokens,
} from './router-config.js'
export type {
  CompatMode,
  DisaggPolicy,
  PrefillLoadModel,
  QueuePolicy,
  RouterConfig,
  RouterConfigInput,
  RouterConfigOverride,
  RouterConfigOverrideInput,
  SharedCacheType,
  TrackingHash,
} from './router-config.js'
export { lowerTiers, storageTiers } from './storage-tier.js'
export type { StorageTier } from './storage-tier.js'
export { defaultWorkerConfig } from './worker-config.js'
export type { RoutingConstraints, WorkerConfig } from './worker-config.js'
