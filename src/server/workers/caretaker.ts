/**
 * Looks after the workers on a timer: asks for their health, and reads how busy they say they are. What it learns goes to
 * the fleet (who may serve) and to the monitor (who is busy); it decides nothing. Each worker has its own moment in the
 * interval: hundreds of questions in one turn would hold every stream.
 */
import { setMaxListeners } from 'node:events'
import { WarmrouteError } from '../../core/protocol/index.js'
import type { RankLoad } from '../../engines/index.js'
import { readSglangLoads, readVllmLoad } from '../../engines/index.js'
import type { GatewayContext } from '../context.js'
import type { Model } from '../model.js'
import type { Metrics } from '../../telemetry/index.js'
import { fetchText } from '../wire/fetch-text.js'
import { Round } from './phase.js'
import type { Worker } from './worker.js'

/** Who is due is found out for so long a time at once, and asked in steps of it. */
const windowMsMax = 100
const stepMs = 10

type Act = (model: Model, worker: Worker) => Promise<void>

export class Caretaker {
  readonly #context: GatewayContext
  readonly #polls: Metrics['loadPolls']
  readonly #timers = new Set<NodeJS.Timeout>()
  readonly #running = new Set<Promise<void>>()
  readonly #asked = new Set<Worker>()
  readonly #read = new Set<Worker>()
  readonly #lastLoads = new WeakMap<Worker, string>()
  readonly #stop = new AbortController()

  constructor(context: GatewayContext, { loadPolls }: Pick<Metrics, 'loadPolls'>) {
    this.#context = context
    this.#polls = loadPolls
    setMaxListeners(0, this.#stop.signal) // every worker that is being asked listens to it
  }

  start(): void {
    const { intervalMs, metricsMs } = this.#context.health
    if (intervalMs > 0) this.#every(intervalMs, (model, worker) => this.#checkHealth(model, worker))
    if (metricsMs > 0) this.#every(metricsMs, (model, worker) => this.#readLoad(model, worker))
  }

  async close(): Promise<void> {
    this.#stop.abort()
    for (const timer of this.#timers) clearTimeout(timer)
    await Promise.all(this.#running)
  }

  #every(ms: number, act: Act): void {
    const windowMs = Math.min(ms, windowMsMax)
    const round = new Round(ms, performance.now()) // the clock of the timers, whatever time the gateway is told
    const timer = setInterval(() => {
      const isDue = round.advance(performance.now())
      const due: [Model, Worker][] = []
      for (const model of this.#context.hub.all())
        for (const worker of model.workers()) if (isDue(worker.phase)) due.push([model, worker])
      this.#ask(due, Math.ceil((due.length * stepMs) / windowMs), act)
    }, windowMs)
    this.#timers.add(timer.unref())
  }

  /** So many now, and the rest a little later. */
  #ask(due: readonly (readonly [Model, Worker])[], count: number, act: Act): void {
    for (const [model, worker] of due.slice(0, count)) {
      const task: Promise<void> = act(model, worker).finally(() => this.#running.delete(task))
      this.#running.add(task)
    }
    if (due.length <= count) return
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      this.#ask(due.slice(count), count, act)
    }, stepMs)
    this.#timers.add(timer.unref())
  }

  /** A worker in quarantine has a probe of its own; one that serves is asked here, with its own key. */
  async #checkHealth(model: Model, worker: Worker): Promise<void> {
    if (worker.isQuarantined || worker.state !== 'ready' || this.#asked.has(worker)) return
    this.#asked.add(worker)
    const fleet = model.fleetOf(worker.id)
    const isUp = fleet === undefined || (await fleet.probe(worker))
    this.#asked.delete(worker)
    if (isUp || this.#stop.signal.aborted) return
    fleet?.fault(worker, new WarmrouteError('WR_ENGINE_UNREACHABLE', { reason: 'the health check was not answered' }))
  }

  /** Only where somebody needs it: requests wait on the worker's progress, or thresholds want its figures. */
  async #readLoad(model: Model, worker: Worker): Promise<void> {
    const source = loadSources[worker.spec.engine]
    if (!source || worker.isQuarantined || worker.state === 'gone') return
    if (worker.inFlight === 0 && !model.monitor.isConfigured) return
    if (this.#read.has(worker)) return // it takes its time; asking again would not help it
    this.#read.add(worker)
    try {
      const request = { method: 'GET', path: source.path, headers: [] }
      const { timeoutMs } = this.#context.health
      const { status, text } = await fetchText(worker.link, request, { timeoutMs, signal: this.#stop.signal })
      this.#polls.inc({ outcome: status === 200 ? 'read' : 'refused' })
      if (status !== 200 || model.fleetOf(worker.id)?.get(worker.id) !== worker) return
      const loads = source.read(text)
      this.#noteProgress(worker, JSON.stringify(loads))
      if (model.monitor.isConfigured && worker.spec.role !== 'prefill')
        for (const load of loads) report(model, worker, load)
    } catch (error) {
      if (!(error instanceof WarmrouteError)) throw error
      if (this.#stop.signal.aborted) return
      this.#polls.inc({ outcome: 'unanswered' }) // it says nothing new: faults are found by requests
    } finally {
      this.#read.delete(worker)
    }
  }

  /** Figures that changed since the last look show that the engine works, even if this request has no byte yet. */
  #noteProgress(worker: Worker, figures: string): void {
    if (this.#lastLoads.get(worker) === figures) return
    this.#lastLoads.set(worker, figures)
    worker.progressAtMs = this.#context.now()
  }
}

const loadSources: Readonly<Record<string, { readonly path: string; readonly read: (text: string) => RankLoad[] }>> = {
  vllm: { path: '/metrics', read: readVllmLoad },
  sglang: { path: '/v1/loads?include=core', read: readSglangLoads },
}

function report(model: Model, worker: Worker, load: RankLoad): void {
  const total = worker.config.totalKvBlocks
  if (total === undefined || load.kvUsage === undefined) return
  const dpRank = worker.config.dataParallelStartRank + load.dpRank
  model.monitor.report({ workerId: worker.id, dpRank, kvUsedBlocks: Math.round(load.kvUsage * total) })
}
