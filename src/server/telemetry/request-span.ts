/** One span per request: what came, where it went, how it ended. Never a prompt, never a key. */
import type { Context, Span, Tracer } from '@opentelemetry/api'
import { propagation, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import type { IncomingHttpHeaders } from 'node:http'
import type { RouteAnswer } from '../../routing/index.js'

export class RequestSpan {
  readonly #span: Span
  readonly #context: Context

  constructor(tracer: Tracer, headers: IncomingHttpHeaders, endpoint: string, requestId: string) {
    const parent = propagation.extract(ROOT_CONTEXT, headers)
    const attributes = { 'warmroute.endpoint': endpoint, 'warmroute.request_id': requestId }
    this.#span = tracer.startSpan('warmroute.request', { kind: SpanKind.SERVER, attributes }, parent)
    this.#context = trace.setSpan(parent, this.#span)
  }

  /** Our context in place of the client's, so that the engine's spans hang below ours. */
  headersFor(headers: IncomingHttpHeaders): IncomingHttpHeaders {
    const carrier: Record<string, string> = {}
    propagation.inject(this.#context, carrier)
    return { ...headers, ...carrier }
  }

  routed(model: string, answer: RouteAnswer): void {
    this.#span.setAttributes({
      'warmroute.model': model,
      'warmroute.worker_id': String(answer.workerId),
      'warmroute.dp_rank': answer.dpRank,
      'warmroute.cached_tokens': answer.cachedTokens,
      'warmroute.waited_ms': answer.waitedMs,
    })
  }

  firstToken(): void {
    this.#span.addEvent('first_token')
  }

  end(status: number, outputTokens: number): void {
    this.#span.setAttributes({ 'http.response.status_code': status, 'warmroute.output_tokens': outputTokens })
    if (status >= 400) this.#span.setStatus({ code: SpanStatusCode.ERROR })
    this.#span.end()
  }
}
