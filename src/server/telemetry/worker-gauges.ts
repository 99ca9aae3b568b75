/** Gauges that are read from the gateway's state before each scrape, and end with their worker. */
import type { Gauge, Metrics } from '../../telemetry/index.js'
import { instanceId, LabelText } from '../../telemetry/index.js'
import type { Model } from '../model.js'
import type { ModelHub } from '../model-hub.js'
import type { IndexFigures } from '../options.js'
import { attemptsMax } from '../options.js'
import type { Worker } from '../workers/worker.js'
import { EventGauges } from './event-gauges.js'
import { LoopCanary } from './loop-canary.js'

const labelNames = ['model', 'worker'] as const

/** How often it is looked for workers whose series do not exist yet, and at how many of them. */
const aheadMs = 10
const workersAhead = 4

/** The series of one worker. */
interface Shown {
  readonly id: bigint
  readonly labels: LabelText
  readonly available: Gauge
  readonly inFlight: Gauge
  readonly mode: ReturnType<Metrics['workerMode']['with']>
  readonly events: EventGauges
}

export class WorkerGauges {
  readonly #metrics: Metrics
  readonly #hub: ModelHub
  readonly #canary: LoopCanary
  readonly #startedAt = performance.now()
  readonly #stop: () => void
  readonly #ahead: NodeJS.Timeout
  /** By model and by label: whoever takes the place of a worker takes over its series. */
  readonly #shown = new Map<string, Map<string, Shown>>()
  #isCollecting = false

  constructor(metrics: Metrics, hub: ModelHub) {
    this.#metrics = metrics
    this.#hub = hub
    this.#canary = new LoopCanary(metrics)
    this.#stop = metrics.registry.onCollect(() => this.#collect())
    const steps = this.#lookAhead()
    this.#ahead = setInterval(() => {
      for (let at = 0; at < workersAhead; at++) steps.next()
    }, aheadMs).unref()
  }

  close(): void {
    this.#canary.close()
    clearInterval(this.#ahead)
    this.#stop()
  }

  /** A scrape that comes while another looks around shows what that one has found so far. */
  *#collect(): Generator<void> {
    if (this.#isCollecting) return
    this.#isCollecting = true
    try {
      this.#metrics.uptime.set({ worker_id: instanceId.toString(16) }, (performance.now() - this.#startedAt) / 1000)
      this.#canary.collect()
      yield* this.#look()
    } finally {
      this.#isCollecting = false
    }
  }

  *#look(): Generator<void> {
    for (const model of this.#hub.all()) {
      this.#describe(model)
      const figures = model.spec.figures?.()
      if (figures?.index) this.#showIndex(model.name, figures.index)
      for (const worker of model.workers()) {
        this.#show(model, worker)
        yield
      }
    }
    yield* this.#endGone()
  }

  /**
   * Makes the series of newcomers a few at a time, long before most scrapes: made in a scrape, those of a thousand workers
   * are copied by the collector while the loop waits (docs/decisions/0181-series-before-the-scrape.md).
   */
  *#lookAhead(): Generator<void> {
    for (;;) {
      for (const model of this.#hub.all()) {
        for (const worker of model.workers()) {
          if (this.#shown.get(model.name)?.get(worker.label)?.events.isEmpty !== false) this.#show(model, worker)
          yield
        }
      }
      yield* this.#endGone()
      yield
    }
  }

  #show(model: Model, worker: Worker): void {
    let ofModel = this.#shown.get(model.name)
    if (!ofModel) this.#shown.set(model.name, (ofModel = new Map()))
    let shown = ofModel.get(worker.label)
    if (!shown) ofModel.set(worker.label, (shown = this.#open(model.name, worker)))
    shown.available.set(worker.mayServe ? 1 : 0)
    shown.inFlight.set(worker.inFlight)
    shown.mode.set(worker.mode)
    shown.events.show(model.spec.feedsOf?.(worker.id) ?? [])
  }

  #open(model: string, { id, label }: Worker): Shown {
    const { workerAvailable, workerInFlight, workerMode } = this.#metrics
    const labels = new LabelText({ model, worker: label }, labelNames)
    return {
      id,
      labels,
      available: workerAvailable.with(labels),
      inFlight: workerInFlight.with(labels),
      mode: workerMode.with(labels),
      events: new EventGauges(this.#metrics, model, label),
    }
  }

  *#endGone(): Generator<void> {
    const { workerAvailable, workerInFlight, workerMode } = this.#metrics
    for (const [name, ofModel] of this.#shown) {
      for (const [label, { id, labels, events }] of ofModel) {
        if (!this.#hub.get(name)?.fleetOf(id)) {
          for (const family of [workerAvailable, workerInFlight, workerMode]) family.remove(labels)
          events.end()
          ofModel.delete(label)
        }
        yield
      }
      if (ofModel.size === 0) this.#shown.delete(name)
    }
  }

  /** What a worker of the model says of itself; what none says is not shown. */
  #describe(model: Model): void {
    const { name, spec } = model
    const labels = { model: name }
    const workers = [...model.workers()]
    const told = (read: (worker: Worker) => number | undefined): number | undefined =>
      workers.map(read).find((value) => value !== undefined)
    const facts = [
      [this.#metrics.modelContextLength, spec.contextWindow],
      [this.#metrics.modelKvCacheBlockSize, spec.blockSize],
      [this.#metrics.modelTotalKvBlocks, told(({ config }) => config.totalKvBlocks)],
      [this.#metrics.modelMaxNumBatchedTokens, told(({ config }) => config.maxNumBatchedTokens)],
      [this.#metrics.modelMaxNumSeqs, told((worker) => worker.spec.maxNumSeqs)],
      [this.#metrics.modelMigrationLimit, attemptsMax - 1],
    ] as const
    for (const [family, value] of facts) if (value !== undefined) family.set(labels, value)
  }

  #showIndex(model: string, { blocks, bytes, evictedBlocks }: IndexFigures): void {
    const { indexBlocks, indexBytes, indexEvicted } = this.#metrics
    indexBlocks.set({ model }, blocks)
    indexBytes.set({ model }, bytes)
    indexEvicted.with({ model }).follow(evictedBlocks)
  }
}
