/** Tells listeners which ranks changed: each at most once per turn of the event loop, however often it changed. */
import type { Rank, RankTable } from '../core/protocol/index.js'
import type { ActiveSequences, LoadPort } from '../core/sequences/index.js'
import type { RankLoad } from './router-port.js'
import type { RouterClock, RouterLog } from './router-ports.js'

export class LoadFeed implements LoadPort {
  readonly #ranks: RankTable
  readonly #clock: RouterClock
  readonly #log: RouterLog
  readonly #changed = new Set<Rank>()
  readonly #listeners = new Set<(changed: readonly RankLoad[]) => void>()
  readonly #tellLater = (): void => this.#tell()
  #sequences: ActiveSequences | undefined

  constructor(ranks: RankTable, clock: RouterClock, log: RouterLog) {
    this.#ranks = ranks
    this.#log = log
    this.#clock = clock
  }

  /** The tracker that calls this port; it exists only after the port does. */
  readFrom(sequences: ActiveSequences): void {
    this.#sequences = sequences
  }

  subscribe(listener: (changed: readonly RankLoad[]) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  loadChanged(rank: Rank): void {
    if (this.#listeners.size === 0) return
    if (this.#changed.size === 0) this.#clock.soon(this.#tellLater)
    this.#changed.add(rank)
  }

  /** Every tracked rank, by worker id and dp rank. */
  all(): RankLoad[] {
    return this.#ranks.live().flatMap((rank) => (this.#sequences?.isTracked(rank) ? [this.#loadOf(rank)] : []))
  }

  #tell(): void {
    const ranks = [...this.#changed].filter((rank) => this.#ranks.isLive(rank))
    this.#changed.clear()
    if (ranks.length === 0) return
    const loads = ranks.map((rank) => this.#loadOf(rank))
    for (const listener of this.#listeners) {
      try {
        listener(loads)
      } catch (error) {
        this.#log.warn({ error }, 'a listener to loads failed') // outside of any call: thrown on, it would end the process
      }
    }
  }

  #loadOf(rank: Rank): RankLoad {
    const sequences = this.#sequences!
    const { workerId, dpRank } = this.#ranks.pairOf(rank)
    return {
      workerId,
      dpRank,
      activeDecodeBlocks: sequences.activeBlocks(rank),
      activePrefillTokens: sequences.activeTokens(rank, this.#clock.nowMs()),
      activeRequests: sequences.activeRequests(rank),
    }
  }
}
