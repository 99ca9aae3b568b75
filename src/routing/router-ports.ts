/** What a living router is given: a log, a clock, lots, and whatever it must ask elsewhere. Each has a plain default. */
import { randomFillSync } from 'node:crypto'
import type { HashColumn, RouterEvent, WorkerRank } from '../core/protocol/index.js'
import type { QueueRejection } from '../core/queue/index.js'
import type { LesserOverlap, SharedCacheHits } from '../core/selection/index.js'

/** A fixed sentence plus fields. */
export interface RouterLog {
  /** Asked before a debug line is put together. */
  readonly isDebug: boolean
  debug(fields: Record<string, unknown>, sentence: string): void
  info(fields: Record<string, unknown>, sentence: string): void
  warn(fields: Record<string, unknown>, sentence: string): void
}

export interface RouterClock {
  /** Monotonic. */
  nowMs(): number
  /** Again and again until it is stopped; never keeps the process alive. */
  every(ms: number, work: () => void): () => void
  once(ms: number, work: () => void): () => void
  /** After what is running now. */
  soon(work: () => void): void
}

export interface Randomness {
  /** Uniform in [0, 1). */
  draw(): number
  fill(words: Uint32Array): void
}

/** A pool of cached blocks that all workers can reach. */
export interface SharedCachePort {
  checkBlocks(tokens: Uint32Array, blockSize: number, signal: AbortSignal): Promise<SharedCacheHits>
}

/** Blocks of one prompt that a rank holds, by tier. */
export interface RemoteMatch extends WorkerRank {
  readonly device: number
  readonly hostPinned?: number | undefined
  readonly disk?: number | undefined
  readonly external?: number | undefined
}

/** An index that somebody else keeps. */
export interface RemoteIndexPort {
  findMatches(local: HashColumn, signal: AbortSignal): Promise<Iterable<RemoteMatch>>
  dumpEvents?(signal: AbortSignal): Promise<readonly RouterEvent[]>
  recordDecision?(local: HashColumn, sequence: HashColumn, worker: WorkerRank): Promise<void>
}

/** What is worth observing. Called on the way of every request: must not block; what it throws is logged. */
export interface RouterObserver {
  routed?(times: RoutingTimes): void
  sharedCacheFailed?(): void
  /** Share of the prompt's blocks in the shared cache; absent for a prompt without a complete block. */
  sharedCacheHit?(hitRate: number | undefined, beyondBlocks: number): void
  queued?(pendingCount: number, pendingIslTokens: number): void
  /** A booked request went to a worker that holds less of it than another did. Told later, and only to who listens. */
  lesserOverlap?(requestId: string, choice: LesserOverlap): void
  /** A limit of the queue turned a request away. */
  queueRejected?(rejection: QueueRejection): void
}

/** Milliseconds since the request came, except for the two lookups, which are durations of their own. */
export interface RoutingTimes {
  readonly hashMs: number
  readonly seqHashMs: number
  readonly findMatchesMs: number
  readonly sharedCacheMs?: number | undefined
  readonly foundMs: number
  readonly totalMs: number
}

/** An observer that fails must not take an answer away from whoever asked: its booking would live on without a caller. */
export function guardObserver(observer: RouterObserver = {}, log: RouterLog): RouterObserver {
  const safely = (call: () => void): void => {
    try {
      call()
    } catch (error) {
      log.warn({ error }, 'an observer failed')
    }
  }
  return {
    routed: (times) => safely(() => observer.routed?.(times)),
    sharedCacheFailed: () => safely(() => observer.sharedCacheFailed?.()),
    sharedCacheHit: (hitRate, beyond) => safely(() => observer.sharedCacheHit?.(hitRate, beyond)),
    queued: (count, tokens) => safely(() => observer.queued?.(count, tokens)),
    lesserOverlap: (requestId, choice) => safely(() => observer.lesserOverlap?.(requestId, choice)),
    queueRejected: (rejection) => safely(() => observer.queueRejected?.(rejection)),
  }
}

export const silentLog: RouterLog = { isDebug: false, debug() {}, info() {}, warn() {} }

export const realClock: RouterClock = {
  nowMs: () => performance.now(),
  every(ms, work) {
    const timer = setInterval(work, ms).unref()
    return () => clearInterval(timer)
  },
  once(ms, work) {
    const timer = setTimeout(work, ms).unref()
    return () => clearTimeout(timer)
  },
  soon: (work) => void setImmediate(work),
}

export const realRandomness: Randomness = {
  draw: () => Math.random(),
  fill: (words) => void randomFillSync(words),
}
