/** `RouterPort` as a direct call: the router, and the workers it was told of, in this process. */
import type { RouterEvent, WorkerConfig, WorkerRank } from '../core/protocol/index.js'
import { completeRouterConfig, WarmrouteError } from '../core/protocol/index.js'
import type { FindBestMatch } from './best-match.js'
import { roundedOverlapBlocks } from './best-match.js'
import { KvRouter } from './kv-router.js'
import type { KvRouterOptions } from './kv-router-options.js'
import { handleRouterRequest } from './request-handler.js'
import type { RequestContext, RouterRequest, RouterResponse } from './request-protocol.js'
import type { PromptHashes, RankLoad, RouteAnswer, RouterPort, RouteRequest } from './router-port.js'
import type { RouterLog } from './router-ports.js'
import { silentLog } from './router-ports.js'
import { WorkerRegistry } from './worker-registry.js'

export interface InProcessRouterOptions extends Omit<KvRouterOptions, 'workers'> {
  /** Workers known at start. */
  readonly workers?: Iterable<readonly [bigint, WorkerConfig]> | undefined
  /** Whose decisions are kept as predictions; everybody's unless told. A worker with events needs none. */
  readonly recordsDecisions?: ((worker: WorkerRank) => boolean) | undefined
}

export class InProcessRouter implements RouterPort {
  readonly router: KvRouter
  readonly #registry: WorkerRegistry
  readonly #log: RouterLog
  readonly #recordsDecisions: true | ((worker: WorkerRank) => boolean)
  #lateCalls = 0

  /** With `router_min_initial_workers` above what is given at start it is refused: use a `KvRouter` with a watch of its own. */
  static async create(options: InProcessRouterOptions): Promise<InProcessRouter> {
    const registry = new WorkerRegistry(options.workers)
    const { routerMinInitialWorkers: least, skipInitialWorkerWait } = completeRouterConfig(options.config)
    const known = registry.current().size
    if (!skipInitialWorkerWait && known < least)
      throw new WarmrouteError('WR_INVALID_CONFIG', {
        reason: `router_min_initial_workers is ${least}, and ${known} are given at start; nobody could add the others`,
      })
    const router = await KvRouter.create({ ...options, workers: registry })
    return new InProcessRouter(router, registry, options.log ?? silentLog, options.recordsDecisions)
  }

  constructor(
    router: KvRouter,
    registry: WorkerRegistry,
    log: RouterLog,
    recordsDecisions: true | ((worker: WorkerRank) => boolean) = true,
  ) {
    this.router = router
    this.#registry = registry
    this.#log = log
    this.#recordsDecisions = recordsDecisions
  }

  /** Lifecycle calls about requests that were not booked any more: expired, or lost with their worker. */
  get lateCalls(): number {
    return this.#lateCalls
  }

  async route(request: RouteRequest): Promise<RouteAnswer> {
    const details = await this.router.findBestMatchDetails(this.#toFindBestMatch(request))
    const { worker, effectiveOverlapBlocks, cachedTokens, waitedMs, receipt } = details
    const overlapBlocks = roundedOverlapBlocks(details)
    const { workerId, dpRank } = worker
    return { workerId, dpRank, overlapBlocks, effectiveOverlapBlocks, cachedTokens, waitedMs, receipt }
  }

  /** Written out: on Node 20 a spread costs about 1 µs for each property that follows it. */
  #toFindBestMatch(request: RouteRequest): FindBestMatch {
    return {
      contextId: request.requestId,
      tokens: request.tokens,
      tokenCount: request.tokenCount,
      hashes: request.hashes,
      encodings: request.encodings,
      blockMmInfos: request.blockMmInfos,
      routerConfigOverride: request.override,
      updateStates: request.isQueryOnly !== true,
      loraName: request.loraName,
      cacheNamespace: request.cacheNamespace,
      priorityJump: request.priorityJump,
      strictPriority: request.strictPriority,
      policyClass: request.policyClass,
      expectedOutputTokens: request.expectedOutputTokens,
      isWhole: request.isWhole,
      pinnedWorker: request.pin && this.#resolvePin(request.pin),
      allowedWorkerIds: request.allowedWorkerIds,
      excludedWorkerIds: request.excludedWorkerIds,
      requiredTaints: request.requiredTaints,
      preferredTaints: request.preferredTaints,
      wantReceipt: request.wantReceipt,
      session: request.session,
      recordsDecision: this.#recordsDecisions,
      signal: request.signal,
    }
  }

  prefillDone(requestId: string): void {
    this.#late(requestId, () => this.router.markPrefillCompleted(requestId))
  }

  outputBlock(requestId: string, decayFraction?: number): void {
    this.#late(requestId, () => this.router.addOutputBlock(requestId, decayFraction))
  }

  free(requestId: string): void {
    this.#late(requestId, () => this.router.free(requestId))
  }

  answer(context: RequestContext, request: RouterRequest): Promise<RouterResponse> {
    return handleRouterRequest(this.router, context, request)
  }

  setWorker(workerId: bigint, config: WorkerConfig): void {
    this.#registry.set(workerId, config)
  }

  removeWorker(workerId: bigint): void {
    this.#registry.remove(workerId)
  }

  applyEvents(events: readonly RouterEvent[]): void {
    this.router.applyEvents(events)
  }

  recordDecision(prompt: PromptHashes, worker: WorkerRank): void {
    this.#late(undefined, () => this.router.recordHashes(prompt.local, prompt.sequence, worker))
  }

  loads(): Promise<readonly RankLoad[]> {
    return Promise.resolve(this.router.activeLoads())
  }

  onLoads(listener: (changed: readonly RankLoad[]) => void): () => void {
    return this.router.onLoads(listener)
  }

  close(): Promise<void> {
    return this.router.close()
  }

  /** A pin without a rank is clear only where the worker owns exactly one. */
  #resolvePin({ workerId, dpRank }: { readonly workerId: bigint; readonly dpRank?: number | undefined }): WorkerRank {
    const rank = dpRank ?? this.router.uniqueDpRankForWorker(workerId)
    if (rank !== undefined) return { workerId, dpRank: rank }
    const isKnown = this.#registry.current().has(workerId)
    const reason = isKnown ? 'the pinned worker has several ranks; name one' : 'the pinned worker is not known'
    throw new WarmrouteError(isKnown ? 'WR_INVALID_ARGUMENT' : 'WR_NO_ENDPOINTS', { reason, workerId })
  }

  /** Told, not asked: what is too late is counted and logged, and nobody has to catch it. */
  #late(requestId: string | undefined, call: () => void): void {
    try {
      call()
    } catch (error) {
      if (!(error instanceof WarmrouteError)) throw error
      this.#lateCalls++
      this.#log.warn({ requestId, code: error.code }, 'a lifecycle call came for nobody')
    }
  }
}
