/** A wait that ends: with the answer, with its deadline, or with the signal. The work is told to stop in the last two cases. */
import { WarmrouteError } from '../core/protocol/index.js'
import type { RouterClock } from './router-ports.js'

export function withDeadline<T>(
  clock: RouterClock,
  ms: number,
  signal: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const own = new AbortController()
  return new Promise<T>((resolve, reject) => {
    const stop = clock.once(ms, () =>
      fail(new WarmrouteError('WR_TIMEOUT', { reason: `no answer within ${ms} ms`, ms })),
    )
    const onAbort = (): void => fail(new WarmrouteError('WR_REQUEST_CANCELLED'))
    const end = (): void => {
      stop()
      signal?.removeEventListener('abort', onAbort)
    }
    function fail(error: WarmrouteError): void {
      end()
      own.abort(error)
      reject(error)
    }
    if (signal?.aborted) return onAbort()
    signal?.addEventListener('abort', onAbort)
    work(own.signal).then(
      (value) => {
        end()
        resolve(value)
      },
      (error: unknown) => {
        end()
        reject(error as Error)
      },
    )
  })
}
