/** The five steps of a routing as spans, by the names of lib/llm/src/kv_router.rs at v1.2.0. Free of cost without a tracing SDK. */
import type { Span, Tracer } from '@opentelemetry/api'
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

/** The span ends with the work, also when it fails; where the work answers with a promise, when that settles. */
export function inSpan<T>(tracer: Tracer, name: SpanName, work: () => T): T {
  const span = tracer.startSpan(name)
  let result: T
  try {
    result = work()
  } catch (error) {
    endFailed(span, error)
    throw error
  }
  if (result instanceof Promise) return endLater(span, result) as T
  span.end()
  return result
}

async function endLater<T>(span: Span, work: Promise<T>): Promise<T> {
  try {
    const value = await work
    span.end()
    return value
  } catch (error) {
    endFailed(span, error)
    throw error
  }
}

function endFailed(span: Span, error: unknown): void {
  span.setStatus({ code: SpanStatusCode.ERROR, message: String(error) })
  span.end()
}
