/**
 * Session affinity: the first request of a session chooses a worker, the others follow it. Follows
 * lib/llm/src/session_affinity/ at 1.5.0-dev.
 *
 *   (absent) ──acquire──► initialising ──commit──► bound ──last lease ends + idle──► (absent)
 *                           │  ▲ one waiter retries      │
 *                           └──┘ fail                    └──invalidate──► (absent)
 *
 * While a session is initialising its other requests wait; they are woken through a callback, so that this stays a plain
 * state machine. A lease is held from `acquire` to the end of the request and must be ended by exactly one call.
 */
import { WarmrouteError } from '../protocol/index.js'

export interface AffinityTarget {
  readonly workerId: bigint
  /** Rank 0 is a real value; undefined is "any rank of the worker". */
  readonly dpRank?: number | undefined
}

export interface AffinityEvent extends AffinityTarget {
  readonly sessionId: string
  readonly routerId: bigint
}

export interface AffinityOptions {
  /** 1 s to 365 days. */
  readonly ttlMs: number
  readonly routerId: bigint
  readonly sessionsMax?: number
  /** Best effort, after a binding was made or used; loss is harmless. */
  readonly publish?: (event: AffinityEvent) => void
}

/** Held by one request. Opaque to its holder. */
export interface AffinityLease {
  readonly sessionId: string
  /** Undefined: this request chooses, and must `commit` or `fail`. */
  readonly target: AffinityTarget | undefined
}

export type Acquired =
  | { readonly kind: 'choose'; readonly lease: AffinityLease }
  | { readonly kind: 'follow'; readonly lease: AffinityLease; readonly target: AffinityTarget }
  /** Somebody else is choosing. `onWake` is called once; then `acquire` again. */
  | { readonly kind: 'wait'; cancel(): void }

export interface AcquireRequest {
  readonly sessionId: string
  /** Named by the request itself; must agree with the binding. */
  readonly explicitTarget?: AffinityTarget | undefined
  readonly onWake?: (() => void) | undefined
}

const ttlMsMax = 31_536_000_000
const sessionIdBytesMax = 256

interface Waiter {
  readonly wake: () => void
  /** The set it stands in now; it moves when a chooser fails. */
  home: Set<Waiter>
}

type State =
  | { readonly kind: 'initialising'; owner: Lease; readonly waiters: Set<Waiter> }
  | { readonly kind: 'bound'; readonly target: AffinityTarget; leases: number; idleUntilMs: number }

class Lease implements AffinityLease {
  readonly sessionId: string
  readonly target: AffinityTarget | undefined
  readonly state: State | undefined
  isOpen = true

  constructor(sessionId: string, target: AffinityTarget | undefined, state: State | undefined) {
    this.sessionId = sessionId
    this.target = target
    this.state = state
  }
}

export class AffinityCoordinator {
  readonly #sessions = new Map<string, State>()
  readonly #ttlMs: number
  readonly #routerId: bigint
  readonly #sessionsMax: number
  readonly #publish: (event: AffinityEvent) => void

  constructor(options: AffinityOptions) {
    if (!(options.ttlMs >= 1000 && options.ttlMs <= ttlMsMax)) {
      throw new WarmrouteError('WR_INVALID_ARGUMENT', {
        reason: `session affinity needs a time to live of 1 to 31536000 seconds, got ${options.ttlMs / 1000}`,
      })
    }
    this.#ttlMs = options.ttlMs
    this.#routerId = options.routerId
    this.#sessionsMax = options.sessionsMax ?? 65_536
    this.#publish = options.publish ?? (() => {})
  }

  get size(): number {
    return this.#sessions.size
  }

  /** How often the owner of the clock should call `reap`. */
  get reapIntervalMs(): number {
    return Math.min(this.#ttlMs, 30_000)
  }

  /** Throws when the session id is too long, the coordinator full, or the explicit target not the bound one. */
  acquire(request: AcquireRequest, nowMs: number): Acquired {
    checkSessionId(request.sessionId)
    const state = this.#live(request.sessionId, nowMs)
    if (!state) return { kind: 'choose', lease: this.#initialise(request.sessionId) }
    if (state.kind === 'initialising') return waitFor(state, request.onWake)
    if (request.explicitTarget && !agrees(request.explicitTarget, state.target)) {
      throw new WarmrouteError('WR_SESSION_TARGET_MISMATCH', {
        session_id: request.sessionId,
        bound: state.target,
        requested: request.explicitTarget,
      })
    }
    state.leases++
    return { kind: 'follow', lease: new Lease(request.sessionId, state.target, state), target: state.target }
  }

  /** Reads without creating or refreshing: what a query-only request may do. */
  peek(sessionId: string, nowMs: number): AffinityTarget | undefined {
    const state = this.#live(sessionId, nowMs)
    return state?.kind === 'bound' ? state.target : undefined
  }

  /** The chosen worker accepted the first request. Everybody who waited follows. Answers with the lease to end later. */
  commit(lease: AffinityLease, target: AffinityTarget): AffinityLease {
    const own = this.#close(lease)
    const state = this.#sessions.get(lease.sessionId)
    if (!own || state?.kind !== 'initialising' || state.owner !== own)
      return new Lease(lease.sessionId, target, undefined)
    const bound: State = { kind: 'bound', target, leases: 1, idleUntilMs: Number.POSITIVE_INFINITY }
    this.#sessions.set(lease.sessionId, bound)
    this.#publish({ sessionId: lease.sessionId, ...target, routerId: this.#routerId })
    for (const waiter of state.waiters) waiter.wake()
    return new Lease(lease.sessionId, target, bound)
  }

  /** The chooser gave up or was cancelled: one waiter is woken and chooses in its place. */
  fail(lease: AffinityLease): void {
    const own = this.#close(lease)
    const state = this.#sessions.get(lease.sessionId)
    if (!own || state?.kind !== 'initialising' || state.owner !== own) return
    this.#sessions.delete(lease.sessionId)
    const [next, ...others] = state.waiters
    if (!next) return
    next.wake()
    // The woken one chooses synchronously or has gone; the others wait for it, or for the next.
    const again = this.#sessions.get(lease.sessionId)
    for (const waiter of others) {
      if (again?.kind === 'initialising') enter(waiter, again.waiters)
      else waiter.wake()
    }
  }

  /** A request of a bound session ended, by whatever end: the idle time starts with the last one. */
  release(lease: AffinityLease, nowMs: number): void {
    const own = this.#close(lease)
    if (own?.state?.kind !== 'bound') return
    const state = own.state
    state.leases--
    if (this.#sessions.get(lease.sessionId) !== state) return // invalidated meanwhile
    if (state.leases === 0) state.idleUntilMs = nowMs + this.#ttlMs
    this.#publish({ sessionId: lease.sessionId, ...state.target, routerId: this.#routerId })
  }

  /** The bound worker failed this request (a cancellation is no failure). Others that follow it find the session unbound. */
  invalidate(lease: AffinityLease): void {
    const own = this.#close(lease)
    if (own?.state?.kind !== 'bound') return
    own.state.leases--
    if (this.#sessions.get(lease.sessionId) === own.state) this.#sessions.delete(lease.sessionId)
  }

  /** Bindings to a worker that left are worth nothing. */
  removeWorker(workerId: bigint): void {
    for (const [sessionId, state] of this.#sessions) {
      if (state.kind === 'bound' && state.target.workerId === workerId) this.#sessions.delete(sessionId)
    }
  }

  /** News of another router: the first live binding wins, the same one is refreshed. True when something changed. */
  applyRemote(event: AffinityEvent, nowMs: number, isKnownWorker: (workerId: bigint) => boolean): boolean {
    if (event.routerId === this.#routerId || !isKnownWorker(event.workerId)) return false
    const state = this.#live(event.sessionId, nowMs)
    if (state?.kind === 'initialising') return false
    if (!state) {
      if (this.#sessions.size >= this.#sessionsMax || byteLength(event.sessionId) > sessionIdBytesMax) return false
      const target = { workerId: event.workerId, dpRank: event.dpRank }
      this.#sessions.set(event.sessionId, { kind: 'bound', target, leases: 0, idleUntilMs: nowMs + this.#ttlMs })
      return true
    }
    if (!sameTarget(state.target, event)) return false
    if (state.leases === 0) state.idleUntilMs = nowMs + this.#ttlMs
    return true
  }

  reap(nowMs: number): void {
    for (const sessionId of this.#sessions.keys()) this.#live(sessionId, nowMs)
  }

  #initialise(sessionId: string): AffinityLease {
    if (this.#sessions.size >= this.#sessionsMax) {
      throw new WarmrouteError('WR_SESSION_CAPACITY', { limit: this.#sessionsMax })
    }
    const owner = new Lease(sessionId, undefined, undefined)
    this.#sessions.set(sessionId, { kind: 'initialising', owner, waiters: new Set() })
    return owner
  }

  /** The state, unless its idle time is over; then it is forgotten. */
  #live(sessionId: string, nowMs: number): State | undefined {
    const state = this.#sessions.get(sessionId)
    if (state?.kind === 'bound' && state.leases === 0 && state.idleUntilMs <= nowMs) {
      this.#sessions.delete(sessionId)
      return undefined
    }
    return state
  }

  /** Undefined when the lease was ended before: the second end of a request changes nothing. */
  #close(lease: AffinityLease): Lease | undefined {
    if (!(lease instanceof Lease) || !lease.isOpen) return undefined
    lease.isOpen = false
    return lease
  }
}

function waitFor(state: Extract<State, { kind: 'initialising' }>, onWake: (() => void) | undefined): Acquired {
  const waiter: Waiter = { wake: onWake ?? (() => {}), home: state.waiters }
  enter(waiter, state.waiters)
  return { kind: 'wait', cancel: () => void waiter.home.delete(waiter) }
}

function enter(waiter: Waiter, home: Set<Waiter>): void {
  waiter.home = home
  home.add(waiter)
}

function checkSessionId(sessionId: string): void {
  if (byteLength(sessionId) > sessionIdBytesMax || sessionId === '') {
    throw new WarmrouteError('WR_INVALID_ARGUMENT', {
      reason: `a session id has 1 to ${sessionIdBytesMax} bytes, got ${byteLength(sessionId)}`,
    })
  }
}

const encoder = new TextEncoder()

function byteLength(text: string): number {
  return encoder.encode(text).length
}

/** A request that names only a worker agrees with every rank of it. */
function agrees(requested: AffinityTarget, bound: AffinityTarget): boolean {
  return requested.workerId === bound.workerId && (requested.dpRank === undefined || requested.dpRank === bound.dpRank)
}

function sameTarget(a: AffinityTarget, b: AffinityTarget): boolean {
  return a.workerId === b.workerId && a.dpRank === b.dpRank
}
