/**
 * Where the time of a request goes between its first byte and its worker's, by the stages of upstream's pipeline
 * (spec/serving.md 4.2): `preprocess` finds the prompt's tokens, `route` chooses a worker, `dispatch` waits for the first
 * item of its answer. A head is none: engines send it before they compute. Engines postprocess, so that stage has no
 * series. Phases are `aggregated`: one worker does both halves.
 */
import type { Gauge, Histogram, Metrics } from '../../telemetry/index.js'

export class StageMeters {
  readonly preprocess: Stage
  readonly route: Stage
  readonly #dispatching: Gauge
  readonly #roundtrip: Histogram
  readonly #sending: Gauge
  readonly #untilSend: Histogram
  readonly #send: Histogram
  readonly #untilFirstItem: Histogram

  constructor(metrics: Metrics) {
    this.preprocess = new Stage(metrics, 'preprocess', '')
    this.route = new Stage(metrics, 'route', 'aggregated')
    this.#dispatching = metrics.stageRequests.with({ stage: 'dispatch', phase: 'aggregated' })
    this.#roundtrip = metrics.stageDuration.with({ stage: 'transport_roundtrip' })
    this.#sending = metrics.requestPlaneInflight.with()
    this.#untilSend = metrics.requestPlaneQueue.with()
    this.#send = metrics.requestPlaneSend.with()
    this.#untilFirstItem = metrics.requestPlaneRoundtrip.with()
  }

  /** One try at one worker; `routedAtMs` is when the worker was known. */
  dispatch(routedAtMs: number, now: () => number): DispatchMeter {
    return new DispatchMeter(this, routedAtMs, now)
  }

  entered(waitedMs: number): void {
    this.#dispatching.add(1)
    this.#sending.add(1)
    this.#untilSend.observe(waitedMs / 1000)
  }

  sent(tookMs: number): void {
    this.#send.observe(tookMs / 1000)
  }

  answered(tookMs: number): void {
    this.#dispatching.add(-1)
    this.#untilFirstItem.observe(tookMs / 1000)
    this.#roundtrip.observe(tookMs / 1000)
  }

  left(hasAnswered: boolean): void {
    if (!hasAnswered) this.#dispatching.add(-1)
    this.#sending.add(-1)
  }
}

/** One stage: who is in it, and how long each stayed. */
export class Stage {
  readonly #inside: Gauge
  readonly #took: Histogram

  constructor(metrics: Metrics, stage: string, phase: string) {
    this.#inside = metrics.stageRequests.with({ stage, phase })
    this.#took = metrics.stageDuration.with({ stage })
  }

  enter(): void {
    this.#inside.add(1)
  }

  leave(tookMs: number): void {
    this.#inside.add(-1)
    this.#took.observe(tookMs / 1000)
  }
}

/** From the call to the worker until it is over; every step counts once. */
export class DispatchMeter {
  readonly #stages: StageMeters
  readonly #now: () => number
  readonly #enteredAtMs: number
  #sentAtMs: number | undefined
  #hasAnswered = false

  constructor(stages: StageMeters, routedAtMs: number, now: () => number) {
    this.#stages = stages
    this.#now = now
    this.#enteredAtMs = now()
    stages.entered(this.#enteredAtMs - routedAtMs)
  }

  /** The bytes went to a connected socket. A dead connection may be replaced, and then they go again. */
  sent(): void {
    const first = this.#sentAtMs === undefined
    this.#sentAtMs = this.#now()
    if (first) this.#stages.sent(this.#sentAtMs - this.#enteredAtMs)
  }

  firstItem(atMs: number): void {
    if (this.#hasAnswered) return
    this.#hasAnswered = true
    this.#stages.answered(atMs - (this.#sentAtMs ?? this.#enteredAtMs))
  }

  end(): void {
    this.#stages.left(this.#hasAnswered)
  }
}
