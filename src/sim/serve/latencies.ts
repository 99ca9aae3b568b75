/** The three histograms that both engines export, with their bucket bounds in seconds. */

const ttftBounds = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
]
const itlBounds = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80]
const e2eBounds = [0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680]

export class SecondsHistogram {
  readonly bounds: readonly number[]
  readonly counts: number[]
  count = 0
  sum = 0

  constructor(bounds: readonly number[]) {
    this.bounds = bounds
    this.counts = bounds.map(() => 0)
  }

  observe(seconds: number): void {
    this.count++
    this.sum += seconds
    const at = this.bounds.findIndex((bound) => seconds <= bound)
    if (at >= 0) this.counts[at]!++
  }
}

export class Latencies {
  ttft = new SecondsHistogram(ttftBounds)
  itl = new SecondsHistogram(itlBounds)
  e2e = new SecondsHistogram(e2eBounds)

  clear(): void {
    this.ttft = new SecondsHistogram(ttftBounds)
    this.itl = new SecondsHistogram(itlBounds)
    this.e2e = new SecondsHistogram(e2eBounds)
  }
}
