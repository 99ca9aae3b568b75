/** Waits at start until enough workers are known. */
import type { WorkerConfig } from '../core/protocol/index.js'
import { WarmrouteError } from '../core/protocol/index.js'
import type { Watched } from './worker-monitor.js'

export type RuntimeConfigWatch = Watched<ReadonlyMap<bigint, WorkerConfig>>

/** Rejects with `WR_BOOT_FAILED` when the watch closes first, and with `WR_ROUTER_CLOSED` when the signal fires first. */
export function waitForWorkers(watch: RuntimeConfigWatch, count: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    let stop = (): void => {}
    const end = (settle: () => void) => (): void => {
      stop()
      signal.removeEventListener('abort', onAbort)
      settle()
    }
    const onAbort = end(() => reject(new WarmrouteError('WR_ROUTER_CLOSED')))
    const onClosed = end(() =>
      reject(
        new WarmrouteError('WR_BOOT_FAILED', {
          reason: `runtime config watch closed before ${count} workers appeared`,
          known: watch.current().size,
        }),
      ),
    )
    const done = end(resolve)
    if (signal.aborted) return onAbort()
    if (watch.current().size >= count) return done()
    signal.addEventListener('abort', onAbort)
    stop = watch.watch(() => {
      if (watch.current().size >= count) done()
    }, onClosed)
  })
}
