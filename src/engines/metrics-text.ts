/**
 * Picks samples of a few families out of a Prometheus text. Such a text has 50 to 200 kB and a thousand families: lines of
 * others are passed over by their first characters.
 */
export interface MetricSample {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

/** Samples whose name starts with one of the prefixes, in order. At most `samplesMax`. */
export function pickSamples(text: string, prefixes: readonly string[], samplesMax = 10_000): MetricSample[] {
  const samples: MetricSample[] = []
  let start = 0
  while (start < text.length && samples.length < samplesMax) {
    let end = text.indexOf('\n', start)
    if (end < 0) end = text.length
    if (text[start] !== '#' && prefixes.some((prefix) => text.startsWith(prefix, start))) {
      const sample = readSample(text.slice(start, end))
      if (sample) samples.push(sample)
    }
    start = end + 1
  }
  return samples
}

const linePattern = /^([\w:]+)(?:\{(.*)\})?\s+(\S+)/
const labelPattern = /(\w+)="((?:[^"\\]|\\.)*)"/g

function readSample(line: string): MetricSample | undefined {
  const match = linePattern.exec(line)
  if (!match) return undefined
  const value = readValue(match[3]!)
  if (Number.isNaN(value)) return undefined
  const labels: Record<string, string> = {}
  for (const [, name, text] of (match[2] ?? '').matchAll(labelPattern)) labels[name!] = unescape(text!)
  return { name: match[1]!, labels, value }
}

function readValue(text: string): number {
  if (text === '+Inf') return Number.POSITIVE_INFINITY
  if (text === '-Inf') return Number.NEGATIVE_INFINITY
  return Number(text)
}

function unescape(text: string): string {
  return text.replaceAll(/\\(.)/g, (_, escaped: string) => (escaped === 'n' ? '\n' : escaped))
}
