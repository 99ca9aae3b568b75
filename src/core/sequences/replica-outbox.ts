/**
 * Events on their way to peers: first in, first out, bounded. When it is full the newest is dropped and counted, so that
 * what does arrive arrives in order. Whoever owns the network takes batches out.
 */
import type { ReplicaPort, SequenceEvent } from './sequence-event.js'

export const outboxCountMax = 100_000
export const batchCountMax = 256

export class ReplicaOutbox implements ReplicaPort {
  droppedCount = 0
  readonly #countMax: number
  #events: SequenceEvent[] = []
  #taken = 0

  constructor(countMax = outboxCountMax) {
    this.#countMax = countMax
  }

  get count(): number {
    return this.#events.length - this.#taken
  }

  publish(event: SequenceEvent): void {
    if (this.count >= this.#countMax) this.droppedCount++
    else this.#events.push(event)
  }

  /** The oldest events, at most `countMax` of them; they are gone from here. */
  take(countMax = batchCountMax): SequenceEvent[] {
    const batch = this.#events.slice(this.#taken, this.#taken + countMax)
    this.#taken += batch.length
    // Moving the rest costs as much as taking it once more: only when half of the array is behind us.
    if (2 * this.#taken >= this.#events.length) {
      this.#events = this.#events.slice(this.#taken)
      this.#taken = 0
    }
    return batch
  }
}
