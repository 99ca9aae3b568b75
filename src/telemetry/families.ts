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

/**
 * What stands before the value on its line, name and labels: `requests{a="1",b="2"} `. It is the key of the series too, so
 * that nothing is made in a scrape that outlives it: what survives is copied by the collector, and that holds the loop.
 */
interface Headed {
  readonly head: string
}

/** What all families share: the series, by their label values. */
export abstract class Family<Series extends Headed> {
  abstract readonly type: FamilyType
  readonly name: string
  readonly help: string
  readonly labelNames: readonly string[]
  readonly #seriesMax: number
  readonly #series = new Map<string, Series>()
  /** Always in the order of their labels: sorting a large family at a scrape would hold the loop. */
  #ordered: Series[] = []
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
    const head = this.#headOf(labels)
    const known = this.#series.get(head)
    if (known) return known
    const series = this.create(head)
    if (this.#series.size >= this.#seriesMax) this.#dropped++
    else this.#insert(series)
    return series // a refused series still works for its holder, it is only never shown
  }

  remove(labels: Labels): boolean {
    const head = this.#headOf(labels)
    if (!this.#series.delete(head)) return false
    this.#ordered.splice(this.#placeOf(head), 1)
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
  walk(): () => Series | undefined {
    let at = 0
    let changes = this.#changes
    let last: string | undefined
    return () => {
      if (changes !== this.#changes) {
        changes = this.#changes
        at = last === undefined ? 0 : this.#placeOf(last)
        if (at < this.#ordered.length && this.#ordered[at]!.head === last) at++
      }
      const series = this.#ordered[at]
      if (series) {
        at++
        last = series.head
      }
      return series
    }
  }

  protected abstract create(head: string): Series

  #insert(series: Series): void {
    this.#series.set(series.head, series)
    this.#ordered.splice(this.#placeOf(series.head), 0, series)
    this.#changes++
  }

  /** Where it is, or would be. */
  #placeOf(head: string): number {
    let low = 0
    let high = this.#ordered.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#ordered[middle]!.head < head) low = middle + 1
      else high = middle
    }
    return low
  }

  #headOf(labels: Labels): string {
    if (this.labelNames.length === 0) return `${this.name} `
    let head = this.name
    let mark = '{'
    for (const name of this.labelNames) {
      head += `${mark}${name}="${escapeLabel(labels[name] ?? '')}"`
      mark = ','
    }
    return `${head}} `
  }
}

export class CounterFamily extends Family<CounterSeries> {
  override readonly type = 'counter'

  inc(labels: Labels = {}, by = 1): void {
    this.with(labels).inc(by)
  }

  protected override create(head: string): CounterSeries {
    return new CounterSeries(head)
  }
}

export class GaugeFamily extends Family<GaugeSeries> {
  override readonly type = 'gauge'

  set(labels: Labels, value: number): void {
    this.with(labels).set(value)
  }

  protected override create(head: string): GaugeSeries {
    return new GaugeSeries(head)
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

  protected override create(head: string): HistogramSeries {
    return new HistogramSeries(head, this.bounds)
  }
}

export class CounterSeries implements Counter, Headed {
  readonly head: string
  value = 0

  constructor(head: string) {
    this.head = head
  }

  inc(by = 1): void {
    if (by > 0) this.value += by // a counter never goes down, whatever a caller computed
  }
}

export class GaugeSeries implements Gauge, Headed {
  readonly head: string
  value = 0

  constructor(head: string) {
    this.head = head
  }

  set(value: number): void {
    this.value = value
  }

  add(by: number): void {
    this.value += by
  }
}

export class HistogramSeries implements Histogram, Headed {
  readonly head: string
  sum = 0
  count = 0
  readonly #bounds: readonly number[]
  /** Not cumulative: one addition per observation. The exposition adds them up. */
  readonly #counts: Float64Array

  constructor(head: string, bounds: readonly number[]) {
    this.head = head
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
