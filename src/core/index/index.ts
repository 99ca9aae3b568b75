/** What is cached: which rank holds which prefix. */
export { ApplyReport, eventStatuses, statusCodes } from './apply-report.js'
export type { EventStatus } from './apply-report.js'
export { EventBatch, eventHeaderWords, eventKinds, hasParentFlag, ranksMax } from './event-batch.js'
export type { BlockFact, HotPrefix, IndexOptions, IndexStats, PrefixIndex } from './prefix-index.js'
