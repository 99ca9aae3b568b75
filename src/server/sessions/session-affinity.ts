/**
 * Session affinity of one model, alive: the coordinator of `core/sessions` with a clock, a reaper, and waiting as a
 * promise. Whose session a request is was read from its headers (`request/session-id.ts`).
 */
import type { AffinityEvent, AffinityLease, AffinityTarget } from '../../core/sessions/index.js'
import { AffinityCoordinator } from '../../core/sessions/index.js'
import type { AffinityLink } from '../../routing/index.js'

export interface TieRequest {
  readonly sessionId: string
  /** Named by the request itself; must agree with the session. */
  readonly explicitTarget?: AffinityTarget | undefined
  /** The last turn: the session is forgotten after it. */
  readonly isFinal: boolean
}

/** What became of news about a session: ours told or lost on the way, theirs believed or not. */
export type NewsOutcome = 'sent' | 'dropped' | 'applied' | 'ignored'

export interface SessionAffinityOptions {
  readonly ttlMs: number
  readonly routerId: bigint
  readonly now: () => number
  /** Other routers of the same sessions; none unless told. */
  readonly join?: ((onEvent: (event: AffinityEvent) => void) => AffinityLink) | undefined
  /** Whose sessions of other routers are worth remembering. */
  readonly isKnownWorker?: ((workerId: bigint) => boolean) | undefined
  readonly onNews?: ((outcome: NewsOutcome) => void) | undefined
}

export class SessionAffinity {
  readonly #coordinator: AffinityCoordinator
  readonly #now: () => number
  readonly #reaper: NodeJS.Timeout
  readonly #link: AffinityLink | undefined

  constructor(options: SessionAffinityOptions) {
    const { ttlMs, routerId, now, onNews } = options
    this.#now = now
    this.#link = options.join?.((event) => {
      const isNews = this.#coordinator.applyRemote(event, now(), options.isKnownWorker ?? (() => true))
      onNews?.(isNews ? 'applied' : 'ignored')
    })
    const link = this.#link
    const publish = link && ((event: AffinityEvent): void => onNews?.(link.publish(event) ? 'sent' : 'dropped'))
    this.#coordinator = new AffinityCoordinator({ ttlMs, routerId, ...(publish ? { publish } : {}) })
    this.#reaper = setInterval(() => this.#coordinator.reap(this.#now()), this.#coordinator.reapIntervalMs).unref()
  }

  get size(): number {
    return this.#coordinator.size
  }

  /** Reads without creating or refreshing, for a dry run. */
  peek(sessionId: string): AffinityTarget | undefined {
    return this.#coordinator.peek(sessionId, this.#now())
  }

  /** Waits while another request of the session chooses. Rejects with the signal's reason, or what the coordinator refuses with. */
  async tie(request: TieRequest, signal: AbortSignal): Promise<SessionTie> {
    const lease = await this.#acquire(request, signal)
    return new SessionTie(this.#coordinator, () => this.#acquire(request, signal), this.#now, request.isFinal, lease)
  }

  removeWorker(workerId: bigint): void {
    this.#coordinator.removeWorker(workerId)
  }

  close(): void {
    clearInterval(this.#reaper)
    this.#link?.close()
  }

  #acquire(request: TieRequest, signal: AbortSignal): Promise<AffinityLease> {
    return new Promise((resolve, reject) => {
      let cancel = (): void => {}
      const onAbort = (): void => {
        cancel()
        reject(signal.reason as Error)
      }
      // Runs inside the wake-up call: whoever is woken chooses at once, or the next one is woken.
      const attempt = (): void => {
        if (signal.aborted) return onAbort()
        try {
          const acquired = this.#coordinator.acquire({ ...request, onWake: attempt }, this.#now())
          if (acquired.kind === 'wait') cancel = () => acquired.cancel()
          else {
            signal.removeEventListener('abort', onAbort)
            resolve(acquired.lease)
          }
        } catch (error) {
          signal.removeEventListener('abort', onAbort)
          reject(error as Error)
        }
      }
      signal.addEventListener('abort', onAbort, { once: true })
      attempt()
    })
  }
}

/** One request's hold on its session, from before it is routed to its end. */
export class SessionTie {
  readonly #coordinator: AffinityCoordinator
  readonly #acquire: () => Promise<AffinityLease>
  readonly #now: () => number
  readonly #isFinal: boolean
  #lease: AffinityLease

  constructor(
    coordinator: AffinityCoordinator,
    acquire: () => Promise<AffinityLease>,
    now: () => number,
    isFinal: boolean,
    lease: AffinityLease,
  ) {
    this.#coordinator = coordinator
    this.#acquire = acquire
    this.#now = now
    this.#isFinal = isFinal
    this.#lease = lease
  }

  /** Where the session lives. Undefined: this request chooses. */
  get target(): AffinityTarget | undefined {
    return this.#lease.target
  }

  /** A worker has the request: from now on the session lives there, and whoever waited follows. */
  sent(target: AffinityTarget): void {
    if (!this.#lease.target) this.#lease = this.#coordinator.commit(this.#lease, target)
  }

  /** The worker failed the request, or may not serve: the session is free again. A cancelled request is no failure. */
  lost(): void {
    if (this.#lease.target) this.#coordinator.invalidate(this.#lease)
  }

  /** After `lost`: takes part in the choice of another worker. */
  async again(): Promise<void> {
    if (this.#lease.target) this.#lease = await this.#acquire()
  }

  /** Whatever happened. The idle time of the session starts with the last of its requests. */
  end(): void {
    if (!this.#lease.target) this.#coordinator.fail(this.#lease)
    else if (this.#isFinal) this.#coordinator.invalidate(this.#lease)
    else this.#coordinator.release(this.#lease, this.#now())
  }
}
