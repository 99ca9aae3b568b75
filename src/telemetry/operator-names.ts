/**
 * What an operator may change of metrics by upstream's names: the prefix of the front door's families, and the bounds of
 * their histograms (spec of lib/llm/src/http/service/metrics.rs at v1.2.0).
 */
import { logBuckets } from './buckets.js'
import type { MetricKey } from './catalogue.js'
import { bucketRanges } from './catalogue.js'

export const frontendPrefix = 'dynamo_frontend'

/** The name of a family under another prefix. What the router and its load monitor show keeps its own. */
export function withPrefix(name: string, prefix: string): string {
  const isOurs = name.startsWith(`${frontendPrefix}_`) && !fixedNames.test(name)
  return isOurs ? `${sanitised(prefix)}${name.slice(frontendPrefix.length)}` : name
}

const fixedNames = new RegExp(`^${frontendPrefix}_(worker|router_queue)_`)

/** A prefix that Prometheus takes; the usual one where nothing of it can be used. */
function sanitised(prefix: string): string {
  const name = prefix.replaceAll(/[^a-zA-Z0-9_:]/g, '_').replace(/^(?![a-zA-Z_:])/, '_')
  return /^_*$/.test(name) ? frontendPrefix : name
}

/** Bounds of histograms that differ from the usual ones. */
export type MetricBuckets = Partial<Readonly<Record<MetricKey, readonly number[]>>>

/** Which ranges the environment names, and whose bounds they are. */
const named = {
  REQUEST_DURATION: { range: bucketRanges.duration, keys: ['requestDuration'] },
  INPUT_SEQUENCE: { range: bucketRanges.inputTokens, keys: ['inputSequenceTokens', 'cachedTokens'] },
  OUTPUT_SEQUENCE: { range: bucketRanges.outputTokens, keys: ['outputSequenceTokens'] },
  TTFT: { range: bucketRanges.firstToken, keys: ['timeToFirstToken'] },
  ITL: { range: bucketRanges.tokenGap, keys: ['interTokenLatency'] },
} as const satisfies Record<
  string,
  { range: (typeof bucketRanges)[keyof typeof bucketRanges]; keys: readonly MetricKey[] }
>

const boundsMax = 512

/**
 * `DYN_METRICS_TTFT_MIN`, `_MAX` and `_COUNT`, and so on; `DYN_HISTOGRAM_` may stand before each, as upstream's code has it
 * and its documents do not. What cannot be read is as if it were not set; three values that make no range count for nothing.
 */
export function bucketsFromEnv(env: Readonly<Record<string, string | undefined>>): MetricBuckets {
  const buckets: Partial<Record<MetricKey, readonly number[]>> = {}
  for (const [name, { range, keys }] of Object.entries(named)) {
    const read = (part: string, usual: number): number => {
      const text = env[`DYN_HISTOGRAM_DYN_METRICS_${name}_${part}`] ?? env[`DYN_METRICS_${name}_${part}`] ?? ''
      const value = text.trim() === '' ? Number.NaN : Number(text)
      return Number.isNaN(value) ? usual : value
    }
    const [min, max, count] = [read('MIN', range[0]), read('MAX', range[1]), read('COUNT', range[2])]
    const isRange = min > 0 && min < max && Number.isFinite(max)
    const isCount = Number.isInteger(count) && count >= 1 && count <= boundsMax
    if (!isRange || !isCount || (min === range[0] && max === range[1] && count === range[2])) continue
    for (const key of keys) buckets[key] = logBuckets(min, max, count)
  }
  return buckets
}
