/** The event streams of every rank as metrics: read before each scrape, and ended with their worker. */
import type { FeedStatus } from '../../events/index.js'
import type { Counter, Gauge, Labels, Metrics } from '../../telemetry/index.js'

const states = ['connecting', 'recovering', 'live', 'suspect', 'gone'] as const

type CounterFamily = Metrics['eventGaps']

/** The series of one stream. Looking them up by their labels costs more than setting them. */
class FeedSeries {
  readonly #metrics: Metrics
  readonly #labels: Labels
  /** As `states` has them. */
  readonly #states: readonly Gauge[]
  readonly #sequence: Gauge
  readonly #blocks: Gauge
  readonly #counters: Readonly<Record<'events' | 'batches' | 'gaps' | 'replays' | 'restarts', Counted>>
  /** Most streams never need one. */
  #reasons:
    | Map<string, { readonly counted: Counted; readonly family: CounterFamily; readonly reason: string }>
    | undefined
  #lag: Gauge | undefined
  #dropped: Counted | undefined
  /** The scrape that showed it last. */
  scrape = 0

  constructor(metrics: Metrics, labels: Labels) {
    this.#metrics = metrics
    this.#labels = labels
    this.#states = states.map((state) => metrics.eventState.with({ ...labels, state }))
    this.#sequence = metrics.eventSequence.with(labels)
    this.#blocks = metrics.eventBlocks.with(labels)
    this.#counters = {
      events: new Counted(metrics.eventsApplied.with(labels)),
      batches: new Counted(metrics.eventBatches.with(labels)),
      gaps: new Counted(metrics.eventGaps.with(labels)),
      replays: new Counted(metrics.eventReplays.with(labels)),
      restarts: new Counted(metrics.eventRestarts.with(labels)),
    }
  }

  show(feed: FeedStatus): void {
    const { events, batches, gaps, replays, restarts } = this.#counters
    if (feed.lagSeconds !== undefined) (this.#lag ??= this.#metrics.eventLag.with(this.#labels)).set(feed.lagSeconds)
    for (let at = 0; at < states.length; at++) this.#states[at]!.set(feed.state === states[at] ? 1 : 0)
    const { droppedFrames } = feed.machine
    if (droppedFrames > 0)
      (this.#dropped ??= new Counted(this.#metrics.eventDropped.with(this.#labels))).show(droppedFrames)
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

  /** Its labels say what it has: kept besides, the way to end each series would be half of a stream's memory. */
  end(): void {
    const { eventState, eventSequence, eventBlocks, eventLag } = this.#metrics
    const { eventsApplied, eventBatches, eventGaps, eventReplays, eventRestarts, eventDropped } = this.#metrics
    const counters = [eventsApplied, eventBatches, eventGaps, eventReplays, eventRestarts, eventDropped]
    const labels = this.#labels
    for (const state of states) eventState.remove({ ...labels, state })
    for (const family of [eventSequence, eventBlocks, eventLag]) family.remove(labels)
    for (const family of counters) family.remove(labels)
    for (const { family, reason } of this.#reasons?.values() ?? []) family.remove({ ...labels, reason })
  }

  /** Only reasons that there were: most never come. */
  #byReason(family: CounterFamily, reason: string, count: number): void {
    if (count === 0) return
    const key = `${family.name} ${reason}`
    const reasons = (this.#reasons ??= new Map())
    let known = reasons.get(key)
    if (!known) {
      known = { counted: new Counted(family.with({ ...this.#labels, reason })), family, reason }
      reasons.set(key, known)
    }
    known.counted.show(count)
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
