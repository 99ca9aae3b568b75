/** A small request to an engine whose whole answer is wanted at once: health, metrics, sessions. Never for a client's data. */
import { WarmrouteError } from '../../core/protocol/index.js'
import type { EngineRequest } from './engine-connection.js'
import type { EngineLink } from './engine-link.js'

export interface TextAnswer {
  readonly status: number
  readonly text: string
}

/** Rejects with `WR_ENGINE_TIMEOUT`, `WR_ENGINE_PROTOCOL` (an answer above `bytesMax`) or what the connection reports. */
export function fetchText(
  link: EngineLink,
  request: EngineRequest,
  options: { readonly timeoutMs: number; readonly bytesMax?: number; readonly signal?: AbortSignal },
): Promise<TextAnswer> {
  const { timeoutMs, bytesMax = 4 * 1024 * 1024, signal } = options
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = []
    let status = 0
    let size = 0
    const settle = (act: () => void): void => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', onAbort)
      act()
    }
    const giveUp = (error: WarmrouteError): void => {
      call.abort()
      settle(() => reject(error))
    }
    const onAbort = (): void => giveUp(new WarmrouteError('WR_REQUEST_CANCELLED', {}))
    const timer = setTimeout(
      () => giveUp(new WarmrouteError('WR_ENGINE_TIMEOUT', { reason: `no answer within ${timeoutMs} ms` })),
      timeoutMs,
    )
    const call = link.call(request, {
      onHead: (head) => void (status = head.status),
      onData(buffer, ranges) {
        for (let at = 0; at < ranges.length; at += 2) {
          size += ranges[at + 1]! - ranges[at]!
          parts.push(Buffer.from(buffer.subarray(ranges[at], ranges[at + 1])))
        }
        if (size > bytesMax) giveUp(new WarmrouteError('WR_ENGINE_PROTOCOL', { reason: 'the answer is too large' }))
      },
      onEnd: () => settle(() => resolve({ status, text: Buffer.concat(parts).toString('utf8') })),
      onError: (error) => settle(() => reject(error)),
    })
    if (signal?.aborted) onAbort()
    else signal?.addEventListener('abort', onAbort, { once: true })
  })
}
