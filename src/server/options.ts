/** What a gateway is made of, and what holds when nothing is said. Plain values: files, flags and environment are `config/`'s. */
import type { Tracer } from '@opentelemetry/api'
import type { WorkerConfig } from '../core/protocol/index.js'
import type { LoadThresholds, MonitorVersion } from '../core/load/index.js'
import type { ConditionalSettings } from '../core/prefill/index.js'
import type { EngineKind, TransferFacts } from '../engines/index.js'
import type { FeedStatus } from '../events/index.js'
import type { AffinityCarrier, RouterPort } from '../routing/index.js'
import type { MetricBuckets, Metrics, RouterMetrics } from '../telemetry/index.js'
import type { ModelStatus } from '../tokens/index.js'
import type { HowKnown, PromptTokenizer } from './request/prompt.js'
import type { Connect } from './wire/engine-link.js'

/** A request goes to at most this many workers. */
export const attemptsMax = 2

/** One engine server. Several ranks behind one port are one worker. */
export interface WorkerSpec {
  readonly id: bigint
  /** Where requests go: `http://host:port`. */
  readonly url: string
  readonly engine: EngineKind
  /** The engine's own key, sent to it alone and never shown. */
  readonly apiKey?: string | undefined
  readonly config?: WorkerConfig | undefined
  /** What the engine calls the model, where that differs from the name that clients use; spliced into the body. */
  readonly servedModel?: string | undefined
  /** Further names under which the engine serves the model; the model has those of all its workers. */
  readonly aliases?: readonly string[] | undefined
  /** LoRA adapters that the engine has. Absent: nobody knows, and it is asked for any. */
  readonly adapters?: readonly string[] | undefined
  /** Requests that the engine runs at once, where it says so. */
  readonly maxNumSeqs?: number | undefined
  /** What we claim about our knowledge of its cache; it is shown, and set again as that changes. */
  readonly mode?: WorkerMode | undefined
  /** What it does of a request; both halves unless told. */
  readonly role?: WorkerRole | undefined
  /** How its KV reaches a decode worker, for a prefill worker. */
  readonly transfer?: TransferFacts | undefined
  /** It never reuses the last block that it holds of a prompt, as vLLM does with EAGLE and MTP. */
  readonly givesBlockUp?: boolean | undefined
  /** Tokens per block, where a prefill worker's differ from the model's. */
  readonly blockSize?: number | undefined
  /** False: its model pools, and gets no request for text. */
  readonly generates?: boolean | undefined
}

export const workerRoles = ['aggregated', 'prefill', 'decode'] as const
export type WorkerRole = (typeof workerRoles)[number]

export type WorkerMode = 'exact' | 'degraded' | 'approximate' | 'load-only'

export interface ModelSpec {
  /** The name that clients send, and that answers of `/v1/models` carry. */
  readonly name: string
  readonly aliases?: readonly string[]
  /** LoRA adapters, asked for as models of their own. */
  readonly adapters?: readonly string[]
  readonly blockSize: number
  /** Its engines name blocks by pairs of tokens, as SGLang does with EAGLE. */
  readonly isEagle?: boolean
  /** Decides; the gateway tells it who exists. A policy besides KV is a router too: `createPolicyRouter`. */
  readonly router: RouterPort
  /** Absent: prompts are compared by their bytes, which is enough for approximate routing. */
  readonly tokenizer?: PromptTokenizer | undefined
  readonly workers?: readonly WorkerSpec[]
  /** Requests are refused as not ready until so many workers could serve at once; then never again for that reason. */
  readonly minInitialWorkers?: number
  readonly thresholds?: LoadThresholds
  /** Which generation of busy rules holds: `1.0` has scaled, required thresholds and no latch. */
  readonly monitor?: MonitorVersion
  /** `each` leaves busy workers out one by one; `all` refuses only when everybody is busy, as upstream's 1.2 does. */
  readonly busyGate?: 'each' | 'all'
  /** Requests that name the same session in their headers stay with one worker until it was idle for so long. Unset: they need not. */
  readonly sessionAffinityTtlSecs?: number | undefined
  readonly contextWindow?: number | undefined
  readonly tracksOutputBlocks?: boolean
  /** Where the router's share of a request is observed; one of the model's own where none is given. */
  readonly routerMetrics?: RouterMetrics | undefined
  /** How its prefill workers are used; without it the model takes none. */
  readonly disagg?: DisaggSpec | undefined
  /** Figures that others keep, asked for before each scrape. */
  readonly figures?: (() => ModelFigures) | undefined
  /** The event streams of a worker, one per rank; asked for by `GET /workers` and before each scrape. */
  readonly feedsOf?: ((workerId: bigint) => readonly FeedStatus[]) | undefined
}

/** The prefill workers of one model that share a router: same engine, same connector, same blocks. */
export interface PrefillPool {
  readonly identity: string
  readonly engine: EngineKind
  readonly blockSize: number
}

/** Disaggregated serving of one model. */
export interface DisaggSpec {
  /** Nothing is served alone for want of a prefill: without prefill workers that take requests the model is hidden. */
  readonly enforce: boolean
  /** Makes the router that chooses among prefill workers; they are told to it by the gateway. */
  readonly openPrefill: (pool: PrefillPool, signal: AbortSignal) => Promise<RouterPort>
  /** Another pool took its place, or the model is removed. */
  readonly closePrefill?: ((router: RouterPort) => Promise<void>) | undefined
  /** When a remote prefill is not worth it. None: never. */
  readonly conditional?: ConditionalSettings | undefined
  /** A prefill that failed twice is done by the decode worker. Not where disaggregation is enforced. */
  readonly fallsBack?: boolean | undefined
}

export interface ModelFigures {
  readonly index?: IndexFigures | undefined
}

export interface IndexFigures {
  readonly blocks: number
  readonly bytes: number
  /** Forgotten because of its caps, so far. */
  readonly evictedBlocks: number
}

export interface ListenOptions {
  readonly host?: string
  readonly port?: number
  /** PEM texts. */
  readonly tls?: { readonly cert: string; readonly key: string } | undefined
}

export interface Limits {
  readonly bodyBytesMax: number
  /** Of the bodies of all requests under way; a request whose body finds no room is refused as overload. */
  readonly bodiesBytesMax: number
  readonly headerBytesMax: number
  /** Lines of a head: V8 keeps their names. */
  readonly headersMax: number
  /** Of JSON: arrays and objects inside each other. */
  readonly depthMax: number
  readonly metadataEntriesMax: number
  readonly metadataBytesMax: number
  /** Requests under way at once; more are refused as overload. */
  readonly requestsMax: number
  /** An answer in which something is to be changed is held in one piece; a longer one passes as it is. */
  readonly editedBytesMax: number
  /** Ids of responses, by model, whose workers are remembered; the oldest is forgotten first. 0 remembers none. */
  readonly storedResponsesMax: number
}

/** Milliseconds. */
export interface Deadlines {
  /** From the first byte of a request to its last. */
  readonly bodyMs: number
  readonly connectMs: number
  /** From the last byte of a request to the last byte of its answer, waiting for a worker included. */
  readonly totalMs: number
  /** Without a byte of this request and without any progress of its worker; also for a client that reads nothing. */
  readonly noProgressMs: number
  /** Between two bytes of a stream, whatever the worker does otherwise; 0 is none. */
  readonly idleMs: number
  /** How long `close` still takes requests while `/health` and `/ready` say 503. */
  readonly graceMs: number
  /** How long `close` then waits for streams to end. */
  readonly drainMs: number
  /** From dispatch of a remote prefill to its answer; 0 is none. */
  readonly prefillMs: number
  /** From dispatch of a decode after a remote prefill to its first token, transfer included; 0 is none. */
  readonly transferMs: number
  /** Besides, for each token that a whole answer may have: nothing of it shows before its end. 0: those are not watched. */
  readonly transferTokenMs: number
}

export interface HealthOptions {
  /** 0 never asks. */
  readonly intervalMs: number
  readonly timeoutMs: number
  readonly path: string
  /** Quarantine after a connection fault, doubling up to the last value. */
  readonly quarantineMs: readonly [first: number, last: number]
  /** How often the engines' own metrics are read; 0 never. */
  readonly metricsMs: number
}

/** One line per event: a fixed sentence and its fields. pino fits. */
export interface Log {
  debug(fields: Record<string, unknown>, sentence: string): void
  info(fields: Record<string, unknown>, sentence: string): void
  warn(fields: Record<string, unknown>, sentence: string): void
}

/** Who looks after workers that an admin adds: finds out what they are, and follows their events. */
export interface WorkerSteward {
  /** Ids that are taken, though perhaps no worker has them yet. */
  takenIds(): Iterable<bigint>
  /** An admin added a worker: it may take requests already, or its model is not known yet and the steward is to make it. */
  added(worker: AddedWorker): void
  /** Who is known and takes no requests, because it does not answer or was refused. */
  absent(): readonly AbsentWorker[]
  /** One of those is not waited for any more. False: no such worker. */
  forget(workerId: bigint): boolean
}

export interface AbsentWorker {
  readonly id: bigint
  readonly url: string
  /** Where it is known. */
  readonly model: string | undefined
  readonly reason: string
}

export interface AddedWorker {
  /** The model's own name, not an alias. */
  readonly model: string
  readonly spec: WorkerSpec
  /** Only what the admin said of it; the rest may be asked of the engine. */
  readonly stated: Partial<WorkerConfig>
  /** ZeroMQ addresses, for an engine that does not say them itself. */
  readonly events?: string | undefined
  readonly replay?: string | undefined
}

/** A routed request that is over. What it asked is not here, only how long it was. */
export interface EndedRequest {
  readonly model: string
  /** Requests with equal tokens share nothing cached where one of these differs. */
  readonly loraName: string | undefined
  readonly cacheSalt: string | undefined
  /** In the clock of `now`. */
  readonly startedAtMs: number
  readonly endedAtMs: number
  readonly firstTokenAtMs: number | undefined
  readonly status: number
  /** Valid during the call, to be counted or hashed; stand-ins where they are not known, and absent where nobody looked. */
  readonly tokens: Uint32Array | undefined
  /** How they are known, or why they are not, for the worker that was chosen; absent where nobody looked. */
  readonly howKnown: HowKnown | undefined
  readonly promptTokens: number
  readonly outputTokens: number
  readonly workerId: bigint
  /** Undefined: it left before it was asked. */
  readonly workerUrl: string | undefined
  readonly dpRank: number
  /** As the decision took it. */
  readonly cachedTokens: number
  readonly waitedMs: number
}

/** Whoever keeps the models' tokenizers, beside the gateway. Names are those of models, not aliases. */
export interface TokenizerSteward {
  status(model: string): ModelStatus
  /**
   * Looks anew for a model's tokenizer, in `path` or where it was looked for before, and puts it to work; requests under way end with
   * the one before. Throws `WR_TOKENS_BAD_TOKENIZER`; then the one before stays.
   */
  replace(model: string, path: string | undefined, signal: AbortSignal): Promise<ModelStatus>
}

/** Routers that share sessions. Each has an id of its own. */
export interface SessionPeers {
  readonly routerId: bigint
  readonly carrier: AffinityCarrier
}

export interface GatewayOptions {
  readonly models?: readonly ModelSpec[]
  readonly listen?: ListenOptions
  /** Admin routes answer here only, when given. */
  readonly adminListen?: ListenOptions | undefined
  /** SHA-256 of each key, as hex (`hashKey`). None: clients need no key. */
  readonly apiKeyHashes?: readonly string[]
  readonly adminKeyHashes?: readonly string[]
  /** False: no route answers to admins, on whichever port. */
  readonly hasAdminRoutes?: boolean
  readonly limits?: Partial<Limits>
  readonly deadlines?: Partial<Deadlines>
  readonly health?: Partial<HealthOptions>
  /** `dynamo` validates and answers as upstream's frontend does. */
  readonly strict?: 'off' | 'dynamo'
  readonly overloadStatus?: number
  /** One stream in so many is asked for its usage when the client did not; 0 never. */
  readonly usageSampleEvery?: number
  /** A comment on a silent stream; 0 never. */
  readonly keepAliveMs?: number
  /** Engine-control fields that a client may send; none by default (`engine-fields.ts` lists them). */
  readonly allowedEngineFields?: readonly string[]
  /** Says in response headers which worker served, and how much of the prompt it was expected to hold. */
  readonly showsWorker?: boolean
  /** Without one, workers that an admin adds are taken as they are described. */
  readonly steward?: WorkerSteward | undefined
  /** Without one, there are no routes to look at tokenizers and to replace them. */
  readonly tokenizers?: TokenizerSteward | undefined
  /** Other routers that are told where sessions live, and tell it. */
  readonly sessionPeers?: SessionPeers | undefined
  readonly metrics?: Metrics
  /** `1.0` gives the routing overhead the buckets and phases of the first generation; for metrics made here. */
  readonly metricsCompat?: '1.0' | '1.2'
  /** In place of `dynamo_frontend` in the names of its families, and other bounds of histograms; for metrics made here. */
  readonly metricsPrefix?: string
  readonly metricsBuckets?: MetricBuckets
  readonly log?: Log
  /** Hears of every request that was sent to a worker, once it is over. Must not throw. */
  readonly onEnded?: ((ended: EndedRequest) => void) | undefined
  /**
   * Makes a span per request and hands its context to the engine. That of the SDK which the process had when the gateway was made
   * unless told; with neither, the client's own context is passed on.
   */
  readonly tracer?: Tracer | undefined
  /** A clock that only goes forward, in milliseconds. */
  readonly now?: () => number
  /** Opens connections to engines whose addresses are `http`; sockets of the system unless told. */
  readonly connect?: Connect | undefined
  readonly random?: () => number
}

export const defaultLimits: Limits = {
  bodyBytesMax: 45 * 1024 * 1024,
  bodiesBytesMax: 2048 * 1024 * 1024,
  headerBytesMax: 64 * 1024,
  headersMax: 128,
  depthMax: 128,
  metadataEntriesMax: 64,
  metadataBytesMax: 64 * 1024,
  requestsMax: 20_000,
  editedBytesMax: 16 * 1024 * 1024,
  storedResponsesMax: 32_768,
}

export const defaultDeadlines: Deadlines = {
  bodyMs: 60_000,
  connectMs: 5_000,
  totalMs: 3_600_000,
  noProgressMs: 30_000,
  idleMs: 0,
  graceMs: 0,
  drainMs: 5_000,
  prefillMs: 120_000,
  transferMs: 60_000,
  transferTokenMs: 500,
}

export const defaultHealth: HealthOptions = {
  intervalMs: 5_000,
  timeoutMs: 3_000,
  path: '/health',
  quarantineMs: [1_000, 30_000],
  metricsMs: 1_000,
}
