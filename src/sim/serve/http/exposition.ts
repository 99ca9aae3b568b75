/** The Prometheus text format, as little of it as an engine's `/metrics` needs. */
import type { SecondsHistogram } from '../latencies.js'

export type Labels = Readonly<Record<string, string | number>>

export class Exposition {
  readonly #lines: string[] = []

  family(name: string, type: 'gauge' | 'counter' | 'histogram', help: string): this {
    this.#lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`)
    return this
  }

  sample(name: string, labels: Labels, value: number): this {
    this.#lines.push(`${name}${labelText(labels)} ${floatText(value)}`)
    return this
  }

  histogram(name: string, labels: Labels, values: SecondsHistogram): this {
    let below = 0
    values.bounds.forEach((bound, index) => {
      below += values.counts[index]!
      this.sample(`${name}_bucket`, { ...labels, le: floatText(bound) }, below)
    })
    this.sample(`${name}_bucket`, { ...labels, le: '+Inf' }, values.count)
    this.sample(`${name}_count`, labels, values.count)
    return this.sample(`${name}_sum`, labels, values.sum)
  }

  toString(): string {
    return `${this.#lines.join('\n')}\n`
  }
}

function labelText(labels: Labels): string {
  const pairs = Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1))
  if (pairs.length === 0) return ''
  return `{${pairs.map(([name, value]) => `${name}="${String(value).replaceAll(/["\\]/g, '\\$&')}"`).join(',')}}`
}

/** Python's way of writing floats: 1.0, 0.25, 1.7e+09. */
function floatText(value: number): string {
  return Number.isInteger(value) && Math.abs(value) < 1e16 ? value.toFixed(1) : String(value)
}
