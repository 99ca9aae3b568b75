/** The event streams of every rank as metrics: read before each scrape, and ended with their worker. */
import type { FeedStatus } from '../../events/index.js'
import type { Counter, Gauge, Labels, Metrics } from '../../telemetry/index.js'

const states = ['connecting', 'recovering', 'live', 'suspect', 'gone'] as const

type CounterFamily = Metrics['eventGaps']
type GaugeFamily = Metrics['eventLag']

/** The series of one stream. Looking them up by their labels costs more than setting them. */
class FeedSeries {
  readonly #metrics: Metrics
  readonly #labels: Labels
  readonly #ends: (() => void)[] = []
  readonly #states: readonly (readonly [state: string, gauge: Gauge])[]
  readonly #sequence: Gauge
  readonly #blocks: Gauge
  readonly #counters: Readonly<Record<'events' | 'batches' | 'gaps' | 'replays' | 'restarts', Counted>>
  readonly #reasons = new Map<string, Counted>()
  #lag: Gauge | undefined
  /** The scrape that showed it last. */
  scrape = 0

  constructor(metrics: Metrics, labels: Labels) {
    this.#metrics = metrics
    this.#labels = labels
    this.#states = states.map((state) => [state, this.#gauge(metrics.eventState, { ...labels, state })] as const)
    this.#sequence = this.#gauge(metrics.eventSequence, labels)
    this.#blocks = this.#gauge(metrics.eventBlocks, labels)
    this.#counters = {
      events: this.#counted(metrics.eventsApplied, labels),
      batches: this.#counted(metrics.eventBatches, labels),
      gaps: this.#counted(metrics.eventGaps, labels),
      replays: this.#counted(metrics.eventReplays, labels),
      restarts: this.#counted(metrics.eventRestarts, labels),
    }
  }

  show(feed: FeedStatus): void {
    const { events, batches, gaps, replays, restarts } = this.#counters
    if (feed.lagSeconds !== undefined)
      (this.#lag ??= this.#gauge(this.#metrics.eventLag, this.#labels)).set(feed.lagSeconds)
    for (const [state, gauge] of this.#states) gauge.set(feed.state === state ? 1 : 0)
    this.#sequence.set(feed.lastSequence)
    this.#blocks.set(feed.deviceBlocks)
    events.show(feed.events)
    batches.show(feed.machine.applied)
    gaps.show(feed.machine.gaps)
    replays.show(feed.machine.replays)
    restarts.show(feed.machine.restarts)
    const { eventPurges, eventDecodeErrors } = this.#metrics
    for (const reason in feed.purges)
      this.#byReason(eventPurges, reason, feed.purges[reason as keyof FeedStatus['purges']])
    for (const reason in feed.decodeErrors) this.#byReason(eventDecodeErrors, reason, feed.decodeErrors[reason]!)
  }

  end(): void {
    for (const end of this.#ends) end()
  }

  /** Only reasons that there were: most never come. */
  #byReason(family: CounterFamily, reason: string, count: number): void {
    if (count === 0) return
    const key = `${family.name} ${reason}`
    let counted = this.#reasons.get(key)
    if (!counted) this.#reasons.set(key, (counted = this.#counted(family, { ...this.#labels, reason })))
    counted.show(count)
  }

  #gauge(family: GaugeFamily, labels: Labels): Gauge {
    this.#ends.push(() => family.remove(labels))
    return family.with(labels)
  }

  #counted(family: CounterFamily, labels: Labels): Counted {
    this.#ends.push(() => family.remove(labels))
    return new Counted(family.with(labels))
  }
}

/** A counter that follows a number: a stream that is followed anew counts from zero again. */
class Counted {
  readonly #counter: Counter
  #told = 0

  constructor(counter: Counter) {
    this.#counter = counter
  }

  show(value: number): void {
    this.#counter.inc(value >= this.#told ? value - this.#told : value)
    this.#told = value
  }
}

export class EventGauges {
  readonly #metrics: Metrics
  readonly #series = new Map<string, FeedSeries>()
  #scrape = 0

  constructor(metrics: Metrics) {
    this.#metrics = metrics
  }

  begin(): void {
    this.#scrape++
  }

  show(model: string, worker: string, feeds: readonly FeedStatus[]): void {
    for (const feed of feeds) {
      const key = `${model}\0${worker}\0${feed.dpRank}`
      let series = this.#series.get(key)
      if (!series) {
        series = new FeedSeries(this.#metrics, { model, worker, dp_rank: String(feed.dpRank) })
        this.#series.set(key, series)
      }
      series.scrape = this.#scrape
      series.show(feed)
    }
  }

  /** After every worker was shown: what was not shown again is gone. */
  *end(): Generator<void> {
    for (const [key, series] of this.#series) {
      if (series.scrape === this.#scrape) continue
      series.end()
      this.#series.delete(key)
      yield
    }
  }
}
