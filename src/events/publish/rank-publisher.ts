/**
 * The worker's side of event publication: lists of an engine's events become a numbered stream. Joined first, then cleared
 * of removals that are none, then numbered from 1, applied to the worker's own index, and handed on in messages that fit.
 */
import type { RouterEvent, WorkerRank } from '../../core/protocol/index.js'
import { newRouterEvent } from '../../core/protocol/index.js'
import type { DraftEvent } from './coalescer.js'
import { Coalescer } from './coalescer.js'
import { Deduplicator } from './deduplicator.js'
import type { LocalIndex } from './local-index.js'

export interface PublisherOptions extends WorkerRank {
  readonly timeoutMs?: number
  readonly local?: LocalIndex
  /** One message on the event plane. Throwing counts as lost; later messages are still sent. */
  readonly send: (events: readonly RouterEvent[]) => void
}

export interface PublisherCounters {
  lists: number
  published: number
  filtered: number
  localFailures: number
  sendFailures: number
}

/** What one message may carry. A single larger event goes alone. */
export const messageEventsMax = 128
export const messageBlocksMax = 8192

export class RankPublisher {
  readonly counters: PublisherCounters = { lists: 0, published: 0, filtered: 0, localFailures: 0, sendFailures: 0 }
  readonly #options: PublisherOptions
  readonly #coalescer: Coalescer
  readonly #deduplicator = new Deduplicator()
  #nextId = 1n
  #outgoing: RouterEvent[] = []
  #outgoingBlocks = 0
  #isStopped = false

  constructor(options: PublisherOptions) {
    this.#options = options
    this.#coalescer = new Coalescer({
      ...(options.timeoutMs !== undefined && { timeoutMs: options.timeoutMs }),
      emit: (event) => this.#publish(event),
    })
  }

  /** A clear that the own index could not follow ends publication: routers must not believe an index that we do not have. */
  get isStopped(): boolean {
    return this.#isStopped
  }

  get nextDeadline(): number {
    return this.#coalescer.nextDeadline
  }

  addList(events: readonly DraftEvent[], now: number): void {
    if (this.#isStopped) return
    this.counters.lists++
    this.#coalescer.addList(events, now)
    this.#sendAll()
  }

  tick(now: number): void {
    this.#coalescer.tick(now)
    this.#sendAll()
  }

  /** Whatever waits goes out. */
  close(now: number): void {
    this.#coalescer.flush(now)
    this.#sendAll()
  }

  #publish(draft: DraftEvent): void {
    if (this.#isStopped) return
    const kept = this.#deduplicator.filter(draft)
    if (!kept) {
      this.counters.filtered++
      return
    }
    const owner = { workerId: this.#options.workerId, dpRank: kept.dpRank }
    const event = newRouterEvent(owner, this.#nextId, kept.data, kept.tier)
    if (!this.#applyLocally(event)) return
    this.#nextId++
    const blocks = blocksOf(event)
    if (this.#outgoing.length >= messageEventsMax || this.#outgoingBlocks + blocks > messageBlocksMax) this.#sendAll()
    this.#outgoing.push(event)
    this.#outgoingBlocks += blocks
  }

  #applyLocally(event: RouterEvent): boolean {
    try {
      this.#options.local?.apply(event)
      return true
    } catch {
      this.counters.localFailures++
      if (event.event.data.kind !== 'cleared') return true
      this.#isStopped = true
      return false
    }
  }

  #sendAll(): void {
    if (this.#outgoing.length === 0) return
    const events = this.#outgoing
    this.#outgoing = []
    this.#outgoingBlocks = 0
    try {
      this.#options.send(events)
      this.counters.published += events.length
    } catch {
      this.counters.sendFailures++
    }
  }
}

function blocksOf(event: RouterEvent): number {
  const { data } = event.event
  return data.kind === 'stored' ? data.blocks.length : data.kind === 'removed' ? data.blockHashes.length : 0
}
