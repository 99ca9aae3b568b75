/**
 * Sessions that live inside a worker: opened on the worker that was chosen, kept there while requests name them, closed
 * after the last one. Follows the agent controller of lib/llm/src/kv_router/agent_controller.rs at v1.2.0 over a port:
 * how a worker is asked to open or close a session is the engine's business.
 *
 * The guard of a request is made before `open`, so that a session that cannot be opened leaks no booking.
 */
import type { StickySessions } from '../core/sessions/index.js'
import { WarmrouteError } from '../core/protocol/index.js'

export interface SessionControl {
  readonly sessionId: string
  readonly action?: 'open' | 'close' | undefined
  /** Seconds of silence after which the session lapses. */
  readonly timeoutSecs?: number | undefined
}

/** Asks one worker; rejects on transport failure. */
export interface SessionPort {
  /** False: no worker of this fleet can hold sessions. Asked once. */
  isAvailable(signal: AbortSignal): Promise<boolean>
  open(workerId: bigint, request: OpenSession, signal: AbortSignal): Promise<SessionReply>
  close(workerId: bigint, sessionId: string, signal: AbortSignal): Promise<void>
}

export interface OpenSession {
  readonly sessionId: string
  readonly timeoutSecs: number
  readonly capacityOfStrLen: number
}

/** `status` must be `ok`; everything else, a missing one included, is a failure. */
export interface SessionReply {
  readonly status?: string | undefined
  readonly message?: string | undefined
}

/** What a session means for one request on its worker. */
export interface SessionUse {
  /** The worker has the session open, so that the request may name it there. */
  readonly isInside: boolean
  /** To be called when generation has ended. */
  readonly afterwards?: (() => void) | undefined
}

export interface AgentControllerOptions {
  readonly sessions: StickySessions
  readonly port: SessionPort
  readonly now: () => number
  readonly warn: (fields: Record<string, unknown>, sentence: string) => void
  /** Limit of one call to a worker. */
  readonly timeoutMs?: number
}

const outside: SessionUse = { isInside: false }
const defaultTimeoutSecs = 300
/** The worker keeps a session this much longer than we do, so that ours lapses first and closes it in order. */
const surplusSecs = 30
/** How long the first call waits for a worker that can hold sessions. */
const availabilityTimeoutMs = 5_000

/** A session that a worker is being asked to open. */
interface Opening {
  readonly workerId: bigint
  /** Whoever answers, it may not be the process that serves from now on. */
  isStale: boolean
  readonly stop: AbortController
}

export class AgentController {
  readonly #options: AgentControllerOptions
  readonly #closing = new Set<Promise<void>>()
  /** Calls under way. */
  readonly #opening = new Set<Opening>()
  readonly #stop = new AbortController()
  #isAvailable: Promise<boolean> | undefined

  constructor(options: AgentControllerOptions) {
    this.#options = options
  }

  /** The worker of the request's session, unless the request names its own. Refreshes the session. */
  resolve(control: SessionControl | undefined, pinnedWorkerId?: bigint): bigint | undefined {
    if (!control || pinnedWorkerId !== undefined) return undefined
    return this.#options.sessions.resolve(control.sessionId, this.#options.now())
  }

  /** After selection, before dispatch. Where no worker can hold sessions the request goes on without one. */
  async begin(control: SessionControl | undefined, workerId: bigint): Promise<SessionUse> {
    if (!control) return outside
    const { sessions, now } = this.#options
    const { sessionId, action } = control
    const isInside = sessions.resolve(sessionId, now()) === workerId
    if (!action || !(await this.#available())) return { isInside }
    if (action === 'close') {
      sessions.unbind(sessionId)
      return { isInside, afterwards: () => this.closeLater(sessionId, workerId) }
    }
    await this.#open(control, workerId)
    return { isInside: true }
  }

  /** The worker left, or is another process now: its sessions are gone, those included that it is just opening. */
  removeWorker(workerId: bigint): void {
    this.#options.sessions.removeWorker(workerId)
    for (const opening of this.#opening) if (opening.workerId === workerId) opening.isStale = true
  }

  /** Fire and forget, as after a lapsed session; `close()` waits for what is under way. */
  closeLater(sessionId: string, workerId: bigint): void {
    const { port, warn } = this.#options
    const task = port
      .close(workerId, sessionId, AbortSignal.timeout(this.#timeoutMs)) // not ended by `close()`, which waits for it
      .catch((error: unknown) =>
        warn({ session: sessionId, worker: String(workerId), error: String(error) }, 'a session could not be closed'),
      )
      .finally(() => this.#closing.delete(task))
    this.#closing.add(task)
  }

  async close(): Promise<void> {
    this.#stop.abort()
    for (const { stop } of this.#opening) stop.abort()
    await Promise.all(this.#closing)
  }

  async #open(control: SessionControl, workerId: bigint): Promise<void> {
    const { sessions, port, now } = this.#options
    const timeoutSecs = control.timeoutSecs ?? defaultTimeoutSecs
    const request = { sessionId: control.sessionId, timeoutSecs: timeoutSecs + surplusSecs, capacityOfStrLen: 65_536 }
    // Of its own: Node 20 keeps a note of all that AbortSignal.any makes of a signal that lives on.
    const stop = new AbortController()
    const timer = setTimeout(() => stop.abort(), this.#timeoutMs).unref()
    if (this.#stop.signal.aborted) stop.abort()
    const opening: Opening = { workerId, isStale: false, stop }
    this.#opening.add(opening)
    const reply = await port
      .open(workerId, request, stop.signal)
      .catch((cause: unknown) => {
        throw new WarmrouteError(
          'WR_SESSION_OPEN_FAILED',
          { session_id: control.sessionId, reason: String(cause) },
          { cause },
        )
      })
      .finally(() => {
        clearTimeout(timer)
        this.#opening.delete(opening)
      })
    if (reply.status !== 'ok') {
      const reason =
        reply.message ?? (reply.status === undefined ? 'the worker gave no status' : `status ${reply.status}`)
      throw new WarmrouteError('WR_SESSION_OPEN_FAILED', { session_id: control.sessionId, reason })
    }
    if (opening.isStale) {
      this.closeLater(control.sessionId, workerId) // the new process may have been the one that opened it
      throw new WarmrouteError('WR_SESSION_OPEN_FAILED', {
        session_id: control.sessionId,
        reason: 'the worker left or restarted meanwhile',
      })
    }
    sessions.bind(control.sessionId, workerId, timeoutSecs * 1000, now())
  }

  /** The first answer is kept for good: a fleet without sessions is not asked with every request. */
  #available(): Promise<boolean> {
    return (this.#isAvailable ??= this.#options.port
      .isAvailable(AbortSignal.any([this.#stop.signal, AbortSignal.timeout(availabilityTimeoutMs)]))
      .catch(() => false))
  }

  get #timeoutMs(): number {
    return this.#options.timeoutMs ?? 10_000
  }
}
