/** From a rank's events to its sockets, through whatever the fault script does to them on the way. */
import type { Clock } from '../clock.js'
import type { Faults } from './faults.js'
import type { KvEvent } from './kv-event.js'
import { encodeBatch } from './kv-wire.js'
import type { Batch, KvPublisher } from './publisher.js'

export class EventFeed {
  readonly #publisher: KvPublisher
  readonly #rank: number
  readonly #faults: Faults
  readonly #clock: Clock
  #held: Batch | undefined
  /** Copies beyond the real ones that were announced, by digest; each is taken back with a removal of its own. */
  readonly #extraCopies = new Map<string, number>()
  /** In their order: others wait behind a late one. */
  readonly #late: { readonly batch: Batch; readonly atMs: number }[] = []

  constructor(publisher: KvPublisher, rank: number, faults: Faults, clock: Clock) {
    this.#publisher = publisher
    this.#rank = rank
    this.#faults = faults
    this.#clock = clock
  }

  publish(events: readonly KvEvent[]): void {
    const skew = this.#faults.strike('clock_skew', this.#rank)?.seconds ?? 0
    const rank = this.#faults.strike('wrong_rank', this.#rank) ? this.#rank + 1 : this.#rank
    const wrong = this.#faults.strike('wrong_block_size', this.#rank)
    const told = events.flatMap((event) => this.#doubled(event))
    const said = wrong
      ? told.map((event) => (event.kind === 'stored' ? { ...event, blockTokens: wrong.tokens } : event))
      : told
    const payload = encodeBatch(this.#publisher.options.form, Date.now() / 1000 + skew, said, rank)
    this.#send(this.#publisher.number(payload))
  }

  /** Two copies of a block are stored twice and removed twice, as engines do that computed it twice. */
  #doubled(event: KvEvent): readonly KvEvent[] {
    const extra = this.#extraCopies
    if (event.kind === 'cleared') extra.clear()
    if (event.kind === 'stored' && event.medium === 'GPU' && this.#faults.strike('double_copies', this.#rank)) {
      for (const hash of event.hashes) extra.set(hex(hash), (extra.get(hex(hash)) ?? 0) + 1)
      return [event, event]
    }
    if (event.kind !== 'removed' || event.medium !== 'GPU' || extra.size === 0) return [event]
    const again = event.hashes.filter((hash) => extra.has(hex(hash)))
    for (const hash of again) {
      const left = extra.get(hex(hash))! - 1
      if (left === 0) extra.delete(hex(hash))
      else extra.set(hex(hash), left)
    }
    return again.length === 0 ? [event] : [event, { ...event, hashes: again }]
  }

  #sendLater(batch: Batch, waitMs: number): void {
    const atMs = Math.max(this.#late.at(-1)?.atMs ?? 0, this.#clock.now() + waitMs)
    this.#late.push({ batch, atMs })
    this.#clock.at(atMs, () => {
      // Timers of one time may fire in any order, and the first of them sends for all.
      while (this.#late.length > 0 && this.#late[0]!.atMs <= atMs) this.#publisher.send(this.#late.shift()!.batch)
    })
  }

  #send(batch: Batch): void {
    const faults = this.#faults
    if (faults.strike('drop_events', this.#rank)) return
    const late = faults.strike('late_events', this.#rank)
    if (late || this.#late.length > 0) return this.#sendLater(batch, late ? faults.drawn(late) : 0)
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

function hex(digest: Uint8Array): string {
  return Buffer.from(digest).toString('hex')
}
