/** The pure library: no sockets, files, timers, clock or random numbers. Same input, same decision. */
export {
  BlockHashes,
  computeBlockHashes,
  computeSequenceHashes,
  createBlockHasher,
  createHashScheme,
} from './hashing/index.js'
export type { BlockHasher, HashScheme, HashSchemeOptions } from './hashing/index.js'
export { createPrefixIndex, KvIndex } from './index/index.js'
export type { KvIndexOptions } from './index/index.js'
export { LoadMonitor } from './load/index.js'
export type { LoadThresholds } from './load/index.js'
export { InvariantError, newMatchColumns, newRouterEvent, RankTable, WarmrouteError } from './protocol/index.js'
export type { ErrorCode, HashColumn, MatchColumns, Rank, StorageTier, WorkerRank } from './protocol/index.js'
export { ActiveSequences } from './sequences/index.js'
