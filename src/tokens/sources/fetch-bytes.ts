/** One HTTP exchange with a deadline and a limit on the answer. */
import { WarmrouteError } from '../../core/protocol/index.js'

export interface FetchOptions {
  readonly bytesMax: number
  readonly deadlineMs: number
  readonly signal?: AbortSignal | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** JSON to post; none makes it a GET. */
  readonly post?: string | Uint8Array<ArrayBuffer> | undefined
}

export interface Fetched {
  readonly status: number
  readonly bytes: Uint8Array
  readonly headers: Headers
}

export async function fetchBytes(url: string, options: FetchOptions): Promise<Fetched> {
  options.signal?.throwIfAborted()
  const stop = new AbortController()
  const onAbort = (): void => stop.abort(options.signal?.reason)
  const timer = setTimeout(
    () => stop.abort(failed(url, `no answer within ${options.deadlineMs} ms`)),
    options.deadlineMs,
  )
  options.signal?.addEventListener('abort', onAbort, { once: true })
  try {
    const response = await fetch(url, {
      signal: stop.signal,
      ...(options.post === undefined ? {} : { method: 'POST', body: options.post }),
      headers: { ...(options.post === undefined ? {} : { 'content-type': 'application/json' }), ...options.headers },
    })
    const { status, headers } = response
    return { status, headers, bytes: await readAtMost(response, options.bytesMax, url) }
  } catch (cause) {
    if (stop.signal.aborted) throw stop.signal.reason
    if (cause instanceof WarmrouteError) throw cause
    throw failed(url, messageOf(cause), cause)
  } finally {
    clearTimeout(timer)
    options.signal?.removeEventListener('abort', onAbort)
  }
}

async function readAtMost(response: Response, bytesMax: number, url: string): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    length += chunk.length
    if (length > bytesMax) throw failed(url, `the answer is longer than ${bytesMax} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/** `fetch failed` says nothing; what is behind it does. */
function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { message, cause } = error
  const behind = cause instanceof Error ? cause.message || (cause as NodeJS.ErrnoException).code : undefined
  return behind ? `${message}: ${behind}` : message
}

function failed(url: string, reason: string, cause?: unknown): WarmrouteError {
  return new WarmrouteError('WR_TOKENS_SOURCE_FAILED', { reason, url }, cause === undefined ? undefined : { cause })
}
