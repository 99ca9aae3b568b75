/** Holds the families of one process and writes them as text, a slice at a time, so that a scrape never blocks the loop. */
import type { Counter, CounterFamily, Family, Gauge, GaugeFamily } from './families.js'
import { HistogramFamily } from './families.js'

type AnyFamily = CounterFamily | GaugeFamily | HistogramFamily

/** Lines written before the loop gets a turn: about a millisecond of work. */
const linesPerSlice = 2_000

/** One that has much to do yields between its steps, and the loop gets a turn there. */
export type Collector = () => void | Iterable<void>

export class Registry {
  readonly #families = new Map<string, AnyFamily>()
  readonly #collectors = new Set<Collector>()

  /** The same name twice is a mistake of ours, not of an operator: it throws. */
  register<F extends AnyFamily>(family: F): F {
    if (this.#families.has(family.name)) throw new TypeError(`metric ${family.name} is registered already`)
    this.#families.set(family.name, family)
    return family
  }

  /** Called before every scrape: the place to set gauges from numbers that live elsewhere. Returns its own removal. */
  onCollect(collector: Collector): () => void {
    this.#collectors.add(collector)
    return () => this.#collectors.delete(collector)
  }

  families(): readonly AnyFamily[] {
    return [...this.#families.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  /** Series that were refused because their family was full. */
  get droppedSeries(): number {
    return this.families().reduce((sum, family) => sum + family.dropped, 0)
  }

  /** The exposition, at once. For tests and small registries. */
  text(): string {
    return [...this.#slices()].join('')
  }

  /** The exposition in slices; `pause` is awaited between them, for instance `setImmediate` from `node:timers/promises`. */
  async *stream(pause: () => Promise<void>): AsyncGenerator<string> {
    for (const slice of this.#slices()) {
      if (slice !== '') yield slice
      await pause()
    }
  }

  *#slices(): Generator<string> {
    for (const collector of this.#collectors) for (const _ of collector() ?? []) yield ''
    let lines: string[] = []
    for (const family of this.families()) {
      if (family.size === 0) continue
      lines.push(`# HELP ${family.name} ${escapeHelp(family.help)}`, `# TYPE ${family.name} ${family.type}`)
      for (const line of linesOf(family)) {
        lines.push(line)
        if (lines.length < linesPerSlice) continue
        yield `${lines.join('\n')}\n`
        lines = []
      }
    }
    if (lines.length > 0) yield `${lines.join('\n')}\n`
  }
}

/** Media type of the exposition. */
export const expositionType = 'text/plain; version=0.0.4; charset=utf-8'

function* linesOf(family: AnyFamily): Generator<string> {
  if (family instanceof HistogramFamily) yield* histogramLines(family)
  else yield* valueLines(family)
}

function* valueLines(family: Family<Counter> | Family<Gauge>): Generator<string> {
  for (const [labels, series] of family.entries()) yield `${family.name}${braced(labels)} ${decimal(series.value)}`
}

function* histogramLines(family: HistogramFamily): Generator<string> {
  const bounds = family.bounds.map(decimal)
  for (const [labels, series] of family.entries()) {
    const before = labels === '' ? '' : `${labels},`
    const counts = series.cumulative()
    for (let i = 0; i < bounds.length; i++) yield `${family.name}_bucket{${before}le="${bounds[i]}"} ${counts[i]}`
    yield `${family.name}_bucket{${before}le="+Inf"} ${series.count}`
    yield `${family.name}_sum${braced(labels)} ${decimal(series.sum)}`
    yield `${family.name}_count${braced(labels)} ${series.count}`
  }
}

function braced(labels: string): string {
  return labels === '' ? '' : `{${labels}}`
}

/** Shortest decimal that reads back as the same number, never in exponent form: `0.00001`, not `1e-5`. */
function decimal(value: number): string {
  if (Number.isSafeInteger(value)) return String(value) // most are, and none of them has an exponent
  if (value === Number.POSITIVE_INFINITY) return '+Inf'
  if (value === Number.NEGATIVE_INFINITY) return '-Inf'
  const text = String(value)
  const [digits, exponent] = text.split('e')
  if (exponent === undefined) return text
  const [whole, fraction = ''] = digits!.replace('-', '').split('.')
  const point = whole!.length + Number(exponent)
  const all = whole! + fraction
  const sign = value < 0 ? '-' : ''
  if (point <= 0) return `${sign}0.${'0'.repeat(-point)}${all}`
  return `${sign}${all.padEnd(point, '0')}`
}

function escapeHelp(help: string): string {
  return help.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
}
