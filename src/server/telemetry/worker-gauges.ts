/** Gauges that are read from the gateway's state before each scrape, and end with their worker. */
import type { Metrics } from '../../telemetry/index.js'
import { instanceId } from '../../telemetry/index.js'
import type { Model } from '../model.js'
import type { ModelHub } from '../model-hub.js'
import type { IndexFigures } from '../options.js'
import { attemptsMax } from '../options.js'
import type { Worker } from '../workers/worker.js'
import { EventGauges } from './event-gauges.js'
import { LoopCanary } from './loop-canary.js'

const modes = ['exact', 'degraded', 'approximate', 'load-only'] as const

export class WorkerGauges {
  readonly #metrics: Metrics
  readonly #hub: ModelHub
  readonly #canary: LoopCanary
  readonly #startedAt = performance.now()
  readonly #stop: () => void
  readonly #events: EventGauges
  #shown = new Set<string>()
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

  #collect(): void {
    const { workerAvailable, workerInFlight, workerMode } = this.#metrics
    const shown = new Set<string>()
    const upSeconds = (performance.now() - this.#startedAt) / 1000
    this.#metrics.uptime.set({ worker_id: instanceId.toString(16) }, upSeconds)
    for (const model of this.#hub.all()) {
      this.#describe(model)
      const figures = model.spec.figures?.()
      if (figures?.index) this.#showIndex(model.name, figures.index)
      for (const worker of model.workers()) {
        const labels = { model: model.name, worker: worker.label }
        shown.add(JSON.stringify(labels))
        workerAvailable.set(labels, worker.mayServe ? 1 : 0)
        workerInFlight.set(labels, worker.inFlight)
        for (const mode of modes) workerMode.set({ ...labels, mode }, worker.mode === mode ? 1 : 0)
        this.#events.show(model.name, worker.label, model.spec.feedsOf?.(worker.id) ?? [])
      }
    }
    for (const key of this.#shown)
      if (!shown.has(key)) this.#remove(JSON.parse(key) as { model: string; worker: string })
    this.#shown = shown
    this.#events.end()
    this.#canary.collect()
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

  #remove(labels: { model: string; worker: string }): void {
    const { workerAvailable, workerInFlight, workerMode } = this.#metrics
    workerAvailable.remove(labels)
    workerInFlight.remove(labels)
    for (const mode of modes) workerMode.remove({ ...labels, mode })
  }
}
