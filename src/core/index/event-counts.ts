/**
 * How many events ended how, by kind: the numbers behind `kv_cache_events_applied` and `kv_cache_event_warnings`. A
 * duplicate store is applied, so it counts as ok and as a warning.
 */
import type { KvCacheEventData } from '../protocol/index.js'
import { type ApplyReport, type EventStatus, eventStatuses } from './apply-report.js'
import { type EventBatch, eventHeaderWords, eventKinds } from './event-batch.js'

export type EventKind = KvCacheEventData['kind']

/** What became of one event: as the index says, or it never got there. */
export type EventOutcome = EventStatus | (typeof unapplied)[number]

/** `unknown_worker`: nobody may begin to keep what this worker holds; it has left, or too many are unknown. */
const unapplied = ['unsupported_residency_domain', 'unknown_worker'] as const

const kinds: readonly EventKind[] = ['stored', 'removed', 'cleared'] // by the codes of `eventKinds`
const outcomes: readonly EventOutcome[] = [...eventStatuses, ...unapplied]

export class EventCounts {
  readonly #counts = new Float64Array(kinds.length * outcomes.length)

  /** Events of this kind that ended so. `duplicate_store` is part of `ok` here. */
  applied(kind: EventKind, outcome: Exclude<EventOutcome, 'duplicate_store'>): number {
    const count = this.#counts[this.#at(kind, outcome)]!
    return outcome === 'ok' ? count + this.#counts[this.#at(kind, 'duplicate_store')]! : count
  }

  /** Stores that changed nothing at all. */
  get duplicateStores(): number {
    return this.#counts[this.#at('stored', 'duplicate_store')]!
  }

  /** A warning is due whenever this reaches a power of two: often enough to be seen, never a flood. */
  get unsupported(): number {
    return kinds.reduce((sum, kind) => sum + this.applied(kind, 'unsupported_residency_domain'), 0)
  }

  add(kind: EventKind, outcome: EventOutcome): void {
    this.#counts[this.#at(kind, outcome)]!++
  }

  /** Counts a whole applied batch. Clears concern every tier at once and are counted with the device only. */
  addBatch(batch: EventBatch, report: ApplyReport, countClears: boolean): void {
    const words = batch.words
    for (let index = 0, at = 0; index < batch.eventCount; index++) {
      const kind = words[at]! & 0xff
      const count = words[at + 2]!
      if (kind !== eventKinds.cleared || countClears) this.#counts[kind * outcomes.length + report.statuses[index]!]!++
      at += eventHeaderWords + (kind === eventKinds.stored ? 4 * count : kind === eventKinds.removed ? 2 * count : 0)
    }
  }

  #at(kind: EventKind, outcome: EventOutcome): number {
    return kinds.indexOf(kind) * outcomes.length + outcomes.indexOf(outcome)
  }
}
