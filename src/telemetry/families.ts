/**
 * Counters, gauges and histograms with labels. A family is a name with its label names; a series is one combination of
 * label values. Hot code keeps the handle of a series (`family.with(labels)`) and pays one addition per event.
 *
 * Written here rather than taken from prom-client because the exposition must be byte-equal to the original system's
 * (labels sorted, `le` last), must not block the loop with a large fleet, and must bound its series: docs/decisions/0004.
 */

export type Labels = Readonly<Record<string, string>>

export interface FamilyOptions {
  readonly name: string
  readonly help: string
  /** Sorted or not; the exposition sorts them. */
  readonly labels?: readonly string[]
  /** Combinations beyond this many are dropped and counted. */
  readonly seriesMax?: number
}

export type FamilyType = 'counter' | 'gauge' | 'histogram'

export interface Counter {
  inc(by?: number): void
  readonly value: number
}

export interface Gauge {
  set(value: number): void
  add(by: number): void
  readonly value: number
}

export interface Histogram {
  observe(value: number): void
  readonly sum: number
  readonly count: number
}

/** One series with the text of its labels: `a="1",b="2"`, or empty. */
export interface SeriesEntry<Series> {
  readonly labels: string
  readonly series: Series
  /** What stands before the value on its line; kept from its first scrape on, since a scrape is mostly this. */
  head: string | undefined
}

/** What all families share: the series, by their label values. */
export abstract class Family<Series> {
  abstract readonly type: FamilyType
  readonly name: string
  readonly help: string
  readonly labelNames: readonly string[]
  readonly #seriesMax: number
  readonly #series = new Map<string, SeriesEntry<Series>>()
  /** Always in the order of their labels: sorting a large family at a scrape would hold the loop. */
  #ordered: SeriesEntry<Series>[] = []
  #changes = 0
  #dropped = 0

  constructor(options: FamilyOptions) {
    this.name = options.name
    this.help = options.help
    this.labelNames = [...(options.labels ?? [])].sort()
    this.#seriesMax = options.seriesMax ?? 20_000
  }

  /** Series refused because the family was full. */
  get dropped(): number {
    return this.#dropped
  }

  get size(): number {
    return this.#series.size
  }

  /** The series of these label values, made on first use. Every label of the family must be given. */
  with(labels: Labels = {}): Series {
    const key = this.#keyOf(labels)
    const known = this.#series.get(key)
    if (known) return known.series
    const series = this.create()
    if (this.#series.size >= this.#seriesMax) this.#dropped++
    else this.#insert({ labels: key, series, head: undefined })
    return series // a refused series still works for its holder, it is only never shown
  }

  remove(labels: Labels): boolean {
    const key = this.#keyOf(labels)
    if (!this.#series.delete(key)) return false
    this.#ordered.splice(this.#placeOf(key), 1)
    this.#changes++
    return true
  }

  clear(): void {
    this.#series.clear()
    this.#ordered = []
    this.#changes++
  }

  /**
   * Walks the series in the order of their labels; `undefined` at the end. Series may come and go between two steps: each
   * one that stays is met exactly once.
   */
  walk(): () => SeriesEntry<Series> | undefined {
    let at = 0
    let changes = this.#changes
    let last: string | undefined
    return () => {
      if (changes !== this.#changes) {
        changes = this.#changes
        at = last === undefined ? 0 : this.#placeOf(last)
        if (at < this.#ordered.length && this.#ordered[at]!.labels === last) at++
      }
      const entry = this.#ordered[at]
      if (entry) {
        at++
        last = entry.labels
      }
      return entry
    }
  }

  protected abstract create(): Series

  #insert(entry: SeriesEntry<Series>): void {
    this.#series.set(entry.labels, entry)
    this.#ordered.splice(this.#placeOf(entry.labels), 0, entry)
    this.#changes++
  }

  /** Where the labels are, or would be. */
  #placeOf(labels: string): number {
    let low = 0
    let high = this.#ordered.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#ordered[middle]!.labels < labels) low = middle + 1
      else high = middle
    }
    return low
  }

  #keyOf(labels: Labels): string {
    let key = ''
    for (const name of this.labelNames) {
      key += `${key === '' ? '' : ','}${name}="${escapeLabel(labels[name] ?? '')}"`
    }
    return key
  }
}

export class CounterFamily extends Family<Counter> {
  override readonly type = 'counter'

  inc(labels: Labels = {}, by = 1): void {
    this.with(labels).inc(by)
  }

  protected override create(): Counter {
    return new CounterSeries()
  }
}

export class GaugeFamily extends Family<Gauge> {
  override readonly type = 'gauge'

  set(labels: Labels, value: number): void {
    this.with(labels).set(value)
  }

  protected override create(): Gauge {
    return new GaugeSeries()
  }
}

export class HistogramFamily extends Family<HistogramSeries> {
  override readonly type = 'histogram'
  readonly bounds: readonly number[]

  constructor(options: FamilyOptions & { readonly buckets: readonly number[] }) {
    super(options)
    this.bounds = options.buckets
  }

  observe(labels: Labels, value: number): void {
    this.with(labels).observe(value)
  }

  protected override create(): HistogramSeries {
    return new HistogramSeries(this.bounds)
  }
}

class CounterSeries implements Counter {
  value = 0

  inc(by = 1): void {
    if (by > 0) this.value += by // a counter never goes down, whatever a caller computed
  }
}

class GaugeSeries implements Gauge {
  value = 0

  set(value: number): void {
    this.value = value
  }

  add(by: number): void {
    this.value += by
  }
}

export class HistogramSeries implements Histogram {
  sum = 0
  count = 0
  readonly #bounds: readonly number[]
  /** Not cumulative: one addition per observation. The exposition adds them up. */
  readonly #counts: Float64Array

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds
    this.#counts = new Float64Array(bounds.length + 1)
  }

  observe(value: number): void {
    if (Number.isNaN(value)) return
    let low = 0
    let high = this.#bounds.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#bounds[middle]! < value) low = middle + 1
      else high = middle
    }
    this.#counts[low]! += 1
    this.sum += value
    this.count += 1
  }

  /** Observations at or below each bound. */
  cumulative(): readonly number[] {
    let total = 0
    return this.#bounds.map((_, i) => (total += this.#counts[i]!))
  }
}

function escapeLabel(value: string): string {
  return /[\\"\n]/.test(value) ? value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n') : value
}
