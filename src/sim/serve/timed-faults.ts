/** Faults that begin and end by the clock instead of striking at an occasion: sockets that go, caches that are emptied. */
import type { Armed, Fault, FaultKind } from './faults.js'
import { ForeignPublisher } from './foreign-publisher.js'
import type { KvPublisher } from './publisher.js'
import { hostInUrl } from './publisher.js'
import type { SimServer } from './sim-engine.js'

/** How soon a busy engine is asked again to empty its cache. */
const idleLookMs = 5

export class TimedFaults {
  readonly #server: SimServer
  readonly #foreign = new Set<ForeignPublisher>()
  /** Counts `end`: what was armed before it does not begin any more. */
  #round = 0

  constructor(server: SimServer) {
    this.#server = server
  }

  arm(armed: Armed): void {
    const begin = this.#beginningOf(armed.fault, armed.untilMs)
    if (!begin) return
    const round = this.#round
    const { clock, faults } = this.#server
    clock.at(armed.fromMs, () => {
      if (round === this.#round && faults.begins(armed)) begin()
    })
  }

  /** The ports are the engine's again. */
  end(): void {
    this.#round++
    this.#evict()
    for (const publisher of this.#server.publishers) {
      publisher.stall(false)
      reopen(publisher)
    }
  }

  /** The engine goes down, and takes its ports with it. */
  close(): void {
    this.#evict()
  }

  #beginningOf(fault: Fault, untilMs: number): (() => void) | undefined {
    const chosen = (): KvPublisher[] =>
      this.#server.publishers.filter((_, rank) => fault.rank === undefined || fault.rank === rank)
    const beginnings: Partial<Record<FaultKind, () => void>> = {
      restart: () => void this.#server.restart(fault.ms),
      short_replay: () => chosen().forEach((publisher) => publisher.shorten(fault.batches)),
      stall_events: () => chosen().forEach((publisher) => this.#stall(publisher, untilMs)),
      close_event_sockets: () => chosen().forEach((publisher) => this.#closeSockets(publisher, untilMs)),
      foreign_publisher: () => chosen().forEach((publisher, at) => void this.#replaceBy(fault, publisher, at, untilMs)),
      reset_cache: () => this.#server.ranks.forEach((_, rank) => this.#resetRank(fault, rank, untilMs)),
    }
    return beginnings[fault.fault]
  }

  #stall(publisher: KvPublisher, untilMs: number): void {
    publisher.stall(true)
    this.#until(untilMs, () => publisher.stall(false))
  }

  #closeSockets(publisher: KvPublisher, untilMs: number): void {
    publisher.unbind()
    this.#until(untilMs, () => reopen(publisher))
  }

  async #replaceBy(fault: Fault, publisher: KvPublisher, at: number, untilMs: number): Promise<void> {
    const { options, clock } = this.#server
    const [events, replay] = publisher.ownPorts
    const round = this.#round
    publisher.unbind()
    const foreign = await ForeignPublisher.open(
      {
        ...publisher.options,
        endpoint: `tcp://${hostInUrl(options.host)}:${events}`,
        replayEndpoint: `tcp://${hostInUrl(options.host)}:${replay}`,
        topic: fault.topic ?? publisher.options.topic,
      },
      { engine: options.engine, blockTokens: options.blockTokens, seed: options.seed + at, everyMs: fault.ms },
      clock,
    )
    if (!foreign) return reopen(publisher)
    if (round !== this.#round || !this.#server.publishers.includes(publisher)) {
      foreign.close()
      return reopen(publisher)
    }
    this.#foreign.add(foreign)
    this.#until(untilMs, () => {
      foreign.close()
      if (this.#foreign.delete(foreign)) reopen(publisher)
    })
  }

  /** An engine empties its cache only while nothing runs. */
  #resetRank(fault: Fault, rank: number, untilMs: number): void {
    const { clock, ranks } = this.#server
    if (fault.rank !== undefined && fault.rank !== rank) return
    if (ranks[rank]?.reset() !== false || clock.now() >= untilMs) return
    clock.at(clock.now() + idleLookMs, () => this.#resetRank(fault, rank, untilMs))
  }

  #until(untilMs: number, run: () => void): void {
    if (untilMs !== Number.POSITIVE_INFINITY) this.#server.clock.at(untilMs, run)
  }

  #evict(): void {
    for (const foreign of this.#foreign) foreign.close()
    this.#foreign.clear()
  }
}

function reopen(publisher: KvPublisher): void {
  void publisher.bind().catch(() => {}) // somebody else has its ports for good
}
