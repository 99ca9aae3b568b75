/**
 * Sticky sessions: a session id keeps going to the worker that opened it, until it has been silent for its time to live.
 * Follows lib/llm/src/kv_router/sticky_sessions.rs at v1.2.0. Only the worker is sticky, not the rank.
 *
 * Time is an argument. `reap` is called every 30 s by the owner of the clock; a lookup finds an expired entry by itself.
 */

/** Where bindings live; replaceable by a store that router replicas share. */
export interface SessionStore {
  get(sessionId: string): StickyBinding | undefined
  set(sessionId: string, binding: StickyBinding): void
  delete(sessionId: string): boolean
  /** Must allow deletion of the entry at hand, as a `Map` does. */
  entries(): Iterable<[string, StickyBinding]>
  readonly size: number
}

export interface StickyBinding {
  readonly workerId: bigint
  readonly ttlMs: number
  readonly expiresAtMs: number
}

export interface StickySessionsOptions {
  /** A session lapsed: its worker should be told to close it. Not called for `unbind`. */
  readonly onExpired?: (sessionId: string, workerId: bigint) => void
  /** At the limit the binding that would expire first goes, and is counted. */
  readonly sessionsMax?: number
  readonly store?: SessionStore
}

/** How often an owner should call `reap`. */
export const reapIntervalMs = 30_000

export class StickySessions {
  readonly #store: SessionStore
  readonly #onExpired: (sessionId: string, workerId: bigint) => void
  readonly #sessionsMax: number
  #evicted = 0

  constructor(options: StickySessionsOptions = {}) {
    this.#store = options.store ?? new Map<string, StickyBinding>()
    this.#onExpired = options.onExpired ?? (() => {})
    this.#sessionsMax = options.sessionsMax ?? 65_536
  }

  get size(): number {
    return this.#store.size
  }

  /** Bindings given up before their time because the limit was reached. */
  get evicted(): number {
    return this.#evicted
  }

  /** The worker of a session; being asked restarts its time to live. */
  resolve(sessionId: string, nowMs: number): bigint | undefined {
    const binding = this.#store.get(sessionId)
    if (!binding) return undefined
    if (binding.expiresAtMs <= nowMs) {
      this.#expire(sessionId, binding)
      return undefined
    }
    this.#store.set(sessionId, { ...binding, expiresAtMs: nowMs + binding.ttlMs })
    return binding.workerId
  }

  bind(sessionId: string, workerId: bigint, ttlMs: number, nowMs: number): void {
    if (this.#store.get(sessionId) === undefined && this.#store.size >= this.#sessionsMax) this.#evictOne(nowMs)
    this.#store.set(sessionId, { workerId, ttlMs, expiresAtMs: nowMs + ttlMs })
  }

  unbind(sessionId: string): void {
    this.#store.delete(sessionId)
  }

  /** Forgets every session of a worker that left; there is nobody to tell. */
  removeWorker(workerId: bigint): void {
    for (const [sessionId, binding] of this.#store.entries()) {
      if (binding.workerId === workerId) this.#store.delete(sessionId)
    }
  }

  /** Ends every session whose time is up. */
  reap(nowMs: number): void {
    for (const [sessionId, binding] of this.#store.entries()) {
      if (binding.expiresAtMs <= nowMs) this.#expire(sessionId, binding)
    }
  }

  #expire(sessionId: string, binding: StickyBinding): void {
    this.#store.delete(sessionId)
    this.#onExpired(sessionId, binding.workerId)
  }

  #evictOne(nowMs: number): void {
    this.reap(nowMs)
    if (this.#store.size < this.#sessionsMax) return
    let first: [string, StickyBinding] | undefined
    for (const entry of this.#store.entries()) {
      if (!first || entry[1].expiresAtMs < first[1].expiresAtMs) first = entry
    }
    if (!first) return
    this.#evicted++
    this.#expire(first[0], first[1])
  }
}
