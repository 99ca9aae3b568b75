/**
 * Joins neighbouring events before they get an id: stores that continue each other, removals of the same place. A list is
 * what an engine published at once. Follows publisher/batching.rs at 1.5.0.
 */
import type { KvCacheEventData, StorageTier, StoredBlock } from '../../core/protocol/index.js'

/** An event that has no id yet. */
export interface DraftEvent {
  readonly dpRank: number
  readonly tier: StorageTier
  readonly data: KvCacheEventData
}

/** A whole source event that reaches this many blocks ends the batch. No event is ever split. */
export const batchBlocksMax = 128
export const timeoutMsMax = 15_000

export interface CoalescerOptions {
  /** 0 or absent: every list boundary flushes. */
  readonly timeoutMs?: number
  readonly emit: (event: DraftEvent) => void
}

interface Open {
  readonly dpRank: number
  readonly tier: StorageTier
  readonly kind: 'stored' | 'removed'
  readonly parentHash: bigint | null
  readonly startPosition: number | null
  readonly blocks: StoredBlock[]
  readonly hashes: bigint[]
}

export class Coalescer {
  readonly #emit: (event: DraftEvent) => void
  readonly #timeoutMs: number
  #open: Open | undefined
  #flushedAt = Number.NEGATIVE_INFINITY

  constructor(options: CoalescerOptions) {
    this.#emit = options.emit
    this.#timeoutMs = Math.min(timeoutMsMax, Math.max(0, options.timeoutMs ?? 0))
  }

  /** When `tick` should be called; infinity when nothing waits. */
  get nextDeadline(): number {
    return this.#open && this.#timeoutMs > 0 ? this.#flushedAt + this.#timeoutMs : Number.POSITIVE_INFINITY
  }

  addList(events: readonly DraftEvent[], now: number): void {
    for (const event of events) this.#add(event, now)
    if (this.#timeoutMs === 0) this.flush(now)
    else this.tick(now) // the clock runs since the last flush, so the first event after silence leaves at once
  }

  tick(now: number): void {
    if (this.#open && now - this.#flushedAt >= this.#timeoutMs) this.flush(now)
  }

  flush(now: number): void {
    const open = this.#open
    this.#open = undefined
    this.#flushedAt = now
    if (open) this.#emit(toDraft(open))
  }

  #add(event: DraftEvent, now: number): void {
    if (event.data.kind === 'cleared') {
      this.flush(now)
      this.#emit(event)
      return
    }
    if (this.#open && !continues(this.#open, event)) this.flush(now)
    this.#open ??= newOpen(event)
    const { data } = event
    if (data.kind === 'stored') this.#open.blocks.push(...data.blocks)
    else this.#open.hashes.push(...data.blockHashes)
    if (this.#open.blocks.length + this.#open.hashes.length >= batchBlocksMax) this.flush(now)
  }
}

function newOpen(event: DraftEvent): Open {
  const { data } = event
  const isStore = data.kind === 'stored'
  return {
    dpRank: event.dpRank,
    tier: event.tier,
    kind: isStore ? 'stored' : 'removed',
    parentHash: isStore ? data.parentHash : null,
    startPosition: isStore ? data.startPosition : null,
    blocks: [],
    hashes: [],
  }
}

/** An event that is large by itself goes alone. */
function continues(open: Open, event: DraftEvent): boolean {
  const { data } = event
  if (data.kind === 'cleared' || data.kind !== open.kind) return false
  if (event.dpRank !== open.dpRank || event.tier !== open.tier) return false
  if (data.kind === 'removed') return data.blockHashes.length < batchBlocksMax
  const last = open.blocks.at(-1)
  return last !== undefined && data.parentHash === last.blockHash && data.blocks.length < batchBlocksMax
}

function toDraft(open: Open): DraftEvent {
  const data: KvCacheEventData =
    open.kind === 'stored'
      ? { kind: 'stored', parentHash: open.parentHash, startPosition: open.startPosition, blocks: open.blocks }
      : { kind: 'removed', blockHashes: open.hashes }
  return { dpRank: open.dpRank, tier: open.tier, data }
}
