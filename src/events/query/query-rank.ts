/**
 * What a router believes of a rank whose publisher can be asked: event ids that count up by one, and a query that gives
 * missed events or the whole tree. Follows the recovery of lib/llm/src/kv_router at 1.5.0. No I/O and no clock.
 *
 *   not recovering ──gap: reset──► recovering (live events wait) ──answer──► drain ──hole──► recovering
 *
 * The cursor moves only when every event of a group was admitted. An answer with events of another rank, or one that the
 * index rejects, fences the rank: nothing more is admitted until a reset succeeds.
 */
import type { RouterEvent, WorkerRank } from '../../core/protocol/index.js'
import { resetScopeOf } from '../../core/protocol/index.js'
import type { WorkerReply } from './worker-query.js'

export interface QueryRankEffects {
  /** False: not admitted. */
  apply(events: readonly RouterEvent[]): boolean
  /** Drops all that is known of the rank; false: it could not. */
  reset(): boolean
  /** Null: everything. The answer comes back under `ticket`. */
  query(startEventId: bigint | null, ticket: number): void
}

export interface QueryRankOptions extends WorkerRank {
  /** False: the source only publishes, and cannot be asked. */
  readonly isRecoverable: boolean
}

export interface QueryCounters {
  applied: number
  stale: number
  gaps: number
  queries: number
  failedAttempts: number
  degraded: number
  resets: number
  fences: number
  droppedPending: number
  foreign: number
}

export const queryLimits = {
  pendingMax: 1024,
  attemptsMax: 8,
  backoffMs: 200,
  attemptMs: 30_000,
  startDelayMsMax: 3,
} as const

const never = Number.POSITIVE_INFINITY

export class QueryRank {
  readonly counters: QueryCounters = {
    applied: 0,
    stale: 0,
    gaps: 0,
    queries: 0,
    failedAttempts: 0,
    degraded: 0,
    resets: 0,
    fences: 0,
    droppedPending: 0,
    foreign: 0,
  }
  readonly #effects: QueryRankEffects
  readonly #options: QueryRankOptions
  #cursor: bigint | undefined
  #maxSeen = 0n
  #isRecovering = false
  #isFenced = false
  /** Nothing was admitted since the last reset. */
  #isEmpty = true
  #pending: RouterEvent[] = []
  #ticket = 0
  #isAsking = false
  #start: bigint | null = null
  #attempts = 0
  #hasDumpFailed = false
  #askAt = never
  #deadline = never

  constructor(effects: QueryRankEffects, options: QueryRankOptions) {
    this.#effects = effects
    this.#options = options
  }

  /** Last admitted event id; undefined before the first. */
  get cursor(): bigint | undefined {
    return this.#cursor
  }

  get maxSeen(): bigint {
    return this.#maxSeen
  }

  get isRecovering(): boolean {
    return this.#isRecovering
  }

  get isFenced(): boolean {
    return this.#isFenced
  }

  /** Whether what is known may be counted on. */
  get isCredited(): boolean {
    return !this.#isRecovering && !this.#isFenced
  }

  get nextDeadline(): number {
    return Math.min(this.#askAt, this.#deadline)
  }

  /** The source is there. `delayMs` spreads a fleet's first questions over a few milliseconds. */
  activate(now: number, delayMs = 0): void {
    if (!this.#options.isRecoverable) return
    this.#recover(null, now, delayMs)
  }

  /** The source is gone, or another incarnation took its place: its knowledge goes first. */
  deactivate(): void {
    this.#cancel()
    this.#pending = []
    this.#cursor = undefined
    this.#reset()
  }

  live(event: RouterEvent, now: number): void {
    const id = event.event.eventId
    if (this.#isForeign(event)) {
      this.counters.foreign++ // the whole message is not about this rank
      return
    }
    if (id > this.#maxSeen) this.#maxSeen = id
    if (this.#isFenced && !this.#reset()) return
    if (this.#cursor !== undefined && id <= this.#cursor) {
      this.counters.stale++
      return
    }
    if (isClearOfAll(event)) {
      this.#cancel()
      this.#pending = []
      this.#admit([event], id)
      return
    }
    if (this.#isRecovering) return this.#wait(event)
    if (this.#cursor === undefined) {
      if (!this.#options.isRecoverable) return void this.#admit([event], id)
      this.#wait(event)
      return this.#recover(null, now, 0)
    }
    if (id === this.#cursor + 1n) return void this.#admit([event], id)
    this.counters.gaps++
    if (!this.#options.isRecoverable) {
      if (this.#reset()) this.#admit([event], id)
      return
    }
    this.#wait(event)
    this.#reset()
    this.#recover(null, now, 0)
  }

  answer(ticket: number, reply: WorkerReply, now: number): void {
    if (ticket !== this.#ticket || !this.#isAsking) return
    switch (reply.kind) {
      case 'events':
        return this.#take(reply.events, reply.lastEventId, false, now)
      case 'tree_dump':
        if (reply.resetScope === 'all') return this.#take(reply.events, reply.lastEventId, true, now)
        this.#hasDumpFailed = true
        return this.failed(ticket, now)
      case 'tree_dump_failed':
        this.#hasDumpFailed = true
        return this.failed(ticket, now)
      case 'too_new':
      case 'invalid_range':
        return this.#degrade()
      case 'error':
        return this.failed(ticket, now)
    }
  }

  /** The question could not be asked, or ran past its time. */
  failed(ticket: number, now: number): void {
    if (ticket !== this.#ticket || !this.#isAsking) return
    this.counters.failedAttempts++
    this.#isAsking = false
    this.#deadline = never
    this.#attempts++
    if (this.#attempts < queryLimits.attemptsMax) {
      this.#askAt = now + queryLimits.backoffMs * 2 ** (this.#attempts - 1)
      return
    }
    if (!this.#hasDumpFailed) return this.#degrade()
    // The worker has a tree and could not write it: what we know is as good as before, and the next event tries again.
    this.#cancel()
  }

  tick(now: number): void {
    if (now >= this.#deadline) this.failed(this.#ticket, now)
    if (now >= this.#askAt) this.#ask(now)
  }

  #recover(start: bigint | null, now: number, delayMs: number): void {
    this.#isRecovering = true
    this.#start = start
    this.#attempts = 0
    this.#hasDumpFailed = false
    this.#askAt = now + delayMs
    if (delayMs === 0) this.#ask(now)
  }

  #ask(now: number): void {
    this.#askAt = never
    this.#deadline = now + queryLimits.attemptMs
    this.#isAsking = true
    this.counters.queries++
    this.#effects.query(this.#start, ++this.#ticket)
  }

  #take(events: readonly RouterEvent[], lastEventId: bigint, isWhole: boolean, now: number): void {
    if (events.some((event) => this.#isForeign(event))) return this.#fence()
    if (isWhole && !this.#reset()) return this.#fence()
    const newest = !isWhole && this.#cursor !== undefined && this.#cursor > lastEventId ? this.#cursor : lastEventId
    this.#isAsking = false
    this.#deadline = never
    if (this.#admit(events, newest)) this.#drain(now)
  }

  #drain(now: number): void {
    const waiting = sortedAfter(this.#pending, this.#cursor)
    let count = 0
    while (count < waiting.length && waiting[count]!.event.eventId === (this.#cursor ?? 0n) + BigInt(count) + 1n)
      count++
    const run = waiting.slice(0, count)
    this.#pending = waiting.slice(count)
    this.#isRecovering = false
    if (run.length > 0 && !this.#admit(run, run.at(-1)!.event.eventId)) return
    if (this.#pending.length > 0) this.#recover((this.#cursor ?? 0n) + 1n, now, 0)
  }

  /**
   * No answer will come: what waited is better than nothing. Behind a hole a removal may have been missed, so what is older
   * goes. Where that loses events that were here, the next one asks for everything again. (Upstream applies across holes,
   * and then credits a rank with blocks that it lost.)
   */
  #degrade(): void {
    this.counters.degraded++
    const waiting = sortedAfter(this.#pending, this.#cursor)
    const from = startOfLastRun(waiting, this.#cursor)
    this.#cancel()
    this.#pending = []
    if (waiting.length === 0) return
    if (from !== undefined && !this.#isEmpty && !this.#reset()) return
    const isWhole = this.#admit(waiting.slice(from), waiting.at(-1)!.event.eventId)
    if (isWhole && from !== undefined && from > 0) this.#cursor = undefined
  }

  #admit(events: readonly RouterEvent[], cursor: bigint): boolean {
    if (events.length > 0 && !this.#effects.apply(events)) {
      this.#fence()
      return false
    }
    if (events.length > 0) this.#isEmpty = false
    this.counters.applied += events.length
    this.#cursor = cursor
    return true
  }

  #wait(event: RouterEvent): void {
    this.#pending.push(event)
    if (this.#pending.length <= queryLimits.pendingMax) return
    this.#pending.sort((a, b) => (a.event.eventId < b.event.eventId ? -1 : 1)).shift() // the newest are kept
    this.counters.droppedPending++
  }

  #fence(): void {
    this.counters.fences++
    this.#cancel()
    this.#pending = []
    this.#cursor = undefined
    this.#isFenced = true
    this.#reset()
  }

  #reset(): boolean {
    this.counters.resets++
    this.#isFenced = !this.#effects.reset()
    this.#isEmpty = !this.#isFenced
    return !this.#isFenced
  }

  #cancel(): void {
    this.#isRecovering = false
    this.#isAsking = false
    this.#ticket++
    this.#askAt = never
    this.#deadline = never
  }

  #isForeign(event: RouterEvent): boolean {
    return event.workerId !== this.#options.workerId || event.event.dpRank !== this.#options.dpRank
  }
}

function isClearOfAll(event: RouterEvent): boolean {
  return event.event.data.kind === 'cleared' && resetScopeOf(event) === 'all'
}

/** In order of id, each once, and only what is newer than the cursor. */
function sortedAfter(events: readonly RouterEvent[], cursor: bigint | undefined): RouterEvent[] {
  const sorted = [...events].sort((a, b) => (a.event.eventId < b.event.eventId ? -1 : 1))
  return sorted.filter(
    (event, index) =>
      (cursor === undefined || event.event.eventId > cursor) &&
      event.event.eventId !== sorted[index - 1]?.event.eventId,
  )
}

/** Where the events behind the last hole begin; undefined when there is no hole, counted from the cursor where there is one. */
function startOfLastRun(sorted: readonly RouterEvent[], cursor: bigint | undefined): number | undefined {
  for (let index = sorted.length - 1; index >= 0; index--) {
    const before = index === 0 ? cursor : sorted[index - 1]!.event.eventId
    if (before !== undefined && sorted[index]!.event.eventId !== before + 1n) return index
  }
  return undefined
}
