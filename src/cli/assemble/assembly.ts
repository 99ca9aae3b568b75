/**
 * A running router from addresses: finds out what is behind each, gives every model its router, tokens and event
 * streams, and keeps the gateway told of who is there and how well their caches are known. `serve` and `demo` are this
 * with words around it.
 */
import type { LoadThresholds } from '../../core/load/index.js'
import type { ConditionalSettings } from '../../core/prefill/index.js'
import type { RouterConfig, WorkerConfig } from '../../core/protocol/index.js'
import type { PolicyConfig } from '../../core/queue/index.js'
import type { EngineFacts, EventSourceFact, TransferFacts } from '../../engines/index.js'
import { connectorOf, leaseMsOf } from '../../engines/index.js'
import type { RouterPort } from '../../routing/index.js'
import { prefillRouterConfig } from '../../routing/index.js'
import type {
  DisaggSpec,
  Gateway,
  GatewayAddress,
  GatewayOptions,
  Log,
  PolicyName,
  PrefillPool,
  WorkerRole,
  WorkerSpec,
} from '../../server/index.js'
import { createGateway, createServiceTokenizer, prefillPoolOf } from '../../server/index.js'
import type { ModelStatus } from '../../tokens/index.js'
import { TokenService } from '../../tokens/index.js'
import { ModelRuntime } from './model-runtime.js'
import type { KeeperHouse, KeeperState, KeeperTimes, WorkerAddress } from './worker-keeper.js'
import { keeperTimes, WorkerKeeper } from './worker-keeper.js'
import type { ModeVerdict } from './worker-mode.js'
import { judgeMode } from './worker-mode.js'

export interface AssemblyOptions {
  readonly workers: readonly WorkerAddress[]
  readonly config: RouterConfig
  readonly policy?: 'kv' | PolicyName
  /** Classes of requests, from `router_policy_config`. */
  readonly policies?: PolicyConfig | undefined
  readonly thresholds?: LoadThresholds
  /** Remote prefill or nothing. */
  readonly enforceDisagg?: boolean
  /** A prefill that failed is done by the decode worker; not where disaggregation is enforced. */
  readonly prefillFallback?: boolean
  readonly gateway?: Omit<GatewayOptions, 'models' | 'log'>
  /** A folder with the tokenizer of the model; otherwise it is looked for, and the engine is asked last. */
  readonly tokenizerPath?: string | undefined
  /** Cache of Hugging Face tools on this machine. */
  readonly hubCache?: string | undefined
  readonly times?: Partial<KeeperTimes>
  readonly log?: Log
}

/** What a person wants to know of one address. */
export interface AddressReport {
  readonly workerId: bigint
  readonly url: string
  readonly state: KeeperState
  readonly facts: EngineFacts | undefined
  readonly model: string | undefined
  readonly role: WorkerRole | undefined
  readonly tokens: ModelStatus | undefined
  readonly verdict: ModeVerdict | undefined
  /** Event batches applied since it joined. */
  readonly batches: number
  /** How often the engine was seen to be another process. */
  readonly restarts: number
}

interface Joined {
  readonly keeper: WorkerKeeper
  readonly runtime: ModelRuntime
  readonly role: WorkerRole
  facts: EngineFacts
  verdict: ModeVerdict
  batches: number
  restarts: number
}

const refreshMs = 100
const blockSizeUnknown = 16
const silent: Log = { debug() {}, info() {}, warn() {} }

export class Assembly implements KeeperHouse {
  readonly gateway: Gateway
  readonly #options: AssemblyOptions
  readonly #log: Log
  readonly #tokens = new TokenService({ threads: 1 })
  readonly #keepers: readonly WorkerKeeper[]
  readonly #runtimes = new Map<string, Promise<ModelRuntime>>()
  /** Of prefill workers, by model and pool. */
  readonly #prefillRuntimes = new Map<string, Promise<ModelRuntime>>()
  /** Prefill workers whose model is not known yet: nobody decodes it. */
  readonly #early = new Map<bigint, { readonly keeper: WorkerKeeper; readonly facts: EngineFacts }>()
  readonly #joined = new Map<bigint, Joined>()
  readonly #tokenHosts = new Map<string, bigint>()
  readonly #listeners = new Set<() => void>()
  readonly #stop = new AbortController()
  readonly #timer: NodeJS.Timeout
  #closing: Promise<void> | undefined

  constructor(options: AssemblyOptions) {
    this.#options = options
    this.#log = options.log ?? silent
    this.gateway = createGateway({ ...options.gateway, log: this.#log })
    this.#timer = setInterval(() => this.#refresh(), refreshMs)
    this.#timer.unref()
    const times = { ...keeperTimes, ...options.times }
    this.#keepers = options.workers.map((address, at) => new WorkerKeeper(BigInt(at + 1), address, this, times))
  }

  listen(): Promise<GatewayAddress> {
    return this.gateway.listen()
  }

  /** Settles when every address was looked at once. */
  async looked(): Promise<void> {
    await Promise.all(this.#keepers.map((keeper) => keeper.firstLook))
  }

  /** True as soon as the reports satisfy `fits`; false when the time is over. */
  until(fits: (reports: readonly AddressReport[]) => boolean, timeoutMs: number): Promise<boolean> {
    if (fits(this.reports())) return Promise.resolve(true)
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

  reports(): AddressReport[] {
    return this.#keepers.map((keeper) => {
      const joined = this.#joined.get(keeper.id)
      const model = joined?.runtime.name
      return {
        workerId: keeper.id,
        url: keeper.address.url,
        state: keeper.state,
        facts: joined?.facts,
        model,
        role: joined?.role,
        tokens: model === undefined ? undefined : this.#tokens.status(model),
        verdict: joined?.verdict,
        batches: joined ? joined.runtime.batchesOf(keeper.id) : 0,
        restarts: joined?.restarts ?? 0,
      }
    })
  }

  /** Streams may end until the gateway's deadline; settles when no socket, timer or thread is left. */
  close(): Promise<void> {
    return (this.#closing ??= this.#close())
  }

  // ---- what keepers tell

  async join(keeper: WorkerKeeper, facts: EngineFacts): Promise<void> {
    const role = roleOf(keeper, facts)
    const name = nameOf(facts)
    if (role === 'prefill' && !this.#runtimes.has(name)) {
      this.#early.set(keeper.id, { keeper, facts })
      return
    }
    const main = await this.#runtimeFor(facts)
    const runtime = role === 'prefill' ? await this.#prefillRuntimeFor(keeper, facts, main) : main
    if (this.#stop.signal.aborted) return
    const joined: Joined = { keeper, runtime, role, facts, verdict: starting, batches: 0, restarts: 0 }
    this.#joined.set(keeper.id, joined)
    const spec = specOf(joined)
    if (role === 'prefill') runtime.port.setWorker(spec.id, spec.config!) // before its events: a stream belongs to a known rank
    this.gateway.setWorker(runtime.name, spec)
    this.#follow(joined)
    await this.#findTokens(runtime)
    this.#refresh()
    if (role !== 'prefill') await this.#joinEarly(name)
  }

  async seen(keeper: WorkerKeeper, facts: EngineFacts, before: EngineFacts): Promise<void> {
    const joined = this.#joined.get(keeper.id)
    if (!joined) {
      if (this.#early.has(keeper.id)) await this.join(keeper, facts)
      return
    }
    joined.facts = facts
    if (nameOf(facts) !== nameOf(before) || isOtherShape(facts, before)) {
      this.leave(keeper) // another model or another number of ranks is another worker
      return this.join(keeper, facts)
    }
    if (sourcesText(keeper, facts) !== sourcesText(keeper, before)) this.#follow(joined)
    else if (facts.incarnation && before.incarnation && facts.incarnation.value !== before.incarnation.value) {
      this.#log.info({ worker: String(keeper.id) }, 'an engine was restarted')
      joined.restarts++
      joined.runtime.incarnationChanged(keeper.id)
    }
    if (this.#tokens.status(joined.runtime.name).source === 'none') await this.#findTokens(joined.runtime)
  }

  leave(keeper: WorkerKeeper): void {
    this.#early.delete(keeper.id)
    const joined = this.#joined.get(keeper.id)
    if (!joined) return
    this.#joined.delete(keeper.id)
    this.gateway.removeWorker(keeper.id)
    this.#tokenHostLeft(joined)
    this.#changed()
  }

  failed(keeper: WorkerKeeper, error: unknown): void {
    this.#log.warn({ url: keeper.address.url, error: String(error) }, 'a worker could not join')
  }

  // ---- how it is done

  #runtimeFor(facts: EngineFacts): Promise<ModelRuntime> {
    const name = nameOf(facts)
    let runtime = this.#runtimes.get(name)
    if (!runtime) {
      runtime = this.#createRuntime(name, facts)
      this.#runtimes.set(name, runtime)
      runtime.catch(() => this.#runtimes.delete(name)) // the next look tries again
    }
    return runtime
  }

  /** Somebody decodes the model now. */
  async #joinEarly(name: string): Promise<void> {
    for (const [id, { keeper, facts }] of this.#early) {
      if (nameOf(facts) !== name) continue
      this.#early.delete(id)
      await this.join(keeper, facts).catch((error: unknown) => this.failed(keeper, error))
    }
  }

  #prefillRuntimeFor(keeper: WorkerKeeper, facts: EngineFacts, main: ModelRuntime): Promise<ModelRuntime> {
    const blockSize = facts.blockSize?.value
    const spec = {
      id: keeper.id,
      url: keeper.address.url,
      engine: facts.kind.value,
      transfer: transferOf(keeper, facts),
      blockSize,
    }
    return this.#prefillRuntime(main.name, prefillPoolOf(spec, main.blockSize))
  }

  /** The router among prefill workers: the decode router's settings, without what only decoding needs. */
  #prefillRuntime(name: string, { identity, blockSize }: PrefillPool): Promise<ModelRuntime> {
    const key = `${name}\0${identity}`
    let runtime = this.#prefillRuntimes.get(key)
    if (!runtime) {
      const { config, policy = 'kv', policies } = this.#options
      runtime = ModelRuntime.create({
        name,
        blockSize,
        policy,
        config: prefillRouterConfig(config),
        policies,
        workerType: 'prefill',
        metrics: this.gateway.metrics,
        log: this.#log,
        now: () => performance.now(),
        onRemoved: (workerId) => this.#removed(workerId),
      })
      this.#prefillRuntimes.set(key, runtime)
      runtime.catch(() => this.#prefillRuntimes.delete(key))
    }
    return runtime
  }

  async #closePrefill(port: RouterPort): Promise<void> {
    for (const [key, promise] of this.#prefillRuntimes) {
      const runtime = await promise
      if (runtime.port !== port) continue
      this.#prefillRuntimes.delete(key)
      await runtime.close()
    }
  }

  #disaggOf(name: string): DisaggSpec {
    const { config, enforceDisagg = false, prefillFallback = true } = this.#options
    return {
      enforce: enforceDisagg,
      fallsBack: prefillFallback,
      conditional: config.conditionalDisaggEnabled ? conditionalOf(config) : undefined,
      openPrefill: async (pool) => (await this.#prefillRuntime(name, pool)).port,
      closePrefill: (port) => this.#closePrefill(port),
    }
  }

  async #createRuntime(name: string, facts: EngineFacts): Promise<ModelRuntime> {
    const { config, policy = 'kv', policies, thresholds } = this.#options
    const blockSize = facts.blockSize?.value ?? blockSizeUnknown
    const runtime = await ModelRuntime.create({
      name,
      blockSize,
      policy,
      config,
      policies,
      metrics: this.gateway.metrics,
      log: this.#log,
      now: () => performance.now(),
      onRemoved: (workerId) => this.#removed(workerId),
    })
    const [first, ...others] = facts.models!.value
    this.gateway.addModel({
      name,
      aliases: others.map((model) => model.name),
      adapters: (facts.adapters?.value ?? []).map((adapter) => adapter.name),
      blockSize,
      router: runtime.port,
      tokenizer: createServiceTokenizer(this.#tokens, { model: name }),
      tracksOutputBlocks: config.routerTrackOutputBlocks,
      disagg: this.#disaggOf(name),
      figures: () => ({ index: runtime.indexFigures }),
      ...(thresholds ? { thresholds } : {}),
      ...(first!.contextTokens === undefined ? {} : { contextWindow: first!.contextTokens }),
    })
    return runtime
  }

  #follow({ keeper, runtime, facts }: Joined): void {
    const isSameBlock = facts.blockSize === undefined || facts.blockSize.value === runtime.blockSize
    if (runtime.looksAtCaches && isSameBlock) runtime.follow(keeper.id, sourcesOf(keeper, facts), facts)
  }

  /** Files of the model first; an engine that serves it, where there are none. */
  async #findTokens(runtime: ModelRuntime): Promise<void> {
    if (!runtime.looksAtCaches || this.#tokenHosts.has(runtime.name)) return
    const host = [...this.#joined.values()].find((it) => it.runtime.name === runtime.name && dialectOf(it.facts))
    if (!host) return
    this.#tokenHosts.set(runtime.name, host.keeper.id)
    const { url, apiKey } = host.keeper.address
    const { tokenizerPath, hubCache } = this.#options
    await this.#tokens.setModel(
      runtime.name,
      {
        path: tokenizerPath,
        model: host.facts.tokenizer?.value,
        hubCache,
        engine: {
          url,
          dialect: dialectOf(host.facts)!,
          ...(apiKey === undefined ? {} : { headers: { authorization: `Bearer ${apiKey}` } }),
        },
      },
      this.#stop.signal,
    )
  }

  #tokenHostLeft({ keeper, runtime }: Joined): void {
    if (this.#tokenHosts.get(runtime.name) !== keeper.id) return
    this.#tokenHosts.delete(runtime.name)
    if (this.#tokens.status(runtime.name).source !== 'engine') return
    this.#findTokens(runtime).catch((error: unknown) => this.failed(keeper, error))
  }

  /** An admin took it away, or `leave` did and knows already. */
  #removed(workerId: bigint): void {
    const joined = this.#joined.get(workerId)
    if (!joined || this.#stop.signal.aborted) return
    this.#joined.delete(workerId)
    joined.keeper.dismiss()
    this.#tokenHostLeft(joined)
  }

  #refresh(): void {
    for (const joined of this.#joined.values()) {
      const { keeper, runtime, facts, verdict } = joined
      const batches = runtime.batchesOf(keeper.id)
      if (batches !== joined.batches) this.gateway.noteProgress(keeper.id)
      joined.batches = batches
      runtime.withholdDoubtful(keeper.id)
      const now = judgeMode({
        facts,
        blockSize: runtime.looksAtCaches ? runtime.blockSize : undefined,
        hasTokens: this.#tokens.status(runtime.name).source !== 'none',
        feeds: runtime.feedsOf(keeper.id),
        keepsNoPrompts: joined.role === 'decode' && facts.kind.value === 'sglang',
        wasExact: verdict.mode === 'exact' || verdict.mode === 'degraded',
      })
      if (now.mode === verdict.mode && now.reason === verdict.reason) continue
      joined.verdict = now
      runtime.setExact(keeper.id, now.mode === 'exact')
      this.gateway.setWorker(runtime.name, specOf(joined))
      if (now.mode !== verdict.mode)
        this.#log.info(
          { worker: String(keeper.id), url: keeper.address.url, mode: now.mode, reason: now.reason },
          'what is known of a cache has changed',
        )
    }
    this.#changed()
  }

  #changed(): void {
    for (const listener of this.#listeners) listener()
  }

  async #close(): Promise<void> {
    this.#stop.abort()
    clearInterval(this.#timer)
    this.#changed()
    await Promise.all(this.#keepers.map((keeper) => keeper.close()))
    await this.gateway.close()
    const runtimes = await Promise.allSettled(this.#runtimes.values())
    const prefills = await Promise.allSettled(this.#prefillRuntimes.values())
    for (const runtime of [...runtimes, ...prefills]) if (runtime.status === 'fulfilled') await runtime.value.close()
    await this.#tokens.close()
  }
}

const starting: ModeVerdict = { mode: 'approximate', reason: 'it has just joined', fix: undefined }

function nameOf(facts: EngineFacts): string {
  return facts.models!.value[0]!.name
}

/** What its owner says beats what the engine says. */
function roleOf({ address }: WorkerKeeper, facts: EngineFacts): WorkerRole {
  return address.role ?? facts.role?.value ?? 'aggregated'
}

function transferOf({ address }: WorkerKeeper, facts: EngineFacts): TransferFacts {
  const said = address.transfer
  const connector = said?.connector ?? facts.connector?.value
  const known = connectorOf(facts.kind.value, { connector })
  return {
    ...said,
    connector,
    port: said?.port ?? facts.bootstrapPort?.value,
    leaseMs: said?.leaseMs ?? (known && leaseMsOf(known, facts.version?.value)),
  }
}

function conditionalOf(config: RouterConfig): ConditionalSettings {
  return {
    policy: config.conditionalDisaggPolicy,
    effIslThreshold: config.conditionalDisaggEffIslThreshold,
    effIslRatioThreshold: config.conditionalDisaggEffIslRatioThreshold,
    prefillBusyThreshold: config.conditionalDisaggPrefillBusyThreshold,
    routerQueueThreshold: config.routerQueueThreshold,
    decodeBusyThreshold: config.conditionalDisaggDecodeBusyThreshold,
  }
}

function specOf({ keeper, facts, verdict, role }: Joined): WorkerSpec {
  const { url, apiKey, taints, ...places } = keeper.address
  const config: WorkerConfig = {
    dataParallelStartRank: 0,
    dataParallelSize: facts.dpRanks?.value ?? 1,
    totalKvBlocks: facts.usableBlocks?.value,
    maxNumBatchedTokens: facts.batchTokensMax?.value,
    taints: taints && new Set(taints),
    topologyDomains: places.topologyDomains,
    kvTransferDomain: places.kvTransferDomain,
    kvTransferEnforcement: places.kvTransferEnforcement,
    kvTransferPreferredWeight: places.kvTransferPreferredWeight,
  }
  return {
    id: keeper.id,
    url,
    apiKey,
    engine: facts.kind.value,
    config,
    mode: verdict.mode,
    role,
    transfer: transferOf(keeper, facts),
    blockSize: facts.blockSize?.value,
  }
}

/** What the operator names beats what the engine says. */
function sourcesOf({ address }: WorkerKeeper, facts: EngineFacts): readonly EventSourceFact[] {
  const { events: endpoint, replay: replayEndpoint } = address
  if (endpoint === undefined) return facts.eventSources?.value ?? []
  return [{ dpRank: 0, endpoint, replayEndpoint, topic: '', bufferSteps: undefined }]
}

function sourcesText(keeper: WorkerKeeper, facts: EngineFacts): string {
  return JSON.stringify(sourcesOf(keeper, facts))
}

function isOtherShape(facts: EngineFacts, before: EngineFacts): boolean {
  return (
    facts.dpRanks?.value !== before.dpRanks?.value ||
    facts.blockSize?.value !== before.blockSize?.value ||
    facts.role?.value !== before.role?.value
  )
}

function dialectOf(facts: EngineFacts): 'vllm' | 'sglang' | undefined {
  const { value } = facts.kind
  return value === 'vllm' || value === 'sglang' ? value : undefined
}
