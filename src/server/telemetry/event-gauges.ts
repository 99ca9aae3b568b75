/** The event streams of one worker as metrics: read before each scrape, each ended with its stream. */
import type { FeedStatus } from '../../events/index.js'
import type { Counter, Gauge, Metrics } from '../../telemetry/index.js'
import { LabelText } from '../../telemetry/index.js'

type CounterFamily = Metrics['eventGaps']
type FeedLabels = { readonly model: string; readonly worker: string; readonly dp_rank: string }

const labelNames = ['dp_rank', 'model', 'worker'] as const

/** The series of one stream. Looking them up by their labels costs more than setting them. */
class FeedSeries {
  readonly #metrics: Metrics
  readonly #labels: FeedLabels
  readonly #text: LabelText
  readonly #state: ReturnType<Metrics['eventState']['with']>
  readonly #sequence: Gauge
  readonly #blocks: Gauge
  readonly #counters: Readonly<Record<'events' | 'batches' | 'gaps' | 'replays' | 'restarts', Counter>>
  /** Most streams never need one. */
  #reasons:
    | Map<string, { readonly counted: Counter; readonly family: CounterFamily; readonly reason: string }>
    | undefined
  #lag: Gauge | undefined
  #dropped: Counter | undefined
  readonly dpRank: number

  constructor(metrics: Metrics, model: string, worker: string, dpRank: number) {
    this.#metrics = metrics
    this.dpRank = dpRank
    const labels = (this.#labels = { model, worker, dp_rank: String(dpRank) })
    const text = (this.#text = new LabelText(labels, labelNames))
    this.#state = metrics.eventState.with(text)
    this.#sequence = metrics.eventSequence.with(text)
    this.#blocks = metrics.eventBlocks.with(text)
    this.#counters = {
      events: metrics.eventsApplied.with(text),
      batches: metrics.eventBatches.with(text),
      gaps: metrics.eventGaps.with(text),
      replays: metrics.eventReplays.with(text),
      restarts: metrics.eventRestarts.with(text),
    }
  }

  show(feed: FeedStatus): void {
    const { events, batches, gaps, replays, restarts } = this.#counters
    if (feed.lagSeconds !== undefined) (this.#lag ??= this.#metrics.eventLag.with(this.#text)).set(feed.lagSeconds)
    this.#state.set(feed.state)
    const { droppedFrames } = feed.machine
    if (droppedFrames > 0) (this.#dropped ??= this.#metrics.eventDropped.with(this.#text)).follow(droppedFrames)
    this.#sequence.set(feed.lastSequence)
    this.#blocks.set(feed.deviceBlocks)
    events.follow(feed.events)
    batches.follow(feed.machine.applied)
    gaps.follow(feed.machine.gaps)
    replays.follow(feed.machine.replays)
    restarts.follow(feed.machine.restarts)
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
    for (const family of [eventState, eventSequence, eventBlocks, eventLag]) family.remove(this.#text)
    for (const family of counters) family.remove(this.#text)
    for (const { family, reason } of this.#reasons?.values() ?? []) family.remove({ ...labels, reason })
  }

  /** Only reasons that there were: most never come. */
  #byReason(family: CounterFamily, reason: string, count: number): void {
    if (count === 0) return
    const key = `${family.name} ${reason}`
    const reasons = (this.#reasons ??= new Map())
    let known = reasons.get(key)
    if (!known) {
      known = { counted: family.with({ ...this.#labels, reason }), family, reason }
      reasons.set(key, known)
    }
    known.counted.follow(count)
  }
}

export class EventGauges {
  readonly #metrics: Metrics
  readonly #model: string
  readonly #worker: string
  #series: readonly FeedSeries[] = []

  constructor(metrics: Metrics, model: string, worker: string) {
    this.#metrics = metrics
    this.#model = model
    this.#worker = worker
  }

  get isEmpty(): boolean {
    return this.#series.length === 0
  }

  /** All streams that there are: what is not among them is gone. */
  show(feeds: readonly FeedStatus[]): void {
    if (this.#series.length !== feeds.length || this.#series.some(({ dpRank }, at) => dpRank !== feeds[at]!.dpRank))
      this.#follow(feeds)
    for (let at = 0; at < feeds.length; at++) this.#series[at]!.show(feeds[at]!)
  }

  end(): void {
    this.show([])
  }

  #follow(feeds: readonly FeedStatus[]): void {
    const before = this.#series
    this.#series = feeds.map(
      ({ dpRank }) =>
        before.find((series) => series.dpRank === dpRank) ??
        new FeedSeries(this.#metrics, this.#model, this.#worker, dpRank),
    )
    for (const series of before) if (!this.#series.includes(series)) series.end()
  }
}
