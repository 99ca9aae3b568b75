/** What vLLM says of its load in a reply's header, when the client asks for it (ORCA). Whole replies only. */
import type { Exchange } from './exchange.js'
import { header } from './exchange.js'

export function orcaHeader(exchange: Exchange, rank: number): Record<string, string> {
  const format = header(exchange, 'endpoint-load-metrics-format')?.toUpperCase()
  if (format !== 'TEXT' && format !== 'JSON') return {}
  const { scheduler } = exchange.server.ranks[rank]!.engine
  const waiting = pythonFloat(scheduler.waitingCount)
  const used = pythonFloat(scheduler.pool.activeCount / scheduler.pool.blocks)
  const value =
    format === 'TEXT'
      ? `TEXT named_metrics.num_requests_waiting=${waiting}, named_metrics.kv_cache_usage_perc=${used}`
      : `JSON {"named_metrics": {"num_requests_waiting": ${waiting}, "kv_cache_usage_perc": ${used}}}`
  return { 'endpoint-load-metrics': value }
}

function pythonFloat(value: number): string {
  return Number.isInteger(value) ? value.toFixed(1) : String(value)
}
