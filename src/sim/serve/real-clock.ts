/** The clock of simulated servers: Node's timers, in milliseconds since the clock was made. */
import type { Clock } from '../clock.js'

/** Below this a timer would only round up: the loop is turned once instead, so that fast engines stay fast. */
const timerMsMin = 0.5

export class RealClock implements Clock {
  readonly #startedMs = performance.now()
  readonly #timers = new Set<NodeJS.Timeout>()
  #isClosed = false

  now(): number {
    return performance.now() - this.#startedMs
  }

  at(timeMs: number, run: () => void): void {
    if (this.#isClosed) return
    const waitMs = timeMs - this.now()
    if (waitMs < timerMsMin) {
      setImmediate(() => {
        if (!this.#isClosed) run()
      })
      return
    }
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      run()
    }, waitMs)
    this.#timers.add(timer)
  }

  /** Nothing that was planned happens any more. */
  close(): void {
    this.#isClosed = true
    for (const timer of this.#timers) clearTimeout(timer)
    this.#timers.clear()
  }
}
