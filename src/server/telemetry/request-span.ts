/** One span per request, and one for a prefill elsewhere: what came, where it went, how it ended. Never a prompt or a key. */
import type { Attributes, Context, Span, Tracer } from '@opentelemetry/api'
import { context as contexts, propagation, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import type { IncomingHttpHeaders } from 'node:http'
import { entriesOf, unkept } from '../../core/protocol/index.js'
import type { RouteAnswer } from '../../routing/index.js'
import type { HowKnown } from '../request/prompt.js'

/** The half of a request that another worker does, below the request's own span. */
export class LegSpan {
  readonly #span: Span
  readonly #context: Context

  constructor(tracer: Tracer, parent: Context, name: string, attributes: Attributes) {
    this.#span = tracer.startSpan(name, { kind: SpanKind.CLIENT, attributes }, parent)
    this.#context = trace.setSpan(parent, this.#span)
  }

  headersFor(headers: IncomingHttpHeaders): IncomingHttpHeaders {
    return inContext(this.#context, headers)
  }

  /** `error`: why there is no answer. */
  end(status: number | undefined, error?: string): void {
    if (status !== undefined) this.#span.setAttribute('http.response.status_code', status)
    if (error !== undefined || (status ?? 0) >= 400)
      this.#span.setStatus({ code: SpanStatusCode.ERROR, ...(error === undefined ? {} : { message: error }) })
    this.#span.end()
  }
}

export class RequestSpan {
  readonly #span: Span
  readonly #context: Context
  readonly #tracer: Tracer

  constructor(tracer: Tracer, headers: IncomingHttpHeaders, endpoint: string, requestId: string) {
    const parent = propagation.extract(ROOT_CONTEXT, headers)
    const attributes = { 'warmroute.endpoint': endpoint, 'warmroute.request_id': requestId }
    this.#span = tracer.startSpan('warmroute.request', { kind: SpanKind.SERVER, attributes }, parent)
    this.#context = trace.setSpan(parent, this.#span)
    this.#tracer = tracer
  }

  leg(name: string, attributes: Attributes): LegSpan {
    return new LegSpan(this.#tracer, this.#context, name, attributes)
  }

  /** Spans that the work makes hang below this one, where the SDK follows contexts. */
  around<T>(work: () => T): T {
    return contexts.with(this.#context, work)
  }

  /** Our context in place of the client's, so that the engine's spans hang below ours. */
  headersFor(headers: IncomingHttpHeaders): IncomingHttpHeaders {
    return inContext(this.#context, headers)
  }

  routed(model: string, answer: RouteAnswer, isRankUnknown: boolean, howKnown: HowKnown | undefined): void {
    this.#span.setAttributes({
      'warmroute.model': model,
      'warmroute.worker_id': String(answer.workerId),
      ...(isRankUnknown ? {} : { 'warmroute.dp_rank': answer.dpRank, 'warmroute.cached_tokens': answer.cachedTokens }),
      'warmroute.waited_ms': answer.waitedMs,
      ...attributesOf(howKnown),
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

function attributesOf(howKnown: HowKnown | undefined): Attributes {
  if (!howKnown) return {}
  if ('loadOnly' in howKnown) return { 'warmroute.load_only': howKnown.loadOnly }
  return { 'warmroute.tokens_source': howKnown.source, 'warmroute.tokens_exactness': howKnown.exactness }
}

function inContext(context: Context, headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const carrier: Record<string, string> = {}
  propagation.inject(context, carrier)
  return unkept(new Map([...entriesOf(headers), ...entriesOf<string | string[] | undefined>(carrier)]))
}
