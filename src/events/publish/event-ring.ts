/** The last published events of one rank, by id. Ids must follow each other; a jump empties it, because the tail is gone. */
import type { RouterEvent } from '../../core/protocol/index.js'
import { resetScopeOf } from '../../core/protocol/index.js'

export class EventRing {
  readonly #capacity: number
  #events: RouterEvent[] = []

  constructor(capacity = 1024) {
    this.#capacity = capacity
  }

  get oldest(): bigint | undefined {
    return this.#events[0]?.event.eventId
  }

  get newest(): bigint | undefined {
    return this.#events.at(-1)?.event.eventId
  }

  get size(): number {
    return this.#events.length
  }

  /** False: the id does not follow the newest one. The event is kept all the same. */
  push(event: RouterEvent): boolean {
    const follows = this.newest === undefined || event.event.eventId === this.newest + 1n
    if (!follows) this.#events = []
    this.#events.push(event)
    // Trimmed in halves: shifting one by one would move the whole array for every event.
    if (this.#events.length >= 2 * this.#capacity) this.#events = this.#events.slice(-this.#capacity)
    return follows
  }

  /** The last `capacity` events from `start` on; what a clear of everything undid is left out. */
  from(start: bigint): RouterEvent[] {
    const kept = this.#events.slice(-this.#capacity).filter((event) => event.event.eventId >= start)
    const lastClear = kept.findLastIndex(
      (event) => event.event.data.kind === 'cleared' && resetScopeOf(event) === 'all',
    )
    return lastClear > 0 ? kept.slice(lastClear) : kept
  }

  /** The oldest id that `from` can still give. */
  get oldestKept(): bigint | undefined {
    return this.#events.at(-Math.min(this.#events.length, this.#capacity))?.event.eventId
  }
}
