/** Sleeps 10 ms again and again, and sees how late it wakes: what every request on this loop waits besides. */
import type { RecordableHistogram } from 'node:perf_hooks'
import { createHistogram } from 'node:perf_hooks'
import type { Metrics } from '../../telemetry/index.js'

const sleepMs = 10
/** Later than this is a stall, as upstream counts it. */
const stallMs = 5
/** As labels: 99.9 / 100 is not 0.999. */
const quantiles = [
  [50, '0.5'],
  [99, '0.99'],
  [99.9, '0.999'],
] as const

export class LoopCanary {
  readonly #metrics: Metrics
  readonly #timer: NodeJS.Timeout
  readonly #sinceScrape: RecordableHistogram = createHistogram()

  constructor(metrics: Metrics) {
    this.#metrics = metrics
    const delays = metrics.eventLoopDelay.with()
    const stalls = metrics.eventLoopStall.with()
    let wokeAt = performance.now()
    this.#timer = setInterval(() => {
      const now = performance.now()
      const lateMs = Math.max(0, now - wokeAt - sleepMs)
      wokeAt = now
      delays.observe(lateMs / 1000)
      if (lateMs > stallMs) stalls.inc()
      this.#sinceScrape.record(Math.max(1, Math.round(lateMs * 1e6)))
    }, sleepMs).unref()
  }

  /** Sets the quantiles since the last call. */
  collect(): void {
    if (this.#sinceScrape.count === 0) return
    for (const [percent, quantile] of quantiles)
      this.#metrics.loopDelay.set({ quantile }, this.#sinceScrape.percentile(percent) / 1e9)
    this.#sinceScrape.reset()
  }

  close(): void {
    clearInterval(this.#timer)
  }
}
