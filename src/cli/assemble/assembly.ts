/**
 * A running router from addresses: finds out what is behind each, gives every model its router, tokens and event
 * streams, and keeps the gateway told of who is there and how well their caches are known. `serve` and `demo` are this
 * with words around it.
 */
import { setMaxListeners } from 'node:events'
import type { EngineFacts } from '../../engines/index.js'
import { namesPairs } from '../../engines/index.js'
import type {
  AbsentWorker,
  AddedWorker,
  Gateway,
  GatewayAddress,
  Log,
  OtherDialect,
  WorkerSteward,
} from '../../server/index.js'
import { createGateway, observeTokens } from '../../server/index.js'
import { TokenService } from '../../tokens/index.js'
import { absenceOf } from './absence.js'
import type { AddressReport, AssemblyOptions } from './assembly-options.js'
import { CacheMemory } from './cache-memory.js'
import { DecisionLog } from './decision-log.js'
import { findSockets, usualPorts } from './find-sockets.js'
import type { Joined } from './joined.js'
import {
  isOtherShape,
  nameOf,
  requireServed,
  roleOf,
  servesAsSaid,
  sourcesOf,
  sourcesText,
  specOf,
  specText,
  starting,
} from './joined.js'
import { judgeJoined } from './judge-joined.js'
import { LookGate } from './look-gate.js'
import { ModelRuntimes } from './model-runtimes.js'
import { modelSpecOf } from './model-spec.js'
import type { TokenView } from './token-hosts.js'
import { TokenHosts } from './token-hosts.js'
import { TokenNews } from './token-news.js'
import type { KeeperHouse, KeeperTimes, WorkerAddress } from './worker-keeper.js'
import { isOtherProcess, keeperTimes, WorkerKeeper } from './worker-keeper.js'

const refreshMs = 100
const changedMs = 10
const silent: Log = { debug() {}, info() {}, warn() {} }

export class Assembly implements KeeperHouse {
  readonly gateway: Gateway
  readonly #options: AssemblyOptions
  readonly #log: Log
  readonly #decisions: DecisionLog | undefined
  readonly #tokens = new TokenService({ threads: 1 })
  readonly #keepers = new Map<bigint, WorkerKeeper>()
  /** What an admin said of workers that were added while we run. */
  readonly #added = new Map<bigint, AddedWorker>()
  readonly #ending = new Set<Promise<void>>()
  readonly #times: KeeperTimes
  readonly #gate = new LookGate()
  readonly #runtimes: ModelRuntimes
  /** They answer and are not in yet: prefill workers of a model that nobody decodes, and who was refused. */
  readonly #early = new Map<bigint, { readonly keeper: WorkerKeeper; readonly facts: EngineFacts }>()
  readonly #joined = new Map<bigint, Joined>()
  /** Why those who answer were not taken in. */
  readonly #refusals = new Map<bigint, string>()
  readonly #tokenHosts: TokenHosts
  readonly #tokenNews: TokenNews
  readonly #listeners = new Set<() => void>()
  readonly #stop = new AbortController()
  readonly #timer: NodeJS.Timeout
  readonly #memory: CacheMemory | undefined
  /** Goes because it does not answer, and may come back. */
  #leaving: bigint | undefined
  #refreshing: NodeJS.Timeout | undefined
  #closing: Promise<void> | undefined
  #isClosed = false

  constructor(options: AssemblyOptions) {
    this.#options = options
    setMaxListeners(0, this.#stop.signal) // whatever is asked of a worker or for a model listens until it is answered
    this.#log = options.log ?? silent
    this.#tokenNews = new TokenNews(this.#log)
    this.#times = { ...keeperTimes, ...options.times }
    const steward: WorkerSteward = {
      takenIds: () => this.#keepers.keys(),
      added: (it) => this.#adopt(it),
      absent: () => this.#absent(),
      forget: (workerId) => this.#forget(workerId),
    }
    this.gateway = createGateway({
      ...options.gateway,
      steward,
      tokenizers: {
        status: (model) => this.#tokenHosts.status(model),
        replace: (model, path, signal) => this.#tokenHosts.replace(model, path, signal),
      },
      log: this.#log,
      onEnded: options.decisionLog && ((ended) => this.#decisions?.add(ended)),
    })
    const { metrics } = this.gateway
    const epochMs = Date.now() - performance.now()
    this.#decisions =
      options.decisionLog && new DecisionLog({ ...options.decisionLog, metrics, log: this.#log, epochMs })
    this.#memory =
      options.snapshot &&
      new CacheMemory({
        ...options.snapshot,
        images: () => this.#runtimes.images(),
        metrics,
        log: this.#log,
      })
    observeTokens(metrics, this.#tokens)
    this.#tokenHosts = new TokenHosts({
      tokens: this.#tokens,
      places: options.tokenPlaces,
      joined: () => this.#joined.values(),
      failed: ({ keeper }, error) => this.failed(keeper, error),
      signal: this.#stop.signal,
      now: () => performance.now(),
    })
    this.#runtimes = this.#newRuntimes()
    this.#timer = setInterval(() => this.#refresh(), refreshMs)
    this.#timer.unref()
    for (const [at, address] of options.workers.entries()) this.#keep(BigInt(at + 1), address)
  }

  listen(): Promise<GatewayAddress> {
    return this.gateway.listen()
  }

  /** Settles when every address was looked at once, and all are judged by what is known by then: tokens that one joined without may have come. */
  async looked(): Promise<void> {
    await Promise.all([...this.#keepers.values()].map((keeper) => keeper.firstLook))
    if (!this.#stop.signal.aborted) this.#refresh()
  }

  /** True as soon as the reports satisfy `fits`; false when the time is over. */
  until(fits: (reports: readonly AddressReport[]) => boolean, timeoutMs: number): Promise<boolean> {
    if (fits(this.reports())) return Promise.resolve(true)
    if (this.#stop.signal.aborted) return Promise.resolve(false)
    return new Promise((resolve) => {
      const end = (isMet: boolean): void => {
        clearTimeout(timer)
        this.#listeners.delete(look)
        resolve(isMet)
      }
      const look = (): void => {
        if (this.#stop.signal.aborted) end(false)
        else if (fits(this.reports())) end(true)
      }
      const timer = setTimeout(() => end(false), timeoutMs)
      this.#listeners.add(look)
    })
  }

  /** Nobody joins any more. */
  get isOver(): boolean {
    return this.#stop.signal.aborted
  }

  reports(): AddressReport[] {
    const viewOf = this.#tokenHosts.viewer()
    return [...this.#keepers.values()].map((keeper) => {
      const joined = this.#joined.get(keeper.id)
      const model = joined?.runtime.name
      return {
        workerId: keeper.id,
        url: keeper.address.url,
        state: keeper.state,
        absence: joined ? undefined : absenceOf(keeper, this.#refusals.get(keeper.id), this.#early.has(keeper.id)),
        facts: joined?.facts,
        model,
        role: joined?.role,
        tokens: joined && viewOf(joined).status,
        verdict: joined?.verdict,
        isJoining: joined?.isJoining ?? false,
        batches: joined ? joined.runtime.batchesOf(keeper.id) : 0,
        restarts: keeper.restarts,
      }
    })
  }

  /** What was booked when the last request had ended: 0, or a request was lost. Undefined until it is closed. */
  get bookingsLeft(): number | undefined {
    return this.#isClosed ? this.#runtimes.bookingsLeft : undefined
  }

  /** Streams may end until the gateway's deadline; settles when no socket, timer or thread is left. */
  close(): Promise<void> {
    return (this.#closing ??= this.#close())
  }

  // ---- what keepers tell

  async join(keeper: WorkerKeeper, facts: EngineFacts): Promise<void> {
    await this.#memory?.isRead
    const added = this.#added.get(keeper.id)
    const role = roleOf(keeper, facts)
    const name = added?.model ?? nameOf(facts)
    if (role === 'prefill' && !this.#runtimes.has(name)) {
      this.#early.set(keeper.id, { keeper, facts })
      return
    }
    if (added && !this.#runtimes.has(name)) requireServed(facts, added)
    const main = await this.#runtimes.of(facts, name)
    const runtime = role === 'prefill' ? await this.#runtimes.prefillOf(keeper, facts, main) : main
    if (this.#stop.signal.aborted || this.#keepers.get(keeper.id) !== keeper || keeper.state === 'dismissed') return
    const first = { found: [], verdict: starting, judged: undefined, batches: 0, isJoining: true }
    const joined: Joined = { keeper, runtime, role, facts, added, ...first }
    this.#joined.set(keeper.id, joined)
    this.#admit(joined)
    this.#refusals.delete(keeper.id)
    this.#follow(joined)
    this.#findSockets(joined)
    await this.#tokenHosts.find(runtime.name).finally(() => (joined.isJoining = false))
    if (this.#joined.get(keeper.id) === joined) this.#judge(joined, this.#tokenHosts.viewer()(joined))
    this.#changed()
    if (role !== 'prefill') await this.#joinEarly(name)
  }

  async seen(keeper: WorkerKeeper, facts: EngineFacts, before: EngineFacts): Promise<void> {
    const joined = this.#joined.get(keeper.id)
    if (!joined) return this.join(keeper, facts)
    if (nameOf(facts) !== nameOf(before) || isOtherShape(facts, before)) {
      this.leave(keeper) // another model or another number of ranks is another worker
      return this.join(keeper, facts)
    }
    if (facts !== joined.facts) this.#learn(joined, facts, before)
    if (!this.#tokenHosts.hasTokens(joined.runtime.name)) await this.#tokenHosts.find(joined.runtime.name)
  }

  isIn(keeper: WorkerKeeper): boolean {
    return this.#joined.has(keeper.id) || this.#early.has(keeper.id)
  }

  isAnswering(keeper: WorkerKeeper): boolean {
    return this.gateway.isAnswering(keeper.id)
  }

  /** One that was draining has done so: nobody brings it back. */
  leave(keeper: WorkerKeeper): void {
    const isDraining = this.gateway.isDraining(keeper.id)
    this.#early.delete(keeper.id)
    const joined = this.#joined.get(keeper.id)
    if (!joined) return
    this.#joined.delete(keeper.id)
    this.#leaving = keeper.id
    this.gateway.removeWorker(keeper.id)
    joined.runtime.port.removeWorker(keeper.id) // the gateway does not know one that it refused
    this.#leaving = undefined
    if (isDraining) this.#dismiss(keeper.id)
    this.#tokenHosts.left(joined)
    this.#changed()
  }

  failed(keeper: WorkerKeeper, error: unknown): void {
    if (!this.#joined.has(keeper.id) && keeper.state !== 'dismissed')
      this.#refusals.set(keeper.id, error instanceof Error ? error.message : String(error))
    this.#log.warn({ url: keeper.address.url, error: String(error) }, 'a worker could not join')
  }

  // ---- how it is done

  #keep(id: bigint, address: WorkerAddress): void {
    this.#keepers.set(id, new WorkerKeeper(id, address, this, this.#times, this.#gate))
  }

  /** Of a worker that an admin added everything is found out as of the others; what was said of it holds. */
  #adopt(added: AddedWorker): void {
    const { spec, events, replay } = added
    this.#dismiss(spec.id)
    this.#added.set(spec.id, added)
    const { url, apiKey, role, transfer } = spec
    this.#keep(spec.id, { url, apiKey, role, transfer, events, replay })
  }

  #absent(): readonly AbsentWorker[] {
    return this.reports().flatMap(({ workerId: id, url, state, absence: reason }) => {
      if (reason === undefined || state === 'dismissed') return []
      const facts = this.#early.get(id)?.facts
      return [{ id, url, model: this.#added.get(id)?.model ?? (facts && nameOf(facts)), reason }]
    })
  }

  #forget(id: bigint): boolean {
    const keeper = this.#keepers.get(id)
    if (!keeper || keeper.state === 'dismissed') return false
    this.#dismiss(id)
    this.#changed()
    return true
  }

  #dismiss(id: bigint): void {
    const keeper = this.#keepers.get(id)
    if (!keeper) return
    keeper.dismiss()
    this.#early.delete(id)
    this.#refusals.delete(id)
    const joined = this.#joined.get(id)
    this.#joined.delete(id)
    if (this.#added.delete(id)) this.#keepers.delete(id) // one that was configured is still shown
    const ending: Promise<void> = keeper.close().finally(() => this.#ending.delete(ending))
    this.#ending.add(ending)
    if (joined) this.#tokenHosts.left(joined)
  }

  /** Somebody decodes the model now. */
  async #joinEarly(name: string): Promise<void> {
    const early = [...this.#early].filter(([id, { facts }]) => (this.#added.get(id)?.model ?? nameOf(facts)) === name)
    for (const [id, { keeper, facts }] of early) {
      if (!this.#early.delete(id)) continue
      await this.join(keeper, facts).catch((error: unknown) => this.#refused(keeper, facts, error))
    }
  }

  /** A worker that is in was asked everything again, and may have been restarted. */
  #learn(joined: Joined, facts: EngineFacts, before: EngineFacts): void {
    const { keeper, runtime } = joined
    const said = specText(joined)
    joined.facts = facts
    if (specText(joined) !== said) this.#admit(joined) // capacities may change without any change of mode
    runtime.setUsableBlocks(keeper.id, facts.usableBlocks?.value)
    const isRestarted = isOtherProcess(facts, before)
    if (sourcesText(joined, facts) !== sourcesText(joined, before)) this.#follow(joined)
    else if (isRestarted) {
      this.#log.info({ worker: String(keeper.id) }, 'an engine was restarted')
      runtime.incarnationChanged(keeper.id, facts.incarnation!.value)
      this.#findSockets(joined)
    }
    if (!isRestarted) return
    this.gateway.workerRestarted(keeper.id)
    this.#tokenHosts.left(joined) // its tokenizer and template may be others now
  }

  /** Throws when the gateway refuses it, such as a prefill worker of another pool; then nobody may choose it. */
  #admit(joined: Joined): void {
    const { keeper, runtime, role } = joined
    const spec = specOf(joined)
    try {
      if (role === 'prefill') runtime.port.setWorker(spec.id, spec.config!) // before its events: a stream belongs to a known rank
      this.gateway.setWorker(runtime.name, spec)
    } catch (error) {
      this.leave(keeper)
      throw error
    }
  }

  /** Not by its own keeper's look: the next one tries again. */
  #refused(keeper: WorkerKeeper, facts: EngineFacts, error: unknown): void {
    if (keeper.state !== 'dismissed') this.#early.set(keeper.id, { keeper, facts })
    this.failed(keeper, error)
  }

  #newRuntimes(): ModelRuntimes {
    const { config, policy = 'kv', policies, prefillLoadEstimator } = this.#options
    const { enforceDisagg = false, prefillFallback = true } = this.#options
    return new ModelRuntimes({
      policy,
      config,
      policies,
      prefillLoadEstimator,
      enforceDisagg,
      prefillFallback,
      metrics: this.gateway.metrics,
      log: this.#log,
      now: () => performance.now(),
      onRemoved: (workerId) => this.#removed(workerId),
      memory: this.#memory,
      prefillProfile: this.#options.prefillProfile,
      onModel: (runtime, facts, disagg) => {
        const others = (): readonly OtherDialect[] => this.#tokenHosts.others(runtime.name)
        const said = { config, rules: this.#options.rules?.(runtime.name) }
        const parts = { ...said, tokens: this.#tokens, others, joined: this.#joined }
        this.gateway.addModel(modelSpecOf({ runtime, facts, disagg, ...parts }))
      },
    })
  }

  #follow(joined: Joined): void {
    const { keeper, runtime, facts, added } = joined
    if (added && !servesAsSaid(facts, added)) {
      this.#log.warn({ worker: String(keeper.id), model: added.model }, 'a worker that was added serves another model')
      return
    }
    const isSameBlock = facts.blockSize === undefined || facts.blockSize.value === runtime.blockSize
    const isSameName = namesPairs(facts) === runtime.isEagle
    if (!runtime.looksAtCaches || !isSameBlock || !isSameName) return
    const { url, apiKey, events } = keeper.address
    const intervalMs = this.#options.trtllmPollMs ?? 0
    // Only who was told to: whoever polls empties the queue for everybody else.
    if (facts.kind.value === 'trtllm' && intervalMs > 0 && events === undefined)
      runtime.poll(keeper.id, { url, apiKey, intervalMs }, facts)
    else runtime.follow(keeper.id, sourcesOf(joined, facts), facts)
  }

  /** Beside everything else: it sends a prompt, and waits for its events. */
  #findSockets(joined: Joined): void {
    const { keeper, runtime, facts } = joined
    if (!runtime.looksAtCaches || facts.eventSources || keeper.address.events !== undefined) return
    const ports = this.#options.usualPorts ?? usualPorts
    const search: Promise<void> = findSockets(keeper.address, facts, ports, this.#stop.signal)
      .then((found) => {
        if (found.length === 0 || this.#joined.get(keeper.id) !== joined || this.#stop.signal.aborted) return
        const before = sourcesText(joined, joined.facts)
        joined.found = found
        this.#log.info({ worker: String(keeper.id), endpoint: found[0]!.endpoint }, 'events of a worker were found')
        if (sourcesText(joined, joined.facts) !== before) this.#follow(joined)
      })
      .catch((error: unknown) => this.failed(keeper, error))
      .finally(() => this.#ending.delete(search))
    this.#ending.add(search)
  }

  /** An admin took it away, or `leave` did and knows already. */
  #removed(workerId: bigint): void {
    if (!this.#stop.signal.aborted && this.#leaving !== workerId) this.#dismiss(workerId)
  }

  #refresh(): void {
    clearTimeout(this.#refreshing)
    this.#refreshing = undefined
    this.#tokenHosts.relieve()
    const viewOf = this.#tokenHosts.viewer()
    for (const joined of this.#joined.values()) this.#judge(joined, viewOf(joined))
    for (const said of this.#tokenHosts.statuses()) this.#tokenNews.look(...said, performance.now())
    this.#tell()
  }

  #judge(joined: Joined, view: TokenView): void {
    const { keeper, runtime, facts, verdict } = joined
    const batches = runtime.batchesOf(keeper.id)
    if (batches !== joined.batches) this.gateway.noteProgress(keeper.id)
    joined.batches = batches
    runtime.withholdDoubtful(keeper.id)
    const now = judgeJoined(joined, view)
    if (!now) return
    joined.verdict = now
    runtime.setExact(keeper.id, now.mode === 'exact')
    try {
      this.#admit(joined)
    } catch (error) {
      this.#refused(keeper, facts, error) // it has become something else meanwhile
      return
    }
    if (now.mode === verdict.mode) return
    const { mode, reason } = now
    this.#log.info(
      { worker: String(keeper.id), url: keeper.address.url, mode, reason },
      'what is known of a cache has changed',
    )
  }

  /** Soon, and once for as many changes as there are until then: every worker is judged, and whoever listens reads the report of each. */
  #changed(): void {
    if (!this.#stop.signal.aborted) this.#refreshing ??= setTimeout(() => this.#refresh(), changedMs).unref()
  }

  #tell(): void {
    for (const listener of this.#listeners) listener()
  }

  async #close(): Promise<void> {
    await this.gateway.drain() // workers are watched until their last request is over
    this.#stop.abort()
    clearInterval(this.#timer)
    clearTimeout(this.#refreshing)
    this.#tell()
    await Promise.all([...[...this.#keepers.values()].map((keeper) => keeper.close()), ...this.#ending])
    await this.gateway.close()
    await this.#decisions?.close()
    await this.#memory?.close()
    await this.#runtimes.close()
    await this.#tokens.close()
    this.#isClosed = true
    const { bookingsLeft } = this.#runtimes
    if (bookingsLeft > 0) this.#log.warn({ bookings: bookingsLeft }, 'requests that had ended were still booked')
  }
}
