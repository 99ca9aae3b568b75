/**
 * One worker as the front door sees it: where it is, whether it may take a request, and when it last moved. What is
 * cached or running on it is the router's business.
 *
 *   ready ──drain──► draining ──last request ended, nobody reads its KV──► gone
 *     │  ▲
 *   fault │ probe answered
 *     ▼  │
 *   quarantined (still `ready`, but left out)
 */
import { addressTrouble, engineAddress } from '../../config/index.js'
import type { WorkerConfig } from '../../core/protocol/index.js'
import { defaultWorkerConfig, WarmrouteError } from '../../core/protocol/index.js'
import type { FeedStatus } from '../../events/index.js'
import type { WorkerMode, WorkerRole, WorkerSpec } from '../options.js'
import type { Connect } from '../wire/engine-link.js'
import { EngineLink } from '../wire/engine-link.js'
import { phaseOf } from './phase.js'
import type { RankReport } from './rank-report.js'
import { rankReportOf } from './rank-report.js'

export type WorkerState = 'ready' | 'draining' | 'gone'

export interface WorkerOptions {
  readonly connectMs: number
  readonly connect?: Connect | undefined
  readonly now: () => number
}

export class Worker {
  readonly id: bigint
  readonly label: string
  readonly link: EngineLink
  readonly addedAtMs: number
  /** When in an interval it is looked at. */
  readonly phase: number
  #spec: WorkerSpec
  #config: WorkerConfig
  state: WorkerState = 'ready'
  mode: WorkerMode
  /** Left out of selection until a probe is answered. */
  isQuarantined = false
  faults = 0
  inFlight = 0
  #holds = 0
  /** Its streams end with their usage though nobody asked for it; unknown until one has ended. */
  tellsUsageUnasked: boolean | undefined
  /** When anything of it moved: a byte, an event, a counter. */
  progressAtMs: number
  /** Called when the last request of a draining worker ended and nobody reads its KV any more. */
  onIdle: (() => void) | undefined

  /** Throws `WR_INVALID_CONFIG`. */
  constructor(spec: WorkerSpec, { connectMs, connect, now }: WorkerOptions) {
    if (engineAddress(spec.url) === undefined)
      throw new WarmrouteError('WR_INVALID_CONFIG', { reason: `worker ${spec.id}: ${addressTrouble(spec.url)}` })
    this.id = spec.id
    this.label = String(spec.id)
    this.phase = phaseOf(spec.id)
    this.#spec = spec
    this.#config = withTopology(spec.config)
    this.mode = spec.mode ?? 'approximate'
    this.link = new EngineLink({ url: spec.url, apiKey: spec.apiKey, connectMs, connect, now })
    this.addedAtMs = this.progressAtMs = now()
  }

  get spec(): WorkerSpec {
    return this.#spec
  }

  set spec(spec: WorkerSpec) {
    this.#spec = spec
    this.#config = withTopology(spec.config)
  }

  get config(): WorkerConfig {
    return this.#config
  }

  get mayServe(): boolean {
    return this.state === 'ready' && !this.isQuarantined
  }

  enter(): void {
    this.inFlight++
  }

  leave(): void {
    this.inFlight--
    if (this.isIdle) this.onIdle?.()
  }

  /** No request of it runs, and nobody reads KV that it keeps for another worker. */
  get isIdle(): boolean {
    return this.inFlight === 0 && this.#holds === 0
  }

  /** It keeps KV that another worker reads, or will, or is chosen and not asked yet: it must not leave. Returns the way to end that; safe to repeat. */
  hold(): () => void {
    this.#holds++
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      this.#holds--
      if (this.isIdle) this.onIdle?.()
    }
  }
}

/** What a person may see of a worker: never its key. */
export interface WorkerReport {
  readonly id: string
  readonly url: string
  readonly model: string
  readonly engine: string
  readonly state: WorkerState
  readonly mode: WorkerMode
  readonly role: WorkerRole
  readonly is_quarantined: boolean
  readonly in_flight: number
  readonly faults: number
  readonly data_parallel_start_rank: number
  readonly data_parallel_size: number
  /** Event streams, one per rank; empty where none is followed. */
  readonly ranks: readonly RankReport[]
}

export function reportOf(worker: Worker, model: string, feeds: readonly FeedStatus[]): WorkerReport {
  const { config } = worker
  return {
    id: worker.label,
    url: worker.spec.url,
    model,
    engine: worker.spec.engine,
    state: worker.state,
    mode: worker.mode,
    role: worker.spec.role ?? 'aggregated',
    is_quarantined: worker.isQuarantined,
    in_flight: worker.inFlight,
    faults: worker.faults,
    data_parallel_start_rank: config.dataParallelStartRank,
    data_parallel_size: config.dataParallelSize,
    ranks: feeds.map(rankReportOf),
  }
}

/** Where a worker stands is also a label that requests may ask for. */
function withTopology(config: WorkerConfig = defaultWorkerConfig): WorkerConfig {
  const { topologyDomains, taints } = config
  if (!topologyDomains) return config
  const places = Object.entries(topologyDomains).map(([domain, value]) => topologyTaint(domain, value))
  return { ...config, taints: new Set([...(taints ?? []), ...places]) }
}

/** Upstream's name for a place. */
export function topologyTaint(domain: string, value: string): string {
  return `dynamo.topology/${domain}=${value}`
}
