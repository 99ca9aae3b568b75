/** Plain types that every room shares: errors, ranks, hashes, tiers. */
export { cacheOwnerKey, formatCacheOwner, parseCacheOwner } from './cache-owner.js'
export type { CacheOwnerId, DigestSource, IdentityDigest, IndexerDomainId, PoolId } from './cache-owner.js'
export { defaultMaterial, explicitMaterial, withCacheSemantics } from './identity-material.js'
export type { IdentityTag } from './identity-material.js'
export { errorTexts, invariant, InvariantError, WarmrouteError } from './errors.js'
export type { ErrorCode } from './errors.js'
export { hashAt, hashCount, newHashColumn, setHashAt, toBigInts, toHashColumn } from './hash-column.js'
export type { HashColumn } from './hash-column.js'
export { eventSourceRequirement, needsEventSource, workerRoles } from './event-source-requirement.js'
export type { EventSourceRequirement, WorkerRole } from './event-source-requirement.js'
export { parseConfigOverride, parseRouterConfig, stringifyRouterConfig } from './router-config-json.js'
export { acceptedBy, completeOverride, completeRouterConfig, judgeRouterConfig } from './judge-router-config.js'
export type { ConfigIssue } from './judge-router-config.js'
export {
  jsonDepthMax,
  jsonDigitsMax,
  parseLosslessJson,
  parseUnkeptJson,
  stringifyLosslessJson,
} from './lossless-json.js'
export type { JsonInput, JsonObject, JsonValue } from './lossless-json.js'
export { entriesOf, fieldsBehind, filtered, merged, objectOf, unkept } from './unkept.js'
export { newMatchColumns, resetMatchColumns } from './match-columns.js'
export type { MatchColumns } from './match-columns.js'
export { comparePairs, RankTable } from './rank-table.js'
export type { Rank, WorkerRank } from './rank-table.js'
export { concernsDevice, effectiveDomain, ownerOf, resetScopeOf } from './residency.js'
export type { ResidencyOwner } from './residency.js'
export {
  assumesKvReuse,
  compatModes,
  defaultRouterConfig,
  disaggPolicies,
  prefillLoadModels,
  queuePolicies,
  routingPolicies,
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
  RoutingPolicy,
  RouterConfig,
  RouterConfigInput,
  RouterConfigOverride,
  RouterConfigOverrideInput,
  SharedCacheType,
  TrackingHash,
} from './router-config.js'
export {
  parseRouterEvents,
  readMmInfo,
  readRouterEvent,
  stringifyRouterEvents,
  writeRouterEvent,
} from './router-event-json.js'
export { newRouterEvent } from './router-event.js'
export type {
  ClearedData,
  KvCacheEvent,
  KvCacheEventData,
  MmExtraInfo,
  MmObject,
  RemovedData,
  ResetScope,
  ResidencyDomain,
  ResidencyDomainField,
  RouterEvent,
  StoredBlock,
  StoredData,
} from './router-event.js'
export { lowerTiers, storageTiers } from './storage-tier.js'
export type { StorageTier } from './storage-tier.js'
export {
  dataParallelSizeMax,
  defaultWorkerConfig,
  maxNumBatchedTokensDefault,
  validateWorkerConfig,
} from './worker-config.js'
export type { RoutingConstraints, WorkerConfig } from './worker-config.js'
export { WorkerTable } from './worker-table.js'
export type { TopologyChange } from './worker-table.js'
