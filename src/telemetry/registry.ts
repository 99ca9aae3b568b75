/** Holds the families of one process and writes them as text, a slice at a time, so that a scrape never blocks the loop. */
import type { CounterFamily, GaugeFamily, HistogramSeries } from './families.js'
import { HistogramFamily } from './families.js'
import { decimal, Slice } from './slice.js'
import { StateFamily } from './states.js'

export type AnyFamily = CounterFamily | GaugeFamily | StateFamily | HistogramFamily

/** Work of a scrape before the loop gets a turn, by the clock: far below what a request would notice. */
const turnMs = 1
/** Bytes before the loop gets a turn even so: what is written must be sent within a turn too. */
const sliceBytes = 1 << 17
/** So much may come between two looks before a slice must be made larger. */
const roomBytes = 1 << 13
/** Lines between two looks at the clock. */
const linesPerLook = 32

const nothing = new Uint8Array(0)

/** One that has much to do yields between its steps, and the loop gets a turn there when one is due. */
export type Collector = () => void | Iterable<void>

export interface RegistryOptions {
  /** A clock in milliseconds. */
  readonly now?: () => number
}

export class Registry {
  readonly #families = new Map<string, AnyFamily>()
  readonly #collectors = new Set<Collector>()
  readonly #now: () => number
  #sorted: readonly AnyFamily[] | undefined
  /** Ends when no scrape is at work. */
  #atWork: Promise<void> = Promise.resolve()

  constructor(options: RegistryOptions = {}) {
    this.#now = options.now ?? (() => performance.now())
  }

  /** The same name twice is a mistake of ours, not of an operator: it throws. */
  register<F extends AnyFamily>(family: F): F {
    if (this.#families.has(family.name)) throw new TypeError(`metric ${family.name} is registered already`)
    this.#families.set(family.name, family)
    this.#sorted = undefined
    return family
  }

  /** Called before every scrape: the place to set gauges from numbers that live elsewhere. Returns its own removal. */
  onCollect(collector: Collector): () => void {
    this.#collectors.add(collector)
    return () => this.#collectors.delete(collector)
  }

  families(): readonly AnyFamily[] {
    return (this.#sorted ??= [...this.#families.values()].sort((a, b) => (a.name < b.name ? -1 : 1)))
  }

  /** Series that were refused because their family was full. */
  get droppedSeries(): number {
    return this.families().reduce((sum, family) => sum + family.dropped, 0)
  }

  /** The exposition, at once. For tests and small registries. */
  text(): string {
    const decoder = new TextDecoder()
    let text = ''
    for (const slice of this.#slices()) text += decoder.decode(slice, { stream: true })
    return text
  }

  /**
   * The exposition in slices; `pause` is awaited between them, for instance `setImmediate` from `node:timers/promises`.
   * Scrapes that overlap take turns: the loop is held by one slice at a time, however many ask.
   */
  async *stream(pause: () => Promise<void>): AsyncGenerator<Uint8Array> {
    const slices = this.#slices()
    try {
      for (;;) {
        const slice = await this.#takeTurn(slices, pause)
        if (slice === undefined) return
        if (slice.length > 0) yield slice
      }
    } finally {
      slices.return(undefined) // a reader that leaves early ends the collectors too
    }
  }

  async #takeTurn(slices: Iterator<Uint8Array>, pause: () => Promise<void>): Promise<Uint8Array | undefined> {
    const before = this.#atWork
    let end = (): void => undefined
    this.#atWork = new Promise((resolve) => (end = resolve))
    try {
      await before
      const { value, done } = slices.next()
      await pause()
      return done ? undefined : value
    } finally {
      end()
    }
  }

  /** Every slice is the work of one turn; those of the collectors are empty. */
  *#slices(): Generator<Uint8Array, undefined> {
    let endsAt = this.#now() + turnMs
    for (const collector of this.#collectors) {
      for (const _ of collector() ?? []) {
        if (this.#now() < endsAt) continue
        yield nothing
        endsAt = this.#now() + turnMs
      }
    }
    const slice = new Slice(sliceBytes)
    let lookAt = linesPerLook
    for (const family of this.families()) {
      if (family.size === 0) continue
      slice.addText(`# HELP ${family.name} ${escapeHelp(family.help)}`).end()
      slice.addText(`# TYPE ${family.name} ${family.type}`).end()
      for (const next = writerOf(family, slice); next(); ) {
        if (slice.lines < lookAt) continue
        lookAt = slice.lines + linesPerLook
        if (slice.length < sliceBytes - roomBytes && this.#now() < endsAt) continue
        yield slice.take()
        lookAt = linesPerLook
        endsAt = this.#now() + turnMs
      }
    }
    if (slice.length > 0) yield slice.take()
  }
}

/** Media type of the exposition. */
export const expositionType = 'text/plain; version=0.0.4; charset=utf-8'

/** Writes the next series of a family with each call; false when there is none. */
function writerOf(family: AnyFamily, slice: Slice): () => boolean {
  if (family instanceof HistogramFamily) return histogramWriter(family, slice)
  return family instanceof StateFamily ? stateWriter(family, slice) : valueWriter(family, slice)
}

function valueWriter(family: CounterFamily | GaugeFamily, slice: Slice): () => boolean {
  const next = family.walk()
  const name = Buffer.from(family.name)
  return () => {
    const series = next()
    if (series) slice.addBytes(name).addText(series.labels).addValue(series.value)
    return series !== undefined
  }
}

function stateWriter(family: StateFamily, slice: Slice): () => boolean {
  const next = family.walk()
  const name = Buffer.from(family.name)
  const { states, written } = family
  return () => {
    const series = next()
    if (series === undefined) return false
    const place = family.placeIn(series.labels)
    const before = series.labels.slice(0, place)
    const after = series.labels.slice(place)
    for (let at = 0; at < states.length; at++)
      slice
        .addBytes(name)
        .addText(before)
        .addBytes(written[at]!)
        .addText(after)
        .addValue(states[at] === series.state ? 1 : 0)
    return true
  }
}

function histogramWriter(family: HistogramFamily, slice: Slice): () => boolean {
  const bounds = family.bounds.map(decimal)
  const next = family.walk()
  return () => {
    const series = next()
    if (series) writeHistogram(family.name, bounds, series, slice)
    return series !== undefined
  }
}

function writeHistogram(name: string, bounds: readonly string[], series: HistogramSeries, slice: Slice): void {
  const labels = series.labels.slice(1, -2)
  const head = `${name}_bucket{${labels === '' ? '' : `${labels},`}le="`
  const counts = series.cumulative()
  for (let i = 0; i < bounds.length; i++) slice.addText(`${head}${bounds[i]}"} `).addValue(counts[i]!)
  slice.addText(`${head}+Inf"} `).addValue(series.count)
  slice.addText(`${name}_sum${series.labels}`).addValue(series.sum)
  slice.addText(`${name}_count${series.labels}`).addValue(series.count)
}

function escapeHelp(help: string): string {
  return help.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
}
