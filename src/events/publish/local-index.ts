/**
 * The index that a worker keeps of itself, so that routers can ask it for what they missed: the tree, and a ring of the
 * last events. A dump is taken once and reused until something changes; a short tail of the ring may be appended to it.
 */
import type { RouterEvent, WorkerRank } from '../../core/protocol/index.js'
import type { WorkerQuery, WorkerReply } from '../query/worker-query.js'
import { EventRing } from './event-ring.js'

/** What the worker keeps its blocks in; `KvIndex` fits. */
export interface DumpableIndex {
  applyEvents(events: Iterable<RouterEvent>): readonly string[]
  dump(): Iterable<RouterEvent>
}

export interface LocalIndexOptions extends WorkerRank {
  readonly index: DumpableIndex
  readonly ringCapacity?: number
}

interface CachedDump {
  readonly events: readonly RouterEvent[]
  readonly base: bigint
  readonly upTo: bigint
}

export class LocalIndex {
  readonly #options: LocalIndexOptions
  readonly #ring: EventRing
  readonly #appendMax: bigint
  #dump: CachedDump | undefined

  constructor(options: LocalIndexOptions) {
    this.#options = options
    const capacity = options.ringCapacity ?? 1024
    this.#ring = new EventRing(capacity)
    this.#appendMax = BigInt(Math.floor(capacity / 2))
  }

  get newestEventId(): bigint | undefined {
    return this.#ring.newest
  }

  /** Applies one published event and remembers it. Throws what the index throws; then nothing is remembered. */
  apply(event: RouterEvent): readonly string[] {
    const outcome = this.#options.index.applyEvents([event])
    const follows = this.#ring.push(event)
    if (!follows || event.event.data.kind === 'cleared') this.#dump = undefined
    return outcome
  }

  answer(query: WorkerQuery): WorkerReply {
    const { workerId, dpRank } = this.#options
    if (query.workerId !== workerId) return mismatch('worker_id', workerId, query.workerId)
    if (query.dpRank !== dpRank) return mismatch('dp_rank', dpRank, query.dpRank)
    const { startEventId: start, endEventId: end } = query
    if (start !== null && end !== null && end < start) return { kind: 'invalid_range', startId: start, endId: end }
    const { newest, oldestKept } = this.#ring
    if (start === null || newest === undefined) return this.#treeDump(query)
    if (start > newest) return { kind: 'too_new', requestedStart: start, requestedEnd: end, newestAvailable: newest }
    if (start < oldestKept!) return this.#treeDump(query)
    return { kind: 'events', events: this.#ring.from(start), lastEventId: newest }
  }

  /** The watermark is taken before the tree is read: the tree may know more, and replaying the rest converges. */
  #treeDump(query: WorkerQuery): WorkerReply {
    const lastEventId = this.#ring.newest ?? 0n
    try {
      return { kind: 'tree_dump', events: this.#freshDump(lastEventId), lastEventId, resetScope: 'all' }
    } catch (cause) {
      const message = cause instanceof Error ? cause.message : String(cause)
      return query.supportsTreeDumpFailed
        ? { kind: 'tree_dump_failed', lastEventId, message }
        : { kind: 'error', message: `worker tree dump failed: ${message}` }
    }
  }

  #freshDump(newest: bigint): readonly RouterEvent[] {
    const cached = this.#dump
    if (cached?.upTo === newest) return cached.events
    const oldest = this.#ring.oldestKept
    if (cached && newest - cached.base <= this.#appendMax && oldest !== undefined && oldest <= cached.upTo + 1n) {
      const events = [...cached.events, ...this.#ring.from(cached.upTo + 1n)]
      this.#dump = { events, base: cached.base, upTo: newest }
      return events
    }
    this.#dump = undefined // a dump that fails must not leave an old one behind
    const events = [...this.#options.index.dump()]
    this.#dump = { events, base: newest, upTo: newest }
    return events
  }
}

function mismatch(field: string, ours: bigint | number, theirs: bigint | number): WorkerReply {
  return {
    kind: 'error',
    message: `WorkerKvQueryEngine::generate ${field} mismatch: expected ${ours}, got ${theirs}`,
  }
}
