/** Gauges that are read from the gateway's state before each scrape, and end with their worker. */
import type { Gauge, Labels, Metrics } from '../../telemetry/index.js'
import { instanceId } from '../../telemetry/index.js'
import type { Model } from '../model.js'
import type { ModelHub } from '../model-hub.js'
import type { IndexFigures } from '../options.js'
import { attemptsMax } from '../options.js'
import type { Worker } from '../workers/worker.js'
import { EventGauges } from './event-gauges.js'
import { LoopCanary } from './loop-canary.js'

const modes = ['exact', 'degraded', 'approximate', 'load-only'] as const

interface WorkerHandles {
  readonly labels: Labels
  readonly available: Gauge
  readonly inFlight: Gauge
  /** As `modes` has them. */
  readonly modes: readonly Gauge[]
}

export class WorkerGauges {
  readonly #metrics: Metrics
  readonly #hub: ModelHub
  readonly #canary: LoopCanary
  readonly #startedAt = performance.now()
  readonly #stop: () => void
  readonly #events: EventGauges
  readonly #handles = new Map<Worker, WorkerHandles>()
  /** Workers that share a name, while one takes the place of another. */
  readonly #holders = new Map<string, number>()
  #isCollecting = false
  /** What was counted so far, by model: a scrape adds what came since. */
  readonly #evicted = new Map<string, number>()

  constructor(metrics: Metrics, hub: ModelHub) {
    this.#metrics = metrics
    this.#hub = hub
    this.#events = new EventGauges(metrics)
    this.#canary = new LoopCanary(metrics)
    this.#stop = metrics.registry.onCollect(() => this.#collect())
  }

  close(): void {
    this.#canary.close()
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
    const seen = new Set<Worker>()
    this.#events.begin()
    for (const model of this.#hub.all()) {
      this.#describe(model)
      const figures = model.spec.figures?.()
      if (figures?.index) this.#showIndex(model.name, figures.index)
      for (const worker of model.workers()) {
        seen.add(worker)
        this.#show(model, worker)
        yield
      }
    }
    for (const [worker, { labels }] of this.#handles) {
      if (seen.has(worker)) continue
      this.#remove(worker, labels)
      yield
    }
    yield* this.#events.end()
  }

  #show(model: Model, worker: Worker): void {
    let handles = this.#handles.get(worker)
    if (!handles) {
      this.#handles.set(worker, (handles = this.#open(model.name, worker.label)))
      this.#holders.set(nameOf(handles.labels), (this.#holders.get(nameOf(handles.labels)) ?? 0) + 1)
    }
    handles.available.set(worker.mayServe ? 1 : 0)
    handles.inFlight.set(worker.inFlight)
    for (let at = 0; at < modes.length; at++) handles.modes[at]!.set(worker.mode === modes[at] ? 1 : 0)
    this.#events.show(model.name, worker.label, model.spec.feedsOf?.(worker.id) ?? [])
  }

  #open(model: string, worker: string): WorkerHandles {
    const { workerAvailable, workerInFlight, workerMode } = this.#metrics
    const labels = { model, worker }
    return {
      labels,
      available: workerAvailable.with(labels),
      inFlight: workerInFlight.with(labels),
      modes: modes.map((mode) => workerMode.with({ ...labels, mode })),
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
    indexEvicted.inc({ model }, Math.max(0, evictedBlocks - (this.#evicted.get(model) ?? 0)))
    this.#evicted.set(model, evictedBlocks)
  }

  /** Ends its series, unless another worker of the same name has come. */
  #remove(worker: Worker, labels: Labels): void {
    this.#handles.delete(worker)
    const others = (this.#holders.get(nameOf(labels)) ?? 1) - 1
    if (others > 0) return void this.#holders.set(nameOf(labels), others)
    this.#holders.delete(nameOf(labels))
    const { workerAvailable, workerInFlight, workerMode } = this.#metrics
    workerAvailable.remove(labels)
    workerInFlight.remove(labels)
    for (const mode of modes) workerMode.remove({ ...labels, mode })
  }
}

function nameOf(labels: Labels): string {
  return `${labels['model']}\0${labels['worker']}`
}
