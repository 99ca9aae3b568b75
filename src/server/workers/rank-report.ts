/** What a person may know of one rank's event stream, in the words of the wire. */
import type { FeedStatus } from '../../events/index.js'

type Counts = Readonly<Record<string, number>>

export interface RankReport {
  readonly dp_rank: number
  readonly state: string
  /** Every batch since the engine's first was applied: nothing that it holds is unknown. */
  readonly is_complete: boolean
  /** -1: none yet. */
  readonly last_sequence: number
  /** How old the newest live batch was when it was applied; null before the first. */
  readonly lag_seconds: number | null
  readonly last_batch_age_seconds: number | null
  readonly events_per_second: number
  readonly blocks: number
  readonly batches: number
  readonly events: number
  readonly gaps: number
  readonly restarts: number
  readonly replays: number
  readonly replay_failures: number
  readonly overruns: number
  readonly dropped_frames: number
  readonly stale_frames: number
  /** By reason, only those that happened; likewise below. */
  readonly purges: Counts
  readonly decode_errors: Counts
  readonly passed_over: Counts
  readonly removed_blocks: number
  /** Stores of a block that the engine had, and removals that left it another copy. */
  readonly doubled_blocks: number
  readonly kept_copies: number
  readonly unknown_removals: number
  readonly unrooted_stores: number
  readonly rank_mismatches: number
}

export function rankReportOf(status: FeedStatus): RankReport {
  const { machine, ledger } = status
  return {
    dp_rank: status.dpRank,
    state: status.state,
    is_complete: status.isComplete,
    last_sequence: status.lastSequence,
    lag_seconds: rounded(status.lagSeconds),
    last_batch_age_seconds: rounded(status.batchAgeSeconds),
    events_per_second: status.eventsPerSecond,
    blocks: status.deviceBlocks,
    batches: machine.applied,
    events: status.events,
    gaps: machine.gaps,
    restarts: machine.restarts,
    replays: machine.replays,
    replay_failures: machine.replayFailures,
    overruns: machine.overruns,
    dropped_frames: machine.droppedFrames,
    stale_frames: machine.stale,
    purges: happened(status.purges),
    decode_errors: happened(status.decodeErrors),
    passed_over: happened({ ...ledger.filtered, unknown_event: status.unknownEvents, bad_event: status.badEvents }),
    removed_blocks: ledger.removedBlocks,
    doubled_blocks: ledger.doubledBlocks,
    kept_copies: ledger.keptCopies,
    unknown_removals: ledger.unknownRemovals,
    unrooted_stores: ledger.unrootedStores,
    rank_mismatches: status.rankMismatches,
  }
}

/** Milliseconds are as exact as two clocks can be. */
function rounded(seconds: number | undefined): number | null {
  return seconds === undefined ? null : Math.round(seconds * 1000) / 1000
}

function happened(counts: Counts): Counts {
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0))
}
