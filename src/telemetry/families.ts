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
  /** Follows what is counted elsewhere, and goes on when that begins at zero again. */
  follow(count: number): void
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
 * What stands between name and value on a line: `{a="1",b="2"} `. It is the key of the series too. Made once for a worker
 * and given to every family with these labels, it is one string for all of them: what a scrape makes and keeps is copied
 * by the collector, and that holds the loop (docs/decisions/0181-series-before-the-scrape.md).
 */
export class LabelText {
  /** Sorted, as the text has them. */
  readonly names: readonly string[]
  readonly text: string

  constructor(labels: Labels, names: readonly string[] = Object.keys(labels).sort()) {
    this.names = names
    let text = ''
    for (const name of names) text += `${text === '' ? '{' : '",'}${name}="${escapeLabel(labels[name] ?? '')}`
    this.text = text === '' ? ' ' : `${text}"} `
  }
}

export interface Labelled {
  readonly labels: string
}

/** What all families share: the series, by their label values. */
export abstract class Family<Series extends Labelled> {
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
  with(labels: Labels | LabelText = {}): Series {
    const text = this.#textOf(labels)
    const known = this.#series.get(text)
    if (known) return known
    const series = this.create(text)
    if (this.#series.size >= this.#seriesMax) this.#dropped++
    else this.#insert(series)
    return series // a refused series still works for its holder, it is only never shown
  }

  remove(labels: Labels | LabelText): boolean {
    const text = this.#textOf(labels)
    if (!this.#series.delete(text)) return false
    this.#ordered.splice(this.#placeOf(text), 1)
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
        if (at < this.#ordered.length && this.#ordered[at]!.labels === last) at++
      }
      const series = this.#ordered[at]
      if (series) {
        at++
        last = series.labels
      }
      return series
    }
  }

  protected abstract create(labels: string): Series

  #insert(series: Series): void {
    this.#series.set(series.labels, series)
    this.#ordered.splice(this.#placeOf(series.labels), 0, series)
    this.#changes++
  }

  /** Where it is, or would be. */
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

  #textOf(labels: Labels | LabelText): string {
    if (!(labels instanceof LabelText)) return new LabelText(labels, this.labelNames).text
    const { names, text } = labels
    if (names.length !== this.labelNames.length || names.some((name, at) => name !== this.labelNames[at]))
      throw new TypeError(`metric ${this.name} has other labels than ${names.join(', ')}`)
    return text
  }
}

export class CounterFamily extends Family<CounterSeries> {
  override readonly type = 'counter'

  inc(labels: Labels | LabelText = {}, by = 1): void {
    this.with(labels).inc(by)
  }

  protected override create(labels: string): CounterSeries {
    return new CounterSeries(labels)
  }
}

export class GaugeFamily extends Family<GaugeSeries> {
  override readonly type = 'gauge'

  set(labels: Labels | LabelText, value: number): void {
    this.with(labels).set(value)
  }

  protected override create(labels: string): GaugeSeries {
    return new GaugeSeries(labels)
  }
}

export class HistogramFamily extends Family<HistogramSeries> {
  override readonly type = 'histogram'
  readonly bounds: readonly number[]

  constructor(options: FamilyOptions & { readonly buckets: readonly number[] }) {
    super(options)
    this.bounds = options.buckets
  }

  observe(labels: Labels | LabelText, value: number): void {
    this.with(labels).observe(value)
  }

  protected override create(labels: string): HistogramSeries {
    return new HistogramSeries(labels, this.bounds)
  }
}

export class CounterSeries implements Counter, Labelled {
  readonly labels: string
  value = 0
  #followed = 0

  constructor(labels: string) {
    this.labels = labels
  }

  inc(by = 1): void {
    if (by > 0) this.value += by // a counter never goes down, whatever a caller computed
  }

  follow(count: number): void {
    this.inc(count >= this.#followed ? count - this.#followed : count)
    this.#followed = count
  }
}

export class GaugeSeries implements Gauge, Labelled {
  readonly labels: string
  value = 0

  constructor(labels: string) {
    this.labels = labels
  }

  set(value: number): void {
    this.value = value
  }

  add(by: number): void {
    this.value += by
  }
}

export class HistogramSeries implements Histogram, Labelled {
  readonly labels: string
  sum = 0
  count = 0
  readonly #bounds: readonly number[]
  /** Not cumulative: one addition per observation. The exposition adds them up. */
  readonly #counts: Float64Array

  constructor(labels: string, bounds: readonly number[]) {
    this.labels = labels
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
