/**
 * The router for people who embed it: workers by name, prompts as tokens, and one object per placed request that ends its
 * booking. No server, no sockets. Without KV events it predicts caches from its own decisions.
 */
import type { RouterConfigInput, RouterEvent, WorkerConfig } from '../core/protocol/index.js'
import { defaultWorkerConfig, validateWorkerConfig, WarmrouteError } from '../core/protocol/index.js'
import { InProcessRouter } from './in-process-router.js'
import type { Receipt } from './receipt.js'
import { namedReceipt } from './receipt.js'

/**
 * What is known of one worker.
 *
 * @example
 * import { createRouter, type WorkerOptions } from 'warmroute'
 *
 * const options: WorkerOptions = { totalKvBlocks: 16_384, maxNumBatchedTokens: 8192 }
 * const router = await createRouter({ blockSize: 16 })
 * router.setWorker('gpu-1', options)
 * await router.close()
 */
export type WorkerOptions = Partial<WorkerConfig>

/**
 * How a router is made.
 *
 * @example
 * import { createRouter, type RouterOptions } from 'warmroute'
 *
 * const options: RouterOptions = { blockSize: 16, workers: ['gpu-1', 'gpu-2'], config: { policy: 'warm' } }
 * const router = await createRouter(options)
 * await router.close()
 */
export interface RouterOptions {
  /** Tokens per KV block of the engines. */
  readonly blockSize: number
  /** Names of the workers at start; more may come and go. */
  readonly workers?: Iterable<string>
  /** True: `applyEvents` will be fed with what engines report. False: caches are predicted from our own decisions. */
  readonly hasEvents?: boolean
  /** Settings of the router, by the names of docs/reference/config.md in camel case. */
  readonly config?: RouterConfigInput
}

/**
 * What is asked for one prompt.
 *
 * @example
 * import { createRouter, type RouteOptions } from 'warmroute'
 *
 * const router = await createRouter({ blockSize: 16, workers: ['gpu-1', 'gpu-2'] })
 * const options: RouteOptions = { tokens: Uint32Array.of(1, 2, 3), excludedWorkers: ['gpu-1'] }
 * console.log((await router.route(options)).worker) // => gpu-2
 * await router.close()
 */
export interface RouteOptions {
  /** The prompt exactly as the engine will see it. */
  readonly tokens: Uint32Array
  readonly loraName?: string
  /** Keeps the caches of tenants apart. */
  readonly cacheNamespace?: string
  readonly expectedOutputTokens?: number
  /** Seconds of queueing that this request may overtake. */
  readonly priorityJump?: number
  /** Only these workers. */
  readonly allowedWorkers?: Iterable<string>
  /** Workers that failed this request before. */
  readonly excludedWorkers?: Iterable<string>
  /** True: `receipt` explains the choice. */
  readonly wantReceipt?: boolean
  /** Ends the wait, or frees what was booked in the same moment. */
  readonly signal?: AbortSignal
}

/**
 * A request that was given a worker. It counts as load there until `free`, which is safe to call more than once.
 *
 * @example
 * import { createRouter, type Placement } from 'warmroute'
 *
 * const router = await createRouter({ blockSize: 16, workers: ['gpu-1'] })
 * const placement: Placement = await router.route({ tokens: Uint32Array.of(1, 2, 3) })
 * try {
 *   // send the request to placement.worker; at the first token:
 *   placement.prefillDone()
 * } finally {
 *   placement.free()
 * }
 * await router.close()
 */
export interface Placement {
  readonly requestId: string
  readonly worker: string
  readonly dpRank: number
  /** Tokens that the worker should not have to compute. */
  readonly cachedTokens: number
  readonly receipt: Receipt | undefined
  /** The first token arrived: the prompt is computed. */
  prefillDone(): void
  /** One more block of output was written. */
  outputBlock(): void
  /** The request ended, by whatever end. */
  free(): void
}

/**
 * A router over named workers, in this process.
 *
 * @example
 * import { createRouter, type Router } from 'warmroute'
 *
 * const router: Router = await createRouter({ blockSize: 16, workers: ['gpu-1', 'gpu-2', 'gpu-3'] })
 * router.removeWorker('gpu-3')
 * await router.close()
 */
export interface Router {
  /** Rejects with a `WarmrouteError` where nobody can serve it, or the signal fires. */
  route(options: RouteOptions): Promise<Placement>
  /** Adds a worker, or says something new of it. Throws `WR_ROUTER_CLOSED` after `close`. */
  setWorker(name: string, options?: WorkerOptions): void
  /** Its bookings and its cached blocks are forgotten. */
  removeWorker(name: string): void
  /** The number that stands for a worker in events; the same again when a worker returns soon. */
  workerId(name: string): bigint | undefined
  /** What engines report of their caches. */
  applyEvents(events: readonly RouterEvent[]): void
  /** Everybody who waits is refused; settles when nothing runs any more. */
  close(): Promise<void>
}

/**
 * Makes a router.
 *
 * @example
 * import { createRouter } from 'warmroute'
 *
 * const router = await createRouter({ blockSize: 16, workers: ['gpu-1', 'gpu-2', 'gpu-3'] })
 * const tokens = Uint32Array.from({ length: 64 }, (_, at) => at)
 * const first = await router.route({ tokens })
 * first.free()
 * const again = await router.route({ tokens })
 * console.log(again.worker === first.worker, again.cachedTokens) // => true 64
 * again.free()
 * await router.close()
 */
export async function createRouter(options: RouterOptions): Promise<Router> {
  const names = new Names()
  const inner = await InProcessRouter.create({
    blockSize: options.blockSize,
    config: { useKvEvents: options.hasEvents ?? false, ...options.config },
    workers: [...(options.workers ?? [])].map((name) => [names.idOf(name), defaultWorkerConfig] as const),
  })
  return new NamedRouter(inner, names)
}

class NamedRouter implements Router {
  readonly #inner: InProcessRouter
  readonly #names: Names
  #nextRequest = 0
  #isClosed = false

  constructor(inner: InProcessRouter, names: Names) {
    this.#inner = inner
    this.#names = names
  }

  async route(options: RouteOptions): Promise<Placement> {
    const { allowedWorkers, excludedWorkers, ...plain } = options
    requireTokens(plain.tokens)
    const requestId = `request-${this.#nextRequest++}`
    const answer = await this.#inner.route({
      ...plain,
      requestId,
      allowedWorkerIds: allowedWorkers && this.#names.idsOf(allowedWorkers),
      excludedWorkerIds: excludedWorkers && this.#names.idsOf(excludedWorkers),
    })
    const inner = this.#inner
    let isFree = false
    return {
      requestId,
      worker: this.#names.nameOf(answer.workerId),
      dpRank: answer.dpRank,
      cachedTokens: answer.cachedTokens,
      receipt: answer.receipt && namedReceipt(answer.receipt, (id) => this.#names.nameOf(id)),
      prefillDone: () => void (isFree || inner.prefillDone(requestId)),
      outputBlock: () => void (isFree || inner.outputBlock(requestId)),
      free: () => {
        if (isFree) return
        isFree = true
        inner.free(requestId)
      },
    }
  }

  setWorker(name: string, options: WorkerOptions = {}): void {
    if (this.#isClosed) throw new WarmrouteError('WR_ROUTER_CLOSED', {})
    const config = { ...defaultWorkerConfig, ...options }
    validateWorkerConfig(config) // before the name is kept
    this.#inner.setWorker(this.#names.idOf(name), config)
  }

  removeWorker(name: string): void {
    const id = this.#names.find(name)
    if (id === undefined) return
    this.#names.leave(name)
    this.#inner.removeWorker(id)
  }

  workerId(name: string): bigint | undefined {
    return this.#names.find(name)
  }

  applyEvents(events: readonly RouterEvent[]): void {
    this.#inner.applyEvents(events)
  }

  close(): Promise<void> {
    this.#isClosed = true
    return this.#inner.close()
  }
}

/** Callers without types would be routed by load alone, and never learn why. */
function requireTokens(tokens: unknown): void {
  if (Object.prototype.toString.call(tokens) !== '[object Uint32Array]')
    throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: 'tokens must be a Uint32Array' })
}

/** So many names of workers that left are kept: fleets that scale by the hour name thousands of workers a week. */
export const departedNamesMax = 1024

/** Names to ids and back. A name keeps its id when its worker leaves and returns, while it is among the last that left. */
class Names {
  readonly #departed = new Set<string>()
  #nextId = 1n
  readonly #ids = new Map<string, bigint>()
  readonly #names = new Map<bigint, string>()

  idOf(name: string): bigint {
    this.#departed.delete(name)
    const known = this.#ids.get(name)
    if (known !== undefined) return known
    if (name === '') throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: 'a worker needs a name' })
    const id = this.#nextId++ // never given again: a late event of a forgotten worker must not become another's
    this.#ids.set(name, id)
    this.#names.set(id, name)
    return id
  }

  leave(name: string): void {
    this.#departed.delete(name)
    this.#departed.add(name)
    if (this.#departed.size <= departedNamesMax) return
    const [oldest] = this.#departed
    this.#departed.delete(oldest!)
    this.#names.delete(this.#ids.get(oldest!)!)
    this.#ids.delete(oldest!)
  }

  find(name: string): bigint | undefined {
    return this.#ids.get(name)
  }

  /** Unknown names stand for nobody. */
  idsOf(names: Iterable<string>): ReadonlySet<bigint> {
    const ids = [...names].map((name) => this.#ids.get(name))
    return new Set(ids.filter((id) => id !== undefined))
  }

  nameOf(id: bigint): string {
    return this.#names.get(id) ?? String(id)
  }
}
