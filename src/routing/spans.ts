/** The five steps of a routing as spans, by the names of lib/llm/src/kv_router.rs at v1.2.0. Free of cost without a tracing SDK. */
import type { Tracer } from '@opentelemetry/api'
import { SpanStatusCode, trace } from '@opentelemetry/api'

export type SpanName =
  | 'kv_router.compute_block_hashes'
  | 'kv_router.compute_seq_hashes'
  | 'kv_router.find_matches'
  | 'kv_router.shared_cache_check'
  | 'kv_router.schedule'

export function routerTracer(): Tracer {
  return trace.getTracer('warmroute')
}

/** The span ends with the work, also when it fails. */
export function inSpan<T>(tracer: Tracer, name: SpanName, work: () => T): T {
  const span = tracer.startSpan(name)
  try {
    return work()
  } catch (error) {
    span.setStatus({ code: SpanStatusCode.ERROR, message: String(error) })
    throw error
  } finally {
    span.end()
  }
}

export async function inSpanAsync<T>(tracer: Tracer, name: SpanName, work: () => Promise<T>): Promise<T> {
  const span = tracer.startSpan(name)
  try {
    return await work()
  } catch (error) {
    span.setStatus({ code: SpanStatusCode.ERROR, message: String(error) })
    throw error
  } finally {
    span.end()
  }
}
