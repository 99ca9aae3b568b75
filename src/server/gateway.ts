/** The front door: listeners, routes, models, and an orderly end. Everything it decides is decided elsewhere. */
import { createServer } from 'node:http'
import type { RequestListener, Server } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import { createBlockHasher } from '../core/hashing/index.js'
import { WarmrouteError } from '../core/protocol/index.js'
import type { Metrics } from '../telemetry/index.js'
import { createMetrics, installedTracer } from '../telemetry/index.js'
import type { GatewayContext, UnderWay } from './context.js'
import { BodyBudget } from './http/body-budget.js'
import { BufferPool } from './http/buffer-pool.js'
import { Callers, hasUnsent } from './http/callers.js'
import { ClientMessage } from './http/client-message.js'
import type { ParserError } from './http/unreadable.js'
import { refuseTunnel, refuseUnreadable } from './http/unreadable.js'
import { Model } from './model.js'
import { ModelHub } from './model-hub.js'
import type { GatewayOptions, ListenOptions, Log, ModelSpec, WorkerSpec } from './options.js'
import { defaultDeadlines, defaultHealth, defaultLimits } from './options.js'
import { DeadlineClock } from './request/deadlines.js'
import { LoopTurns } from './request/loop-turns.js'
import { Roster } from './roster.js'
import type { DoorOptions } from './routes/door.js'
import { createDoor } from './routes/door.js'
import { Meters } from './telemetry/request-meters.js'
import { StageMeters } from './telemetry/stage-meters.js'
import { observeKept } from './telemetry/kept-meters.js'
import { WorkerGauges } from './telemetry/worker-gauges.js'
import { Caretaker } from './workers/caretaker.js'
import type { WorkerReport } from './workers/worker.js'
import { reportOf } from './workers/worker.js'

export interface GatewayAddress {
  readonly url: string
  readonly host: string
  readonly port: number
  /** Set when admin routes have a port of their own. */
  readonly adminUrl: string | undefined
}

/** A socket, or what takes its place. */
export interface AcceptedSocket extends Duplex {
  setTimeout(ms: number): unknown
}

export interface Gateway {
  readonly metrics: Metrics
  listen(): Promise<GatewayAddress>
  /** Serves a connection that somebody else accepted, whether or not it listens itself. */
  accept(socket: AcceptedSocket): void
  addModel(spec: ModelSpec): void
  /** Joins, or says something new of itself. */
  setWorker(model: string, spec: WorkerSpec): void
  /** At once. False: no such worker. */
  removeWorker(workerId: bigint): boolean
  /** No new requests; settles when the worker has none and is gone. */
  drainWorker(workerId: bigint): Promise<void>
  /** The same worker is another process now: what lived inside the one before is gone. */
  workerRestarted(workerId: bigint): void
  /** It takes no new requests, and waits for its last one. */
  isDraining(workerId: bigint): boolean
  workers(): readonly WorkerReport[]
  /** Anything that shows that a worker lives, such as its events: it keeps silent requests from being given up. */
  noteProgress(workerId: bigint): void
  /** It has requests, and something of them arrived a moment ago. */
  isAnswering(workerId: bigint): boolean
  /** Requests under way. */
  readonly inFlight: number
  /** Connections to workers, open or opening. */
  readonly engineConnections: number
  /**
   * Says 503 at `/health` and `/ready`, takes requests for the grace, then refuses new ones; settles when those under way have
   * ended and their clients have the answers, or were given up at the deadline.
   */
  drain(): Promise<void>
  /** Drains, and then listens no more. */
  close(): Promise<void>
}

export function createGateway(options: GatewayOptions = {}): Gateway {
  return new HttpGateway(options)
}

const silent: Log = { debug() {}, info() {}, warn() {} }

class HttpGateway implements Gateway {
  readonly metrics: Metrics
  readonly #options: GatewayOptions
  readonly #context: GatewayContext
  readonly #caretaker: Caretaker
  readonly #gauges: WorkerGauges
  readonly #stopKept: () => void
  readonly #servers: Server[] = []
  /** For connections that were accepted elsewhere; listens nowhere. */
  #lobby: Server | undefined
  #draining: Promise<void> | undefined
  #closing: Promise<void> | undefined

  constructor(options: GatewayOptions) {
    this.#options = options
    const { metricsCompat = '1.2', metricsPrefix: prefix, metricsBuckets: buckets } = options
    this.metrics =
      options.metrics ??
      createMetrics({ metricsCompat, ...(prefix ? { prefix } : {}), ...(buckets ? { buckets } : {}) })
    this.#context = contextOf(options, this.metrics)
    this.#caretaker = new Caretaker(this.#context, this.metrics)
    this.#gauges = new WorkerGauges(this.metrics, this.#context.hub)
    this.#stopKept = observeKept(this.metrics)
    for (const model of options.models ?? []) this.addModel(model)
  }

  get inFlight(): number {
    return this.#context.running.size
  }

  get engineConnections(): number {
    let count = 0
    for (const model of this.#context.hub.all())
      for (const worker of model.workers()) count += worker.link.connectionCount
    return count
  }

  async listen(): Promise<GatewayAddress> {
    const { adminListen, listen = {} } = this.#options
    const common = this.#doorOptions()
    const serves = adminListen ? 'clients' : 'all'
    const url = await this.#open(listen, createDoor({ ...common, serves })).catch(couldNotListen(false))
    const adminDoor = createDoor({ ...common, serves: 'admin' })
    const adminUrl = adminListen && (await this.#open(adminListen, adminDoor).catch(couldNotListen(true)))
    this.#caretaker.start()
    const { hostname, port } = new URL(url)
    return { url, host: hostname, port: Number(port), adminUrl }
  }

  accept(socket: AcceptedSocket): void {
    const serves = this.#options.adminListen ? 'clients' : 'all'
    this.#lobby ??= this.#newServer({}, createDoor({ ...this.#doorOptions(), serves }))
    this.#lobby.emit('connection', socket)
  }

  #doorOptions(): Omit<DoorOptions, 'serves'> {
    const admin = {
      setWorker: this.setWorker.bind(this),
      removeWorker: this.removeWorker.bind(this),
      drainWorker: this.drainWorker.bind(this),
      workers: this.workers.bind(this),
      steward: this.#options.steward,
    }
    return { context: this.#context, options: this.#options, admin }
  }

  addModel(spec: ModelSpec): void {
    const { deadlines, health, limits, log, now, hasher, meters, hub } = this.#context
    hub.requireFree(spec) // before it has timers and workers
    const model = new Model(spec, {
      deadlines,
      health,
      log,
      now,
      connect: this.#options.connect,
      hasher,
      metersOf: (name) => meters.of(name),
      sessionPeers: this.#options.sessionPeers,
      metrics: this.metrics,
      storedResponsesMax: limits.storedResponsesMax,
      onGone: (of, worker) => hub.left(of, worker.spec),
    })
    hub.add(model)
    for (const worker of spec.workers ?? []) this.#learnNames(model, worker, undefined)
  }

  setWorker(model: string, spec: WorkerSpec): void {
    const served = this.#context.hub.resolve(model).model
    const before = served.fleet.get(spec.id)?.spec
    served.setWorker(spec)
    this.#learnNames(served, spec, before)
  }

  /** A name that another model has keeps nobody from serving. */
  #learnNames(model: Model, spec: WorkerSpec, before: WorkerSpec | undefined): void {
    for (const name of this.#context.hub.told(model, spec, before))
      this.#context.log.debug({ worker: String(spec.id), model: model.name, name }, 'a name belongs to another model')
  }

  removeWorker(workerId: bigint): boolean {
    for (const model of this.#context.hub.all()) if (model.fleetOf(workerId)?.remove(workerId)) return true
    return false
  }

  async drainWorker(workerId: bigint): Promise<void> {
    for (const model of this.#context.hub.all()) {
      const fleet = model.fleetOf(workerId)
      if (fleet) return fleet.drain(workerId)
    }
    throw new WarmrouteError('WR_WORKER_NOT_FOUND', { reason: `worker ${workerId}` })
  }

  workerRestarted(workerId: bigint): void {
    for (const model of this.#context.hub.all()) model.restarted(workerId)
  }

  isDraining(workerId: bigint): boolean {
    for (const model of this.#context.hub.all())
      if (model.fleetOf(workerId)?.get(workerId)?.state === 'draining') return true
    return false
  }

  workers(): readonly WorkerReport[] {
    const reports: WorkerReport[] = []
    for (const model of this.#context.hub.all())
      for (const worker of model.workers())
        reports.push(reportOf(worker, model.name, model.spec.feedsOf?.(worker.id) ?? []))
    return reports
  }

  noteProgress(workerId: bigint): void {
    for (const model of this.#context.hub.all()) {
      const worker = model.fleetOf(workerId)?.get(workerId)
      if (worker) worker.progressAtMs = this.#context.now()
    }
  }

  isAnswering(workerId: bigint): boolean {
    const { now, health, hub } = this.#context
    for (const model of hub.all()) {
      const worker = model.fleetOf(workerId)?.get(workerId)
      if (worker) return worker.inFlight > 0 && now() - worker.progressAtMs < health.timeoutMs
    }
    return false
  }

  drain(): Promise<void> {
    return (this.#draining ??= this.#drain())
  }

  close(): Promise<void> {
    return (this.#closing ??= this.#close())
  }

  async #drain(): Promise<void> {
    const { running, deadlines, log, now } = this.#context
    this.#context.isEnding = true
    if (deadlines.graceMs > 0) await this.#whenNot(() => true, now() + deadlines.graceMs)
    this.#context.isDraining = true
    const under = [...running] // who comes later is refused, however many come
    const end = now() + deadlines.drainMs
    const isDrained = (await this.#whenOver(under, end)) && (await this.#whenSent(end))
    if (!isDrained) log.warn({ requests: running.size }, 'requests are given up, the time to drain is over')
    for (const request of running) request.giveUp(new WarmrouteError('WR_SHUTTING_DOWN', {}))
    const soon = now() + 1_000
    if ((await this.#whenOver(under, soon)) && !isDrained) await this.#whenSent(soon) // that they were given up
  }

  async #close(): Promise<void> {
    const { hub, running, callers, buffers, now } = this.#context
    await this.drain()
    await this.#caretaker.close()
    this.#gauges.close()
    this.#stopKept()
    const closed = this.#servers.map((server) => new Promise<void>((resolve) => server.close(() => resolve())))
    callers.cutAll()
    await this.#whenOver([...running], now() + 1_000) // whose bodies had not arrived
    await Promise.all(closed)
    await this.#whenNot(() => callers.connectionCount > 0, now() + 1_000) // a server is closed before its sockets have said so
    buffers.close()
    for (const model of hub.all()) await model.close()
  }

  #whenOver(requests: readonly UnderWay[], endMs: number): Promise<boolean> {
    const { running } = this.#context
    return this.#whenNot(() => requests.some((it) => running.has(it)), endMs)
  }

  /** A request is over when its answer is written; a slow client takes it after that. */
  #whenSent(endMs: number): Promise<boolean> {
    const unsent = this.#context.callers.unsent() // who comes later is not waited for
    return this.#whenNot(() => unsent.some(hasUnsent), endMs)
  }

  async #whenNot(isGoingOn: () => boolean, endMs: number): Promise<boolean> {
    const { now } = this.#context
    while (isGoingOn() && now() < endMs) await pause(5)
    return !isGoingOn()
  }

  #newServer({ tls }: ListenOptions, handler: RequestListener): Server {
    const { limits, callers, shape, overloadStatus } = this.#context
    const settings = {
      IncomingMessage: ClientMessage,
      requireHostHeader: false, // the door asks for it, and says so in the client's own words
      maxHeaderSize: limits.headerBytesMax,
      requestTimeout: 0, // bodies have a deadline of their own
      headersTimeout: 60_000,
      keepAliveTimeout: 65_000,
      noDelay: true,
    }
    const server = tls ? createTlsServer({ ...settings, ...tls }, handler) : createServer(settings, handler)
    server.maxHeadersCount = limits.headersMax + 1 // it leaves out what is more, and the door refuses it
    if (tls) server.on('connection', (socket: Socket) => callers.meet(socket))
    server.on(tls ? 'secureConnection' : 'connection', (socket: Socket) => callers.watch(socket))
    server.on('checkContinue', handler) // whoever reads the body asks for it
    server.on('checkExpectation', handler)
    const refusing = { callers, shape, overloadStatus, counted: this.metrics.unreadableRequests }
    server.on('clientError', (error: ParserError, socket) => refuseUnreadable(error, socket, refusing))
    server.on('connect', (_request, socket) => refuseTunnel(socket, refusing))
    return server
  }

  async #open(listen: ListenOptions, handler: RequestListener): Promise<string> {
    const { host = '127.0.0.1', port = 8080, tls } = listen
    const server = this.#newServer(listen, handler)
    this.#servers.push(server)
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(port, host, () => {
        server.off('error', reject)
        resolve()
      })
    })
    const address = server.address() as AddressInfo
    const shown = address.family === 'IPv6' ? `[${address.address}]` : address.address
    return `${tls ? 'https' : 'http'}://${shown}:${address.port}`
  }
}

/** Says at which of the two doors it was. */
function couldNotListen(isAdmin: boolean): (cause: Error) => never {
  return (cause) => {
    throw new WarmrouteError('WR_BOOT_FAILED', { reason: cause.message, isAdmin }, { cause })
  }
}

function contextOf(options: GatewayOptions, metrics: Metrics): GatewayContext {
  const { now = () => performance.now(), random = Math.random, usageSampleEvery = 8 } = options
  const deadlines = { ...defaultDeadlines, ...options.deadlines }
  const limits = { ...defaultLimits, ...options.limits }
  const isStrict = options.strict === 'dynamo'
  const boot = Math.floor(random() * 2 ** 32).toString(36)
  let requests = 0
  let streams = 0
  return {
    hub: new ModelHub(now),
    meters: new Meters(metrics),
    stages: new StageMeters(metrics),
    clock: new DeadlineClock(deadlines, options.keepAliveMs ?? 15_000, now),
    turns: new LoopTurns(now),
    callers: new Callers(),
    buffers: new BufferPool(),
    budget: new BodyBudget(limits.bodiesBytesMax),
    log: options.log ?? silent,
    tracer: options.tracer ?? installedTracer(),
    onEnded: options.onEnded,
    now,
    random,
    hasher: createBlockHasher(),
    limits,
    deadlines,
    health: { ...defaultHealth, ...options.health },
    isStrict,
    shape: isStrict ? 'dynamo' : 'openai',
    overloadStatus: options.overloadStatus ?? 529,
    usageSampleEvery,
    allowedEngineFields: new Set(options.allowedEngineFields),
    showsWorker: options.showsWorker ?? true,
    passesAuthorization: (options.apiKeyHashes ?? []).length === 0,
    hop: `warmroute-${boot}`,
    running: new Roster('seat'),
    isEnding: false,
    isDraining: false,
    nextRequestId: () => `${boot}-${(++requests).toString(36)}`,
    awaitsWorkers: () => (options.steward?.absent() ?? []).length > 0,
    samplesUsage: () => usageSampleEvery > 0 && streams++ % usageSampleEvery === 0,
  }
}
