/** The pure library: no sockets, files, timers, clock or random numbers. Same input, same decision. */
export {
  BlockHashes,
  computeBlockHashes,
  computeSequenceHashes,
  createBlockHasher,
  createHashScheme,
  nextSequenceHash,
  padValue,
  toBlockExtraInfo,
  toBlockMedia,
} from './hashing/index.js'
export type {
  BlockHasher,
  BlockHasherOptions,
  BlockMedia,
  ComputeOptions,
  ExtendOptions,
  HashScheme,
  HashSchemeOptions,
} from './hashing/index.js'
export { InvariantError, RankTable, WarmrouteError } from './protocol/index.js'
export type { ErrorCode, HashColumn, MmExtraInfo, MmObject, Rank, StorageTier, WorkerRank } from './protocol/index.js'
