/** The pure library: no sockets, files, timers, clock or random numbers. Same input, same decision. */
export { InvariantError, RankTable, WarmrouteError } from './protocol/index.js'
export type { ErrorCode, HashColumn, Rank, StorageTier, WorkerRank } from './protocol/index.js'
