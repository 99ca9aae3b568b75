/**
 * Sessions inside a simulated SGLang: opened by name, joined by requests of `/generate` that name them, closed on request
 * or after their silence. A session that streams takes appends only, so that clients which send whole conversations must
 * not ask for one; this server has streaming sessions off, as SGLang has by default.
 */

interface Session {
  readonly timeoutMs: number | undefined
  activeAtMs: number
}

export class SglangSessions {
  readonly #open = new Map<string, Session>()
  readonly #now: () => number
  #requests = 0

  constructor(now: () => number) {
    this.#now = now
  }

  get size(): number {
    this.#reap()
    return this.#open.size
  }

  /** Requests that ran inside a session. */
  get requests(): number {
    return this.#requests
  }

  /** False: a session of that name is open. */
  open(id: string, timeoutSecs: number | undefined): boolean {
    this.#reap()
    if (this.#open.has(id)) return false
    const timeoutMs = timeoutSecs === undefined ? undefined : 1000 * timeoutSecs
    this.#open.set(id, { timeoutMs, activeAtMs: this.#now() })
    return true
  }

  /** False: there is no such session. */
  join(id: string): boolean {
    this.#reap()
    const session = this.#open.get(id)
    if (!session) return false
    session.activeAtMs = this.#now()
    this.#requests++
    return true
  }

  close(id: string): void {
    this.#open.delete(id)
  }

  clear(): void {
    this.#open.clear()
  }

  #reap(): void {
    const now = this.#now()
    for (const [id, { timeoutMs, activeAtMs }] of this.#open)
      if (timeoutMs !== undefined && now - activeAtMs > timeoutMs) this.#open.delete(id)
  }
}
