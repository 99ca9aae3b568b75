/**
 * The one interface between those who serve requests and the one who decides. In one process it is a direct call;
 * between processes it is a socket with binary frames; across machines it is the selection service. Code above it does
 * not know which. Everything about a running request is keyed by its request id.
 *
 * `route` may wait (a full fleet parks requests) and ends early with its signal. The three lifecycle calls are told, not
 * asked: they return at once, keep their order per request, and a failure is counted and logged, never thrown.
 */
import type {
  HashColumn,
  JsonInput,
  MmExtraInfo,
  RouterConfigOverride,
  RouterEvent,
  WorkerConfig,
  WorkerRank,
} from '../core/protocol/index.js'
import type { Receipt } from '../core/router/index.js'
import type { RequestContext, RouterRequest, RouterResponse } from './request-protocol.js'
import type { WaitSignal } from './wait-signal.js'

export interface RouteRequest {
  /** Unique among running requests. */
  readonly requestId: string
  readonly model?: string | undefined
  /** The prompt. Absent: tokens cannot be known, and load alone decides. */
  readonly tokens?: Uint32Array | undefined
  /** Prompt length where `tokens` is absent: with `hashes`, or as an estimate in load-only mode. */
  readonly tokenCount?: number | undefined
  /** Hashes of the complete blocks where the caller has them already; `tokens` is then not hashed again. */
  readonly hashes?: PromptHashes | undefined
  /** Where some engines of the model make other tokens of the prompt: their workers are judged by these hashes, not by the above. */
  readonly encodings?: readonly PromptEncoding[] | undefined
  /** Images and other media per block of the prompt; null where there are none. */
  readonly blockMmInfos?: readonly (MmExtraInfo | null)[] | undefined
  readonly loraName?: string | undefined
  /** Keeps the caches of tenants apart; it is part of every hash. */
  readonly cacheNamespace?: string | undefined
  /** Seconds of queueing that this request may overtake. */
  readonly priorityJump?: number | undefined
  /** Higher goes first, whatever the queue policy says. */
  readonly strictPriority?: number | undefined
  readonly policyClass?: string | undefined
  readonly expectedOutputTokens?: number | undefined
  /** The answer comes in one piece, so that its first token cannot be told: `prefillDone` comes at its end, or not at all. */
  readonly isWhole?: boolean | undefined
  /** Exactly this rank, or no answer. Without `dpRank` the worker must own exactly one. */
  readonly pin?: { readonly workerId: bigint; readonly dpRank?: number | undefined } | undefined
  readonly allowedWorkerIds?: ReadonlySet<bigint> | undefined
  /** Workers that already failed this request. */
  readonly excludedWorkerIds?: ReadonlySet<bigint> | undefined
  readonly requiredTaints?: readonly string[] | undefined
  readonly preferredTaints?: Readonly<Record<string, number>> | undefined
  readonly override?: RouterConfigOverride | undefined
  /** True: answer, but book nothing. */
  readonly isQueryOnly?: boolean | undefined
  readonly wantReceipt?: boolean | undefined
  /** Whatever a selection policy of one's own should see of the conversation. */
  readonly session?: JsonInput | undefined
  /** Aborting takes the request out of the queue, or frees what was booked for it. */
  readonly signal?: WaitSignal | undefined
}

/** `local[i]` is the content of block i, `sequence[i]` the chain up to it. */
export interface PromptHashes {
  readonly local: HashColumn
  readonly sequence: HashColumn
}

/** A prompt as some of the workers encode it. */
export interface PromptEncoding {
  readonly workerIds: ReadonlySet<bigint>
  /** Absent: nobody knows, so that nothing of it can be found there. */
  readonly hashes?: PromptHashes | undefined
}

export interface RouteAnswer extends WorkerRank {
  /** Whole blocks of the prompt that the worker holds, all tiers weighed. */
  readonly overlapBlocks: number
  readonly effectiveOverlapBlocks: number
  /** Tokens the worker should not have to prefill. */
  readonly cachedTokens: number
  /** Time spent parked. */
  readonly waitedMs: number
  readonly receipt?: Receipt | undefined
}

export interface RankLoad extends WorkerRank {
  readonly activeDecodeBlocks: number
  readonly activePrefillTokens: number
  readonly activeRequests: number
}

export interface RouterPort {
  /** Rejects with a `WarmrouteError`. Until `free`, the request counts as load on the rank of the answer. */
  route(request: RouteRequest): Promise<RouteAnswer>
  /** The first token arrived: the prompt is computed. */
  prefillDone(requestId: string): void
  /** One more block of output; `decayFraction` (0..1) is the share of its life that is left. */
  outputBlock(requestId: string, decayFraction?: number): void
  /** Ends every booking of the request. Safe to repeat, and for ids that were never booked. */
  free(requestId: string): void

  /** The same as a service (`request-protocol.ts`): one request, one answer that says whether it was known. */
  answer(context: RequestContext, request: RouterRequest): Promise<RouterResponse>

  /** A worker joined, or says something new of itself. */
  setWorker(workerId: bigint, config: WorkerConfig): void
  /** Its bookings and its cached blocks are forgotten; parked requests that only it could serve are refused. */
  removeWorker(workerId: bigint): void
  /** What caches gained and lost. An event that cannot be applied is counted, never thrown. */
  applyEvents(events: readonly RouterEvent[]): void
  /** Without events: the worker is taken to hold this prompt from now on, for `router_ttl_secs`. */
  recordDecision(prompt: PromptHashes, worker: WorkerRank): void
  /** The current load of every rank, by worker id and rank. */
  loads(): Promise<readonly RankLoad[]>
  /** Called with each rank whose load changed, at most once per rank and turn of the event loop. Returns the way to stop. */
  onLoads(listener: (changed: readonly RankLoad[]) => void): () => void
  /** Parked requests are refused with `WR_ROUTER_CLOSED`; settles when nothing runs any more. */
  close(): Promise<void>
}
