/**
 * The workers of one model: who exists, who may take a request, and what happens when one fails. Tells the router who
 * exists; leaves out of selection whoever is draining or in quarantine.
 */
import { WarmrouteError } from '../../core/protocol/index.js'
import { engineRoute } from '../../engines/index.js'
import type { EngineKind } from '../../engines/index.js'
import type { RouterPort } from '../../routing/index.js'
import type { Deadlines, HealthOptions, Log, WorkerSpec } from '../options.js'
import { fetchText } from '../wire/fetch-text.js'
import type { Connect } from '../wire/engine-link.js'
import type { EndpointRow } from '../request/endpoints.js'
import { Worker } from './worker.js'

export interface FleetOptions {
  readonly model: string
  /** Who is told who exists. */
  readonly router: Pick<RouterPort, 'setWorker' | 'removeWorker'>
  readonly deadlines: Deadlines
  readonly health: HealthOptions
  readonly log: Log
  readonly now: () => number
  /** Opens connections to its workers. */
  readonly connect?: Connect | undefined
  readonly onChange?: () => void
  readonly onGone?: (worker: Worker) => void
}

const nobody: ReadonlySet<bigint> = new Set()

export class Fleet {
  readonly #options: FleetOptions
  readonly #workers = new Map<bigint, Worker>()
  readonly #probes = new Map<bigint, NodeJS.Timeout>()
  readonly #watchers = new Set<() => void>()
  #unavailable: ReadonlySet<bigint> = nobody
  readonly #engines = new Set<EngineKind>()
  /** By path. */
  readonly #unfit = new Map<string, ReadonlySet<bigint>>()
  #isClosed = false

  constructor(options: FleetOptions) {
    this.#options = options
  }

  get size(): number {
    return this.#workers.size
  }

  /** Workers that selection must leave out now. The same set until something changes. */
  get unavailable(): ReadonlySet<bigint> {
    return this.#unavailable
  }

  /** Workers that have no such route, or not the adapter, whoever else may serve. The same set until something changes. */
  unfitFor(row: EndpointRow, loraName?: string): ReadonlySet<bigint> {
    const key = loraName === undefined ? row.path : `${row.path} ${loraName}`
    const known = this.#unfit.get(key)
    if (known) return known
    const out = new Set<bigint>()
    for (const worker of this.#workers.values()) if (!isFit(worker, row, loraName)) out.add(worker.id)
    const unfit = out.size === 0 ? nobody : out
    this.#unfit.set(key, unfit)
    return unfit
  }

  /** Somebody is of this kind, whether it may serve now or not. */
  hasEngine(kind: EngineKind): boolean {
    return this.#engines.has(kind)
  }

  /** Besides this one somebody may serve, and has such a route and the adapter. */
  hasOther(id: bigint, row: EndpointRow, loraName?: string): boolean {
    for (const worker of this.#workers.values())
      if (worker.id !== id && worker.mayServe && isFit(worker, row, loraName)) return true
    return false
  }

  get servingCount(): number {
    return this.#workers.size - this.#unavailable.size
  }

  get(id: bigint): Worker | undefined {
    return this.#workers.get(id)
  }

  all(): IterableIterator<Worker> {
    return this.#workers.values()
  }

  /** Called after every change of who exists or may serve. Returns the way to stop. */
  watch(onChange: () => void): () => void {
    this.#watchers.add(onChange)
    return () => void this.#watchers.delete(onChange)
  }

  /** A worker joins, or says something new of itself. Another URL under the same id is another worker: the old one goes. */
  set(spec: WorkerSpec): Worker {
    const known = this.#workers.get(spec.id)
    if (known && known.spec.url === spec.url && known.spec.apiKey === spec.apiKey) {
      known.spec = spec
      if (spec.mode) known.mode = spec.mode
      this.#options.router.setWorker(spec.id, known.config)
      this.#changed()
      return known
    }
    if (known) this.remove(spec.id)
    const { deadlines, connect, now } = this.#options
    const worker = new Worker(spec, { connectMs: deadlines.connectMs, connect, now })
    this.#workers.set(spec.id, worker)
    this.#options.router.setWorker(spec.id, worker.config)
    this.#changed()
    this.#say('a worker joined', worker)
    return worker
  }

  /** At once: its connections are closed, requests on it fail, its bookings and blocks are forgotten. */
  remove(id: bigint): boolean {
    const worker = this.#workers.get(id)
    if (!worker) return false
    worker.state = 'gone'
    this.#stopProbe(id)
    this.#workers.delete(id)
    this.#options.router.removeWorker(id)
    worker.link.close()
    this.#changed()
    this.#options.onGone?.(worker)
    this.#say('a worker left', worker)
    return true
  }

  /** No new requests; settles when the last one ended, nobody reads its KV any more, and the worker is gone. */
  drain(id: bigint): Promise<void> {
    const worker = this.#workers.get(id)
    if (!worker) throw new WarmrouteError('WR_WORKER_NOT_FOUND', { reason: `worker ${id}`, worker_id: String(id) })
    if (worker.state === 'ready') {
      worker.state = 'draining'
      this.#changed()
      this.#say('a worker is draining', worker)
    }
    return new Promise((resolve) => {
      const before = worker.onIdle
      const leave = (): void => {
        before?.()
        if (this.#workers.get(id) === worker) this.remove(id) // its id may be another's by now
        resolve()
      }
      if (worker.isIdle) leave()
      else worker.onIdle = leave
    })
  }

  /** A connection fault: the worker is left out until a probe is answered, and asked ever more rarely. */
  fault(worker: Worker, error: WarmrouteError): void {
    if (worker.state === 'gone' || this.#isClosed) return
    worker.faults++
    if (worker.isQuarantined) return
    worker.isQuarantined = true
    this.#changed()
    this.#options.log.warn(
      { worker: worker.label, model: this.#options.model, code: error.code, reason: error.details['reason'] },
      'a worker is left out until it answers again',
    )
    this.#probeLater(worker, this.#options.health.quarantineMs[0])
  }

  /** Asks for health with the worker's own key. One that works and is slow to say so is up; one that refuses is not, whatever it does. */
  async probe(worker: Worker): Promise<boolean> {
    const { health, now } = this.#options
    const { path, timeoutMs } = health
    const askedAtMs = now()
    try {
      const { status } = await fetchText(worker.link, { method: 'GET', path, headers: [] }, { timeoutMs })
      return status >= 200 && status < 300
    } catch (error) {
      const isRefused = error instanceof WarmrouteError && error.code === 'WR_ENGINE_UNREACHABLE'
      return !isRefused && worker.progressAtMs > askedAtMs
    }
  }

  readmit(worker: Worker): void {
    this.#stopProbe(worker.id)
    if (!worker.isQuarantined) return
    worker.isQuarantined = false
    worker.progressAtMs = this.#options.now()
    this.#changed()
    this.#say('a worker answers again', worker)
  }

  close(): void {
    this.#isClosed = true
    for (const timer of this.#probes.values()) clearTimeout(timer)
    this.#probes.clear()
    this.#watchers.clear()
    for (const worker of this.#workers.values()) worker.link.close()
  }

  #probeLater(worker: Worker, waitMs: number): void {
    this.#stopProbe(worker.id)
    const timer = setTimeout(() => void this.#probeNow(worker, waitMs), waitMs)
    timer.unref()
    this.#probes.set(worker.id, timer)
  }

  async #probeNow(worker: Worker, waitMs: number): Promise<void> {
    const isUp = await this.probe(worker)
    if (this.#isClosed || worker.state === 'gone' || !worker.isQuarantined) return
    if (isUp) this.readmit(worker)
    else this.#probeLater(worker, Math.min(2 * waitMs, this.#options.health.quarantineMs[1]))
  }

  #stopProbe(id: bigint): void {
    clearTimeout(this.#probes.get(id))
    this.#probes.delete(id)
  }

  #changed(): void {
    const out = new Set<bigint>()
    this.#engines.clear()
    for (const worker of this.#workers.values()) {
      this.#engines.add(worker.spec.engine)
      if (!worker.mayServe) out.add(worker.id)
    }
    this.#unavailable = out.size === 0 ? nobody : out
    this.#unfit.clear()
    for (const watcher of this.#watchers) watcher()
    this.#options.onChange?.()
  }

  #say(sentence: string, worker: Worker): void {
    const { model, log } = this.#options
    log.info({ worker: worker.label, model, state: worker.state, mode: worker.mode }, sentence)
  }
}

/** Its engine has the route and, as far as is known, the adapter; and its model does what the route asks for. */
function isFit({ spec }: Worker, { path, generates }: EndpointRow, loraName: string | undefined): boolean {
  if (loraName !== undefined && spec.adapters?.includes(loraName) === false) return false
  return engineRoute(spec.engine, path) !== undefined && !(generates && spec.generates === false)
}
