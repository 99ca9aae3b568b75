/** Question and answer between a router and the worker-local index of one rank: plain values, codecs belong to the plane. */
import type { ResetScope, RouterEvent, WorkerRank } from '../../core/protocol/index.js'

export interface WorkerQuery extends WorkerRank {
  /** Null: everything the worker has. */
  readonly startEventId: bigint | null
  readonly endEventId: bigint | null
  /** Whether the asker understands `tree_dump_failed`; others get an error instead. */
  readonly supportsTreeDumpFailed: boolean
}

export type WorkerReply =
  | { readonly kind: 'events'; readonly events: readonly RouterEvent[]; readonly lastEventId: bigint }
  | {
      readonly kind: 'tree_dump'
      readonly events: readonly RouterEvent[]
      readonly lastEventId: bigint
      readonly resetScope: ResetScope
    }
  | { readonly kind: 'tree_dump_failed'; readonly lastEventId: bigint; readonly message: string }
  | {
      readonly kind: 'too_new'
      readonly requestedStart: bigint
      readonly requestedEnd: bigint | null
      readonly newestAvailable: bigint
    }
  | { readonly kind: 'invalid_range'; readonly startId: bigint; readonly endId: bigint }
  | { readonly kind: 'error'; readonly message: string }
