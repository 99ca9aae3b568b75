/**
 * How busy an engine says it is, per rank. A correction to our own count of what is running, not a replacement for it: the
 * figures are as old as the engine's last step and cost it a page of text to render.
 */
import { asCount, asList, asRecord, parseRecord } from './json.js'
import { pickSamples } from './metrics-text.js'

export interface RankLoad {
  readonly dpRank: number
  readonly runningRequests: number
  readonly waitingRequests: number
  /** Share of the cache that running requests pin, 0 to 1; absent where the engine does not say. */
  readonly kvUsage: number | undefined
  readonly usedTokens: number | undefined
  readonly capacityTokens: number | undefined
}

type LoadField = Exclude<keyof RankLoad, 'dpRank'>

const vllmFields: Readonly<Record<string, LoadField>> = {
  'vllm:num_requests_running': 'runningRequests',
  'vllm:num_requests_waiting': 'waitingRequests',
  'vllm:kv_cache_usage_perc': 'kvUsage',
  'vllm:gpu_cache_usage_perc': 'kvUsage', // to v0.11
}

const sglangFields: Readonly<Record<string, LoadField>> = {
  'sglang:num_running_reqs': 'runningRequests',
  'sglang:num_queue_reqs': 'waitingRequests',
  'sglang:token_usage': 'kvUsage',
  'sglang:num_used_tokens': 'usedTokens',
  'sglang:max_total_num_tokens': 'capacityTokens',
}

/** From `/metrics` of vLLM; the label `engine` is the rank. Empty: the text has no such family. */
export function readVllmLoad(text: string): RankLoad[] {
  return readMetrics(text, vllmFields, 'engine')
}

/** From `/metrics` of SGLang, which exists only with `--enable-metrics`. */
export function readSglangLoad(text: string): RankLoad[] {
  return readMetrics(text, sglangFields, 'dp_rank')
}

/** From `GET /v1/loads?include=core` of SGLang (v0.5.8 on): cheap enough to ask several times a second. */
export function readSglangLoads(text: string): RankLoad[] {
  return asList(parseRecord(text)?.['loads']).flatMap((value) => {
    const load = asRecord(value)
    const dpRank = asCount(load?.['dp_rank'])
    if (!load || dpRank === undefined) return []
    return [
      {
        dpRank,
        runningRequests: asCount(load['num_running_reqs']) ?? 0,
        waitingRequests: asCount(load['num_waiting_reqs']) ?? 0,
        kvUsage: asCount(load['token_usage']),
        usedTokens: asCount(load['num_used_tokens']),
        capacityTokens: asCount(load['max_total_num_tokens']),
      },
    ]
  })
}

/**
 * From the response header `endpoint-load-metrics` of vLLM, in either format: `TEXT named_metrics.a=0.4, ...` or
 * `JSON {"named_metrics":{...}}`. Only non-streaming replies carry it.
 */
export function readOrcaHeader(header: string): Readonly<Record<string, number>> {
  const space = header.indexOf(' ')
  const format = header.slice(0, space)
  const rest = header.slice(space + 1)
  const metrics: Record<string, number> = {}
  if (format === 'JSON') {
    const named = asRecord(parseRecord(rest)?.['named_metrics']) ?? {}
    for (const [name, value] of Object.entries(named)) if (typeof value === 'number') metrics[name] = value
  } else if (format === 'TEXT') {
    for (const pair of rest.split(',')) {
      const match = /^\s*named_metrics\.(\w+)=(\S+)\s*$/.exec(pair)
      if (match && Number.isFinite(Number(match[2]))) metrics[match[1]!] = Number(match[2])
    }
  }
  return metrics
}

function readMetrics(text: string, fields: Readonly<Record<string, LoadField>>, rankLabel: string): RankLoad[] {
  const ranks = new Map<number, Record<LoadField, number | undefined>>()
  for (const { name, labels, value } of pickSamples(text, Object.keys(fields))) {
    const field = fields[name] // a prefix may have matched a longer family
    const dpRank = Number(labels[rankLabel] ?? 0)
    if (!field || !Number.isInteger(dpRank) || dpRank < 0 || !Number.isFinite(value)) continue
    let load = ranks.get(dpRank)
    if (!load) ranks.set(dpRank, (load = emptyLoad()))
    load[field] = value
  }
  return [...ranks]
    .sort(([a], [b]) => a - b)
    .map(([dpRank, load]) => ({
      ...load,
      dpRank,
      runningRequests: load.runningRequests ?? 0,
      waitingRequests: load.waitingRequests ?? 0,
    }))
}

function emptyLoad(): Record<LoadField, number | undefined> {
  return {
    runningRequests: undefined,
    waitingRequests: undefined,
    kvUsage: undefined,
    usedTokens: undefined,
    capacityTokens: undefined,
  }
}
