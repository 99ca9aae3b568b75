/**
 * What routers of one fleet tell each other about their bookings. Follows `ActiveSequenceEvent` of
 * lib/kv-router/src/protocols.rs at v1.2.0; how it looks on a wire is the business of `cluster/`.
 */
import type { HashColumn, WorkerRank } from '../protocol/index.js'

/** What a prefill is expected to cost. */
export interface PrefillLoadHint {
  /** Prompt tokens that are not cached on the chosen rank. */
  readonly tokens: number
  /** Absent: nobody predicts it, and the tokens count in full until the prefill is marked done. */
  readonly durationMs?: number | undefined
}

export interface AddRequestData {
  readonly kind: 'add_request'
  /** Absent: blocks are not tracked. */
  readonly tokenSequence?: HashColumn | undefined
  readonly trackPrefillTokens: boolean
  readonly expectedOutputTokens?: number | undefined
  readonly prefillLoadHint?: PrefillLoadHint | undefined
}

export interface SequenceEvent {
  readonly requestId: string
  readonly worker: WorkerRank
  /** Who booked it; a router ignores its own events when they come back. */
  readonly routerId: bigint
  readonly loraName?: string | undefined
  readonly data: AddRequestData | { readonly kind: 'mark_prefill_completed' } | { readonly kind: 'free' }
}

/** Where events go. Called in the order of the bookings; must not throw and must not call back into the tracker. */
export interface ReplicaPort {
  publish(event: SequenceEvent): void
}
