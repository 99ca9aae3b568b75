/** KV event intake: from an engine's frames to applied batches, with gaps found and repaired. */
export {
  attentionCode,
  DecodedBatch,
  decodeReasons,
  eventKind,
  localityCode,
  ownershipCode,
  tierCode,
} from './decoded-batch.js'
export type { BatchDecoder, DecodeReason } from './decoded-batch.js'
export type { Feed, FeedOptions, FeedStatus } from './feed.js'
export { Intake } from './intake.js'
export type { EventSink, IntakeOptions } from './intake.js'
export { filterReasons } from './prefilter.js'
export type { FilterReason } from './prefilter.js'
export type { DraftEvent } from './publish/coalescer.js'
export { LocalIndex } from './publish/local-index.js'
export type { DumpableIndex, LocalIndexOptions } from './publish/local-index.js'
export { RankPublisher } from './publish/rank-publisher.js'
export type { PublisherCounters, PublisherOptions } from './publish/rank-publisher.js'
export { Permits } from './query/permits.js'
export { QueryRank, queryLimits } from './query/query-rank.js'
export type { QueryCounters, QueryRankEffects, QueryRankOptions } from './query/query-rank.js'
export type { WorkerQuery, WorkerReply } from './query/worker-query.js'
export { defaultRankLimits, purgeReasons } from './rank-rules.js'
export type { MachineCounters, PurgeReason, RankLimits, RankState } from './rank-rules.js'
export type { LedgerCounters } from './rank-ledger.js'
export { refusals, restoreFeed, takeSnapshot } from './snapshot.js'
export type { ImageReading, RankIdentity, RankImage, RestoreRefusal, SnapshotContext } from './snapshot.js'
export { loadSnapshot, saveSnapshot } from './snapshot-file.js'
export type { SavedSnapshot, SaveOptions } from './snapshot-file.js'
export { ZmqSource } from './zmq-source.js'
export type { ZmqFeedOptions, ZmqSourceOptions } from './zmq-source.js'
