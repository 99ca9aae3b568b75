/** What became of the events of a batch: one status per event, and counters over all batches that used this report. */

/** Upstream's metric labels, by status code. `duplicate_store` is a warning: the event was applied and changed nothing. */
export const eventStatuses = [
  'ok',
  'parent_block_not_found',
  'block_not_found',
  'invalid_block',
  'duplicate_store',
  'capacity_exhausted',
] as const

export type EventStatus = (typeof eventStatuses)[number]

export const statusCodes = {
  ok: 0,
  parentBlockNotFound: 1,
  blockNotFound: 2,
  invalidBlock: 3,
  duplicateStore: 4,
  capacityExhausted: 5,
} as const

export class ApplyReport {
  /** `statuses[i]` is the code of event i of the last batch; only the first `eventCount` count. */
  statuses: Uint8Array = new Uint8Array(64)
  eventCount = 0
  /** How many events ended with each code, since `reset`. */
  readonly counts: Float64Array = new Float64Array(eventStatuses.length)

  /** The last batch's status of event `index`, in words. */
  statusOf(index: number): EventStatus {
    return eventStatuses[this.statuses[index]!]!
  }

  countOf(status: EventStatus): number {
    return this.counts[eventStatuses.indexOf(status)]!
  }

  /** Forgets the counters; the last batch's statuses stay. */
  reset(): void {
    this.counts.fill(0)
  }

  /** For implementations: makes room for a batch. */
  begin(eventCount: number): void {
    if (this.statuses.length < eventCount) this.statuses = new Uint8Array(2 * eventCount)
    this.eventCount = eventCount
  }

  /** For implementations: adds the statuses of the last batch to the counters. */
  count(): void {
    for (let index = 0; index < this.eventCount; index++) this.counts[this.statuses[index]!]!++
  }
}
