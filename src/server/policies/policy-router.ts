/**
 * A router without a cache index: round robin and its relatives behind the same port as the KV router, so that the front
 * door does not know the difference. Counts what runs where; parks nothing and refuses when no rank may serve.
 */
import type { RouterEvent, WorkerConfig, WorkerRank } from '../../core/protocol/index.js'
import { WarmrouteError } from '../../core/protocol/index.js'
import type { PotentialLoad } from '../../core/sequences/index.js'
import type {
  PromptHashes,
  RankLoad,
  RequestContext,
  RouteAnswer,
  RouterPort,
  RouteRequest,
  RouterRequest,
  RouterResponse,
} from '../../routing/index.js'
import { requestIdOr } from '../../routing/index.js'
import type { PolicyName, RankRow } from './pick-rank.js'
import { pickRank } from './pick-rank.js'

export interface PolicyRouterOptions {
  readonly policy: PolicyName
  readonly random?: () => number
}

interface Booking {
  readonly row: RankRow
  readonly tokens: number
}

export function createPolicyRouter(options: PolicyRouterOptions): RouterPort {
  return new PolicyRouter(options)
}

export function isPolicyRouter(router: RouterPort): boolean {
  return router instanceof PolicyRouter
}

class PolicyRouter implements RouterPort {
  readonly #policy: PolicyName
  readonly #random: () => number
  readonly #rows = new Map<string, RankRow>()
  readonly #taints = new Map<bigint, ReadonlySet<string>>()
  readonly #bookings = new Map<string, Booking>()
  readonly #listeners = new Set<(changed: readonly RankLoad[]) => void>()
  #all: readonly RankRow[] = []
  #turn = 0
  #isClosed = false

  constructor(options: PolicyRouterOptions) {
    this.#policy = options.policy
    this.#random = options.random ?? Math.random
  }

  route(request: RouteRequest): Promise<RouteAnswer> {
    try {
      return Promise.resolve(this.#choose(request))
    } catch (error) {
      return Promise.reject(error as Error)
    }
  }

  prefillDone(): void {}

  outputBlock(): void {}

  free(requestId: string): void {
    const booking = this.#bookings.get(requestId)
    if (!booking) return
    this.#bookings.delete(requestId)
    booking.row.activeRequests--
    booking.row.activeTokens -= booking.tokens
    this.#publish(booking.row)
  }

  async answer(context: RequestContext, request: RouterRequest): Promise<RouterResponse> {
    switch (request.method) {
      case 'new': {
        const worker = await this.route({ ...request, requestId: context.id, signal: context.signal })
        return { method: 'new', worker, overlapBlocks: worker.overlapBlocks }
      }
      case 'mark_prefill':
        return { method: 'prefill_marked', success: this.#bookings.has(requestIdOr(context.id, request.requestId)) }
      case 'mark_free':
        this.free(requestIdOr(context.id, request.requestId))
        return { method: 'free_marked', success: true } // as of 1.2: an id that nobody knows is free
      case 'potential_loads':
        return {
          method: 'potential_loads',
          loads: this.#potential(request.tokens),
          pendingCount: 0,
          pendingIslTokens: 0,
        }
    }
  }

  setWorker(workerId: bigint, config: WorkerConfig): void {
    const before = new Set([...this.#rows.keys()].filter((key) => key.startsWith(`${workerId}/`)))
    for (let at = 0; at < config.dataParallelSize; at++) {
      const dpRank = config.dataParallelStartRank + at
      const key = `${workerId}/${dpRank}`
      before.delete(key)
      if (!this.#rows.has(key)) this.#rows.set(key, { workerId, dpRank, activeRequests: 0, activeTokens: 0 })
    }
    for (const key of before) this.#rows.delete(key)
    this.#taints.set(workerId, config.taints ?? new Set())
    this.#all = [...this.#rows.values()]
  }

  removeWorker(workerId: bigint): void {
    for (const [key, row] of this.#rows) if (row.workerId === workerId) this.#rows.delete(key)
    for (const [id, booking] of this.#bookings) if (booking.row.workerId === workerId) this.#bookings.delete(id)
    this.#taints.delete(workerId)
    this.#all = [...this.#rows.values()]
  }

  applyEvents(_events: readonly RouterEvent[]): void {}

  recordDecision(_prompt: PromptHashes, _worker: WorkerRank): void {}

  loads(): Promise<readonly RankLoad[]> {
    return Promise.resolve(this.#all.map(loadOf))
  }

  onLoads(listener: (changed: readonly RankLoad[]) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  close(): Promise<void> {
    this.#isClosed = true
    this.#listeners.clear()
    return Promise.resolve()
  }

  #choose(request: RouteRequest): RouteAnswer {
    if (this.#isClosed) throw new WarmrouteError('WR_SHUTTING_DOWN', {})
    if (typeof request.signal === 'object' && request.signal.aborted)
      throw new WarmrouteError('WR_REQUEST_CANCELLED', {})
    const { pin } = request
    if (this.#policy === 'direct' && !pin)
      throw new WarmrouteError('WR_INVALID_ARGUMENT', {
        reason:
          'direct routing needs the id of a worker: send x-dynamo-worker-instance-id, or nvext.backend_instance_id',
      })
    const rows = isOpen(request) ? this.#all : this.#all.filter((row) => this.#mayServe(row, request))
    if (rows.length === 0) {
      const reason = pin
        ? `worker ${pin.workerId} cannot take it`
        : this.#all.length === 0
          ? 'no workers'
          : 'all are left out'
      throw new WarmrouteError('WR_NO_ENDPOINTS', { reason })
    }
    const row = pickRank(this.#policy, rows, this.#turn, this.#random)
    if (!request.isQueryOnly) {
      this.#book(request, row)
      this.#turn++ // who only asks takes no turn from those who go
    }
    return {
      workerId: row.workerId,
      dpRank: row.dpRank,
      overlapBlocks: 0,
      effectiveOverlapBlocks: 0,
      cachedTokens: 0,
      waitedMs: 0,
    }
  }

  #mayServe(row: RankRow, request: RouteRequest): boolean {
    const { pin, allowedWorkerIds, excludedWorkerIds, requiredTaints } = request
    if (pin && (pin.workerId !== row.workerId || (pin.dpRank !== undefined && pin.dpRank !== row.dpRank))) return false
    if (allowedWorkerIds && !allowedWorkerIds.has(row.workerId)) return false
    if (excludedWorkerIds?.has(row.workerId)) return false
    const taints = this.#taints.get(row.workerId)
    return requiredTaints?.every((taint) => taints?.has(taint)) ?? true
  }

  #book(request: RouteRequest, row: RankRow): void {
    if (this.#bookings.has(request.requestId))
      throw new WarmrouteError('WR_DUPLICATE_REQUEST', { request_id: request.requestId })
    const tokens = request.tokens?.length ?? request.tokenCount ?? 0
    this.#bookings.set(request.requestId, { row, tokens })
    row.activeRequests++
    row.activeTokens += tokens
    this.#publish(row)
  }

  #potential(tokens: Uint32Array): PotentialLoad[] {
    return this.#all.map(({ workerId, dpRank, activeTokens, activeRequests }) => ({
      workerId,
      dpRank,
      potentialPrefillTokens: activeTokens + tokens.length,
      potentialDecodeBlocks: 0,
      activeRequests,
    }))
  }

  #publish(row: RankRow): void {
    if (this.#listeners.size === 0) return
    const changed = [loadOf(row)]
    for (const listener of this.#listeners) listener(changed)
  }
}

function isOpen(request: RouteRequest): boolean {
  return !request.pin && !request.allowedWorkerIds && !request.excludedWorkerIds && !request.requiredTaints
}

/** Running prompts are counted as prefill work: without a cache nothing tells when a prompt is done. */
function loadOf(row: RankRow): RankLoad {
  return {
    workerId: row.workerId,
    dpRank: row.dpRank,
    activeDecodeBlocks: 0,
    activePrefillTokens: row.activeTokens,
    activeRequests: row.activeRequests,
  }
}
