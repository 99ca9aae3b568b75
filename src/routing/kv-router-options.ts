/** What a `KvRouter` is made of. Without a single option but the block size it is a whole router in one process. */
import type { Tracer } from '@opentelemetry/api'
import type { KvIndex, PrefixIndex, TieredBatch } from '../core/index/index.js'
import type { Rank, RankTable, RouterConfigInput, RouterEvent, WorkerRole } from '../core/protocol/index.js'
import type { PolicyConfig } from '../core/queue/index.js'
import type { PrefillCoefficients } from '../core/load/index.js'
import type { LogSink, PrefillEstimator } from '../core/router/index.js'
import type { PolicyFactory, WorkerSelector } from '../core/selection/index.js'
import type { ReplicaPort } from '../core/sequences/index.js'
import type { WorkerType } from '../telemetry/index.js'
import type { RuntimeConfigWatch } from './boot-wait.js'
import type {
  Randomness,
  RemoteIndexPort,
  RouterClock,
  RouterLog,
  RouterObserver,
  SharedCachePort,
} from './router-ports.js'

/** Where events go in: plain ones, or packed ones on the hot way. A log of the router's inputs sees both. */
export interface EventIntake {
  /** To look at. What is changed here directly, no log sees. */
  readonly index: KvIndex
  /** Packed events name ranks by the numbers of this table; a worker's are here once the router was told of it. */
  readonly ranks: RankTable
  applyEvents(events: readonly RouterEvent[]): void
  applyBatch(batch: TieredBatch): void
  /** While a rank's events are in doubt, what they told counts for nothing. */
  setWithheld(rank: Rank, isWithheld: boolean): void
}

/** An index that is offered to others. */
export interface ServedIndex {
  readonly index: KvIndex
  readonly modelName: string
  /** `approximate`: there may be only one, and it is told of everybody's decisions; nothing else fills it. */
  readonly mode: 'event-driven' | 'approximate'
}

export interface Closeable {
  close(): Promise<void>
}

export interface KvRouterOptions<Client = undefined> {
  readonly blockSize: number
  readonly workers: RuntimeConfigWatch
  readonly config?: RouterConfigInput | undefined
  /** The default one unless told. */
  readonly selector?: WorkerSelector | undefined
  /** `online` learns from the prefills that this router sees; policy warm does that by itself. */
  readonly prefillLoadEstimator?: PrefillEstimator | 'online' | undefined
  /** Where learning how long prefills take starts; from nothing unless told. */
  readonly prefillProfile?: PrefillCoefficients | undefined
  /** Labels gauges, and prices ranks: `decode` unless told. */
  readonly workerType?: WorkerType | undefined
  /** What the workers do, where that is known: decides whose policy is used, and whether KV events matter at all. */
  readonly workerRole?: WorkerRole | undefined
  /** Makes the policies that `worker_selection` of a policy file names, by their type. */
  readonly selectionPolicyTypes?: ReadonlyMap<string, PolicyFactory> | undefined
  /** Workers that are known to serve an adapter; nothing where nobody knows. Its requests go to them where they can. */
  readonly loraWorkers?: ((loraName: string) => ReadonlySet<bigint> | undefined) | undefined
  readonly modelName?: string | undefined
  readonly isEagle?: boolean | undefined
  readonly sharedCache?: SharedCachePort | undefined
  /** Kept for the caller; the router sends nothing anywhere. */
  readonly client?: Client | undefined
  /** Classes of requests, from `router_policy_config`. */
  readonly policies?: PolicyConfig | undefined

  /** Makes an exact index; the fastest that runs here unless told. Called twice where predictions lie beside events. */
  readonly newIndex?: (() => PrefixIndex) | undefined
  /** Needed when `use_remote_indexer` is set. */
  readonly remoteIndex?: RemoteIndexPort | undefined
  /** Starts to listen for KV events; called only when they matter. */
  readonly subscribe?: ((intake: EventIntake, signal: AbortSignal) => Promise<Closeable>) | undefined
  /** Offers the index to others; needed when `serve_indexer` is set. */
  readonly serveIndexer?: ((served: ServedIndex, signal: AbortSignal) => Promise<Closeable>) | undefined
  readonly replica?: { readonly routerId: bigint; readonly port: ReplicaPort } | undefined

  readonly log?: RouterLog | undefined
  readonly clock?: RouterClock | undefined
  readonly random?: Randomness | undefined
  readonly observer?: RouterObserver | undefined
  readonly tracer?: Tracer | undefined
  /** Present: everything the router is told is written down for a replay. */
  readonly recordTo?: LogSink | undefined
  /** Deadline of one shared-cache query; a late answer counts as none. 1 s unless told. */
  readonly sharedCacheTimeoutMs?: number | undefined
  /** Deadline of one lookup in a remote index. 5 s unless told. */
  readonly remoteIndexTimeoutMs?: number | undefined
  /** Ends the boot wait, and closes the router. */
  readonly signal?: AbortSignal | undefined
}
