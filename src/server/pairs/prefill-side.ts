/**
 * The prefill half of a model: its workers, the router that chooses among them, and whether requests are split at all.
 *
 * The router is made when the first prefill worker appears, kept when the last one leaves, used again when they return,
 * and made anew when they return as another pool (another engine, connector or block size).
 */
import { WarmrouteError } from '../../core/protocol/index.js'
import type { Connector } from '../../engines/index.js'
import { canDecodeAlone, connectorOf } from '../../engines/index.js'
import type { GuardHooks, InnerRoute, RouterPort } from '../../routing/index.js'
import { PrefillRouter } from '../../routing/index.js'
import type { RouterMetrics } from '../../telemetry/index.js'
import type { DisaggSpec, Log, PrefillPool, WorkerSpec } from '../options.js'
import type { FleetOptions } from '../workers/fleet.js'
import { Fleet } from '../workers/fleet.js'
import type { Worker } from '../workers/worker.js'

export interface PrefillSideOptions {
  readonly model: string
  readonly blockSize: number
  readonly disagg: DisaggSpec
  /** The workers that decode, and those that do both. */
  readonly decodeFleet: Fleet
  readonly fleet: Omit<FleetOptions, 'router' | 'model'>
  readonly log: Log
  /** What its router observes; made when there is one. */
  readonly openMetrics?: (() => RouterMetrics) | undefined
  readonly onActivationFailed?: (() => void) | undefined
}

/** Who is left out of a choice besides those who cannot serve; undefined when nobody is. */
type LeftOut = ReadonlySet<bigint> | undefined

export class PrefillSide {
  readonly fleet: Fleet
  readonly disagg: DisaggSpec
  readonly #options: PrefillSideOptions
  readonly #router: PrefillRouter<PrefillPool, RouterPort>
  readonly #releases = new Set<AbortController>()
  #inner: RouterPort | undefined
  #metrics: RouterMetrics | undefined
  #poolSize = 0
  #notForDecode: LeftOut
  #notForBoth: LeftOut
  #hasDecoder = false
  #hasAllRounder = false
  readonly #stopWatching: () => void

  constructor(options: PrefillSideOptions) {
    this.#options = options
    this.disagg = options.disagg
    const { log, disagg } = options
    this.#router = new PrefillRouter<PrefillPool, RouterPort>({
      enforceDisagg: disagg.enforce,
      identityOf: (pool) => pool.identity,
      watchConfigs: () => Promise.resolve(), // workers say what they are when they join
      buildInner: (pool, signal) => disagg.openPrefill(pool, signal),
      registerWithMonitor: (inner) => this.#use(inner),
      closeInner: disagg.closePrefill,
      onActivationFailed: options.onActivationFailed,
      warn: (fields, sentence) => log.warn({ model: options.model, ...fields }, sentence),
      pause,
    })
    this.fleet = new Fleet({
      ...options.fleet,
      model: options.model,
      router: {
        setWorker: (id, config) => this.#inner && this.#register(this.#inner, id, config),
        removeWorker: (id) => this.#inner?.removeWorker(id),
      },
    })
    this.fleet.watch(() => this.#membership())
    this.#stopWatching = options.decodeFleet.watch(() => this.#sortDecoders())
    this.#sortDecoders()
  }

  /** What the router among prefill workers observes of requests. */
  get metrics(): RouterMetrics | undefined {
    return this.#metrics
  }

  /** What the guard of each prefill tells them. */
  readonly guardHooks: GuardHooks = {
    onFirstToken: (sinceStartMs) => this.#metrics?.requestFirstToken(sinceStartMs),
    onFinish: ({ outputTokens }) => this.#metrics?.requestFinished(outputTokens),
  }

  /** What to do with a request that arrives now. */
  route(): InnerRoute<RouterPort> {
    const route = this.#router.route()
    if (route.kind !== 'aggregated' || this.#hasAllRounder) return route
    return { kind: 'refused', reason: route.reason === 'deactivated' ? 'deactivated' : 'not-activated' }
  }

  /**
   * False: the model is hidden and answers 503. Upstream's truth table, with disaggregation enforced by the facts where no
   * worker could do both halves.
   */
  get canServe(): boolean {
    return this.#router.canServeRequests() && (this.#hasAllRounder || this.#router.route().kind === 'remote')
  }

  /** False until a worker of either half appears: requests then need no thought of pairs. */
  get isUsed(): boolean {
    return this.disagg.enforce || this.#router.isActivated || this.fleet.size > 0 || this.#hasDecoder
  }

  /** Tokens per block of the pool that serves, or last served. */
  get blockSize(): number {
    for (const { spec } of this.fleet.all()) return spec.blockSize ?? this.#options.blockSize
    return this.#options.blockSize
  }

  /** For a decode whose prompt was computed elsewhere. */
  get notForDecode(): LeftOut {
    return this.#notForDecode
  }

  /** For a request that one worker does alone. */
  get notForBoth(): LeftOut {
    return this.#notForBoth
  }

  get hasDecoder(): boolean {
    return this.#hasDecoder
  }

  /** Somebody can do both halves of a request. */
  get hasAllRounder(): boolean {
    return this.#hasAllRounder
  }

  /** Throws `WR_INVALID_CONFIG` for a worker that cannot share a router with those that are here. */
  setWorker(spec: WorkerSpec): Worker {
    const identity = this.#poolOf(spec).identity
    for (const worker of this.fleet.all())
      if (worker.id !== spec.id && this.#poolOf(worker.spec).identity !== identity)
        throw new WarmrouteError('WR_INVALID_CONFIG', {
          reason: `prefill worker ${spec.id} is ${identity}, those of the model are ${this.#poolOf(worker.spec).identity}`,
        })
    const known = this.fleet.get(spec.id)
    if (known && this.#poolOf(known.spec).identity !== identity) this.fleet.remove(spec.id) // it came back as another
    return this.fleet.set(spec)
  }

  /** A request of our own that lets go of held KV; `close` ends it. */
  trackRelease(stop: AbortController): () => void {
    this.#releases.add(stop)
    return () => void this.#releases.delete(stop)
  }

  async close(): Promise<void> {
    this.#stopWatching()
    for (const stop of this.#releases) stop.abort()
    this.fleet.close()
    await this.#router.close()
  }

  /** Once it is certain that it will be used: one that came too late is closed again, and must not be told of workers. */
  #use(inner: RouterPort): void {
    this.#inner = inner
    this.#metrics ??= this.#options.openMetrics?.()
    for (const worker of this.fleet.all()) this.#register(inner, worker.id, worker.config)
  }

  #register(inner: RouterPort, id: bigint, config: Worker['config']): void {
    inner.setWorker(id, config)
    this.#metrics?.workerRegistered(id, config, 'prefill')
  }

  #membership(): void {
    const before = this.#poolSize
    this.#poolSize = this.fleet.servingCount // who drains or does not answer takes no request: it is not there
    if (this.#poolSize === 0) {
      if (before > 0) this.#router.deactivate()
    } else if (before === 0) {
      const pool = this.#poolOf(this.fleet.all().next().value!.spec) // one pool at a time
      const change = this.#router.isDeactivated ? this.#router.reactivate(pool) : this.#router.activate(pool)
      void change.then(() => this.#options.fleet.onChange?.()) // the model may be ready now
    }
  }

  #poolOf(spec: WorkerSpec): PrefillPool {
    return prefillPoolOf(spec, this.#options.blockSize)
  }

  #sortDecoders(): void {
    const notForDecode = new Set<bigint>()
    const notForBoth = new Set<bigint>()
    for (const { id, spec } of this.#options.decodeFleet.all()) {
      if (spec.role !== 'decode') notForDecode.add(id)
      else if (!canDecodeAlone(spec.engine)) notForBoth.add(id)
    }
    const workers = [...this.#options.decodeFleet.all()]
    const serving = workers.filter(({ mayServe }) => mayServe)
    this.#hasDecoder = serving.some(({ id }) => !notForDecode.has(id))
    const known = serving.length > 0 ? serving : workers // where nobody serves that is what is wrong, not who they are
    this.#hasAllRounder = known.length === 0 || known.some(({ id }) => !notForBoth.has(id))
    this.#notForDecode = notForDecode.size === 0 ? undefined : notForDecode
    this.#notForBoth = notForBoth.size === 0 ? undefined : notForBoth
  }
}

/** Which router a prefill worker shares with others. */
export function prefillPoolOf(spec: WorkerSpec, modelBlockSize: number): PrefillPool {
  const connector: Connector | 'unknown' = connectorOf(spec.engine, spec.transfer) ?? 'unknown'
  const blockSize = spec.blockSize ?? modelBlockSize
  return { identity: `${spec.engine}/${connector}/${blockSize}`, engine: spec.engine, blockSize }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, ms).unref()
    signal.addEventListener('abort', end, { once: true })
  })
}
