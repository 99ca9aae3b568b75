/** A wait that ends: with the answer, with its deadline, or with a signal. The work is told to stop in the last two cases. */
import type { ErrorCode } from '../core/protocol/index.js'
import { WarmrouteError } from '../core/protocol/index.js'
import type { RouterClock } from './router-ports.js'

/** What ends a wait early, and what that is called. */
export interface WaitEnd {
  readonly signal: AbortSignal
  readonly code: ErrorCode
}

export function withDeadline<T>(
  clock: RouterClock,
  ms: number,
  ends: readonly WaitEnd[],
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const own = new AbortController()
  return new Promise<T>((resolve, reject) => {
    const stop = clock.once(ms, () =>
      fail(new WarmrouteError('WR_TIMEOUT', { reason: `no answer within ${ms} ms`, ms })),
    )
    const listeners = ends.map(({ signal, code }) => {
      const onAbort = (): void => fail(new WarmrouteError(code))
      signal.addEventListener('abort', onAbort)
      return () => signal.removeEventListener('abort', onAbort)
    })
    const end = (): void => {
      stop()
      for (const forget of listeners) forget()
    }
    function fail(error: WarmrouteError): void {
      end()
      own.abort(error)
      reject(error)
    }
    const over = ends.find(({ signal }) => signal.aborted)
    if (over) return fail(new WarmrouteError(over.code))
    // A port may throw before it returns a promise; that is a failure like any other.
    new Promise<T>((done) => done(work(own.signal))).then(
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

/** The work's own end, or `WR_ROUTER_CLOSED` as soon as the signal fires; the work then goes on unheard. */
export function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const onAbort = (): void => reject(new WarmrouteError('WR_ROUTER_CLOSED'))
    signal.addEventListener('abort', onAbort)
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
    if (signal.aborted) onAbort()
  })
}
