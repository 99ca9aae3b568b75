/** Traces go through OpenTelemetry's API alone: whoever runs the process brings the SDK, or none. */
import type { Tracer } from '@opentelemetry/api'
import { ProxyTracerProvider, trace } from '@opentelemetry/api'

/**
 * The tracer of the SDK that this process has by now. Undefined where it has none: then no request pays for spans that nobody
 * keeps, and a client's own context is passed on as it came.
 */
export function installedTracer(): Tracer | undefined {
  const provider = trace.getTracerProvider()
  return provider instanceof ProxyTracerProvider
    ? provider.getDelegateTracer('warmroute')
    : provider.getTracer('warmroute')
}
