/** From a rank's events to its sockets, through whatever the fault script does to them on the way. */
import type { RealClock } from './real-clock.js'
import type { Faults } from './faults.js'
import type { KvEvent } from './kv-event.js'
import { encodeBatch } from './kv-wire.js'
import type { Batch, KvPublisher } from './publisher.js'

export class EventFeed {
  readonly #publisher: KvPublisher
  readonly #rank: number
  readonly #faults: Faults
  readonly #clock: RealClock
  #held: Batch | undefined

  constructor(publisher: KvPublisher, rank: number, faults: Faults, clock: RealClock) {
    this.#publisher = publisher
    this.#rank = rank
    this.#faults = faults
    this.#clock = clock
  }

  publish(events: readonly KvEvent[]): void {
    const skew = this.#faults.strike('clock_skew', this.#rank)?.seconds ?? 0
    const rank = this.#faults.strike('wrong_rank', this.#rank) ? this.#rank + 1 : this.#rank
    const wrong = this.#faults.strike('wrong_block_size', this.#rank)
    const said = wrong
      ? events.map((event) => (event.kind === 'stored' ? { ...event, blockTokens: wrong.tokens } : event))
      : events
    const payload = encodeBatch(this.#publisher.options.form, Date.now() / 1000 + skew, said, rank)
    this.#send(this.#publisher.number(payload))
  }

  #send(batch: Batch): void {
    const faults = this.#faults
    if (faults.strike('drop_events', this.#rank)) return
    const delay = faults.strike('delay_events', this.#rank)
    if (delay) {
      const publisher = this.#publisher
      this.#clock.at(this.#clock.now() + delay.ms, () => publisher.send(batch))
      return
    }
    if (this.#held === undefined && faults.strike('reorder_events', this.#rank)) {
      this.#held = batch // the next one overtakes it
      return
    }
    this.#publisher.send(batch)
    if (faults.strike('duplicate_events', this.#rank)) this.#publisher.send(batch)
    if (this.#held !== undefined) {
      this.#publisher.send(this.#held)
      this.#held = undefined
    }
  }
}
