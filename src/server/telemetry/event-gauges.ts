/** The event streams of every rank as metrics: read before each scrape, and ended with their worker. */
import type { FeedStatus } from '../../events/index.js'
import type { Labels, Metrics } from '../../telemetry/index.js'

const states = ['connecting', 'recovering', 'live', 'suspect', 'gone'] as const

type CounterFamily = Metrics['eventGaps']
type GaugeFamily = Metrics['eventLag']
type Family = CounterFamily | GaugeFamily

export class EventGauges {
  readonly #metrics: Metrics
  /** What each counter was told last: a stream that is followed anew counts from zero again. */
  #told = new Map<string, number>()
  #shown = new Map<string, readonly [Family, Labels]>()
  #next = { told: new Map<string, number>(), shown: new Map<string, readonly [Family, Labels]>() }

  constructor(metrics: Metrics) {
    this.#metrics = metrics
  }

  show(model: string, worker: string, feeds: readonly FeedStatus[]): void {
    const { eventLag, eventState, eventSequence, eventBlocks } = this.#metrics
    const { eventsApplied, eventBatches, eventGaps, eventReplays, eventRestarts } = this.#metrics
    const { eventPurges, eventDecodeErrors } = this.#metrics
    for (const feed of feeds) {
      const labels = { model, worker, dp_rank: String(feed.dpRank) }
      if (feed.lagSeconds !== undefined) this.#set(eventLag, labels, feed.lagSeconds)
      for (const state of states) this.#set(eventState, { ...labels, state }, feed.state === state ? 1 : 0)
      this.#set(eventSequence, labels, feed.lastSequence)
      this.#set(eventBlocks, labels, feed.deviceBlocks)
      this.#count(eventsApplied, labels, feed.events)
      this.#count(eventBatches, labels, feed.machine.applied)
      this.#count(eventGaps, labels, feed.machine.gaps)
      this.#count(eventReplays, labels, feed.machine.replays)
      this.#count(eventRestarts, labels, feed.machine.restarts)
      for (const [reason, count] of Object.entries(feed.purges))
        if (count > 0) this.#count(eventPurges, { ...labels, reason }, count)
      for (const [reason, count] of Object.entries(feed.decodeErrors))
        this.#count(eventDecodeErrors, { ...labels, reason }, count)
    }
  }

  /** After every worker was shown: what was not shown again is gone. */
  end(): void {
    for (const [key, [family, labels]] of this.#shown) if (!this.#next.shown.has(key)) family.remove(labels)
    this.#shown = this.#next.shown
    this.#told = this.#next.told
    this.#next = { told: new Map(), shown: new Map() }
  }

  #set(family: GaugeFamily, labels: Labels, value: number): void {
    family.set(labels, value)
    this.#next.shown.set(keyOf(family, labels), [family, labels])
  }

  #count(family: CounterFamily, labels: Labels, value: number): void {
    const key = keyOf(family, labels)
    const before = this.#told.get(key) ?? 0
    family.inc(labels, value >= before ? value - before : value)
    this.#next.told.set(key, value)
    this.#next.shown.set(key, [family, labels])
  }
}

function keyOf({ name }: Family, labels: Labels): string {
  return `${name} ${JSON.stringify(labels)}`
}
