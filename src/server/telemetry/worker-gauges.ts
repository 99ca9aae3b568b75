/** Gauges that are read from the gateway's state before each scrape, and end with their worker. */
import type { IntervalHistogram } from 'node:perf_hooks'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { Metrics } from '../../telemetry/index.js'
import type { ModelHub } from '../model-hub.js'
import type { IndexFigures } from '../options.js'
import { EventGauges } from './event-gauges.js'

const modes = ['exact', 'degraded', 'approximate', 'load-only'] as const

export class WorkerGauges {
  readonly #metrics: Metrics
  readonly #hub: ModelHub
  readonly #delay: IntervalHistogram
  readonly #stop: () => void
  readonly #events: EventGauges
  #shown = new Set<string>()
  /** What was counted so far, by model: a scrape adds what came since. */
  readonly #evicted = new Map<string, number>()

  constructor(metrics: Metrics, hub: ModelHub) {
    this.#metrics = metrics
    this.#hub = hub
    this.#events = new EventGauges(metrics)
    this.#delay = monitorEventLoopDelay({ resolution: 10 })
    this.#delay.enable()
    this.#stop = metrics.registry.onCollect(() => this.#collect())
  }

  close(): void {
    this.#delay.disable()
    this.#stop()
  }

  #collect(): void {
    const { workerAvailable, workerInFlight, workerMode } = this.#metrics
    const shown = new Set<string>()
    for (const model of this.#hub.all()) {
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
    this.#collectDelay()
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

  #collectDelay(): void {
    const { loopDelay } = this.#metrics
    if (this.#delay.count === 0) return
    for (const quantile of [50, 99, 99.9])
      loopDelay.set({ quantile: String(quantile / 100) }, this.#delay.percentile(quantile) / 1e9)
    this.#delay.reset()
  }
}
