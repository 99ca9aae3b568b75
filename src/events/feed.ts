/**
 * One event stream of one engine rank: its machine, what is remembered of its ranks, and the way of a payload through
 * decoder and normaliser. No I/O; the sockets call in, and `Intake` carries what comes out to the index.
 */
import type { TieredBatch } from '../core/index/index.js'
import type { Rank } from '../core/protocol/index.js'
import type { BatchDecoder, DecodedBatch, DecodeReason } from './decoded-batch.js'
import type { NamespaceNames } from './namespaces.js'
import type { Normaliser } from './normaliser.js'
import { RankLedger } from './rank-ledger.js'
import { RankMachine } from './rank-machine.js'
import { RateMeter } from './rate-meter.js'
import type { MachineCounters, PurgeReason, RankLimits, RankState } from './rank-rules.js'
import { purgeReasons } from './rank-rules.js'
import type { LedgerCounters } from './rank-ledger.js'

export interface FeedOptions {
  /** The rank that the batches belong to. */
  readonly rank: Rank
  /** What the engine calls it; a batch that names another rank is counted. */
  readonly dpRank: number
  readonly hasReplay: boolean
  /** For a stream that carries several ranks: which rank is meant. Undefined: not one of ours, the batch is passed over. */
  readonly rankOf?: (dpRank: number) => Rank | undefined
  /** Blocks that the engine can hold on its device; more than that cannot be true. */
  readonly usableBlocks?: number | undefined
  readonly limits?: Partial<RankLimits>
  /** Instead of the intake's, where a stream's decoder has a memory of its own. */
  readonly decoder?: BatchDecoder
  /** Everything known of it was dropped. */
  readonly onPurged?: ((reason: PurgeReason) => void) | undefined
  /** What a snapshot gave was proved by the engine, or is gone. */
  readonly onRestored?: ((isProved: boolean) => void) | undefined
}

/** What a feed needs from the intake that owns it. */
export interface FeedHost {
  readonly decoder: BatchDecoder
  readonly normaliser: Normaliser
  readonly decoded: DecodedBatch
  readonly batch: TieredBatch
  readonly names: NamespaceNames
  readonly seed: number
  readonly blocksMax: number
  /** Unix seconds by our clock. */
  readonly wallSeconds: () => number
  readonly requestReplay: (feed: Feed, from: number, ticket: number) => void
  /** Something was added to the batches. */
  readonly changed: () => void
  /** Ranks were purged: readers must not see what they had a moment longer. */
  readonly purged: () => void
}

export interface FeedStatus {
  readonly rank: Rank
  readonly dpRank: number
  readonly state: RankState
  /** Only a credited rank's blocks may be counted on. */
  readonly isCredited: boolean
  readonly isComplete: boolean
  readonly lastSequence: number
  /** Seconds between the newest applied batch, by the engine's clock, and now. Undefined before the first. */
  readonly batchAgeSeconds: number | undefined
  /** How old the newest live batch was when it was applied: our clock less the engine's. Undefined before the first. */
  readonly lagSeconds: number | undefined
  /** Mean of the last ten seconds. */
  readonly eventsPerSecond: number
  readonly events: number
  readonly heldFrames: number
  readonly deviceBlocks: number
  readonly machine: Readonly<MachineCounters>
  readonly ledger: Readonly<LedgerCounters>
  readonly decodeErrors: Readonly<Record<string, number>>
  readonly purges: Readonly<Record<PurgeReason, number>>
  readonly unknownEvents: number
  readonly badEvents: number
  readonly rankMismatches: number
}

const ranksPerFeedMax = 256

export class Feed {
  readonly rank: Rank
  readonly dpRank: number
  readonly machine: RankMachine
  /** Blocks that the engine can hold on its device; an engine may come back with another number. */
  usableBlocks: number | undefined
  readonly #host: FeedHost
  readonly #options: FeedOptions
  readonly #decoder: BatchDecoder
  readonly #main: RankLedger
  readonly #others = new Map<Rank, RankLedger>()
  readonly #decodeErrors: Record<string, number> = {}
  readonly #purges = Object.fromEntries(purgeReasons.map((reason) => [reason, 0])) as Record<PurgeReason, number>
  #unknownEvents = 0
  #badEvents = 0
  #rankMismatches = 0
  #newestTimestamp = Number.NaN
  #lagSeconds = Number.NaN
  #events = 0
  #timesEmptied = 0
  readonly #rate = new RateMeter()

  constructor(host: FeedHost, options: FeedOptions) {
    this.#host = host
    this.#options = options
    this.#decoder = options.decoder ?? host.decoder
    this.rank = options.rank
    this.dpRank = options.dpRank
    this.usableBlocks = options.usableBlocks
    this.#main = new RankLedger(options.rank, host.names, host.seed)
    this.machine = new RankMachine(
      {
        apply: (payload) => this.#apply(payload),
        purge: (reason) => this.#purge(reason),
        requestReplay: (from, ticket) => host.requestReplay(this, from, ticket),
        restored: (isProved) => options.onRestored?.(isProved),
        timestampOf: (payload) => this.#decoder.timestampOf(payload),
      },
      { hasReplay: options.hasReplay, ...(options.limits && { limits: options.limits }) },
    )
  }

  get hasReplay(): boolean {
    return this.#options.hasReplay
  }

  /** How often everything known was dropped, or the cache was reset by us. */
  get timesEmptied(): number {
    return this.#timesEmptied
  }

  get ledger(): RankLedger {
    return this.#main
  }

  /** Every rank that this feed speaks for. */
  ledgers(): RankLedger[] {
    return [this.#main, ...this.#others.values()]
  }

  ledgerOf(rank: Rank): RankLedger | undefined {
    return rank === this.rank ? this.#main : this.#others.get(rank)
  }

  status(nowSeconds: number): FeedStatus {
    const { machine } = this
    return {
      rank: this.rank,
      dpRank: this.dpRank,
      state: machine.state,
      isCredited: machine.state === 'live',
      isComplete: machine.isComplete,
      lastSequence: machine.lastSequence,
      batchAgeSeconds: Number.isNaN(this.#newestTimestamp) ? undefined : nowSeconds - this.#newestTimestamp,
      lagSeconds: Number.isNaN(this.#lagSeconds) ? undefined : this.#lagSeconds,
      eventsPerSecond: this.#rate.perSecond(nowSeconds),
      events: this.#events,
      heldFrames: machine.heldFrames,
      deviceBlocks: this.#main.deviceBlocks,
      machine: { ...machine.counters },
      ledger: { ...this.#main.counters, filtered: { ...this.#main.counters.filtered } },
      decodeErrors: { ...this.#decodeErrors },
      purges: { ...this.#purges },
      unknownEvents: this.#unknownEvents,
      badEvents: this.#badEvents,
      rankMismatches: this.#rankMismatches,
    }
  }

  /** We emptied the engine's cache ourselves. An idle engine says so only with its next step, so nothing waits for it. */
  cacheReset(): void {
    this.#forget()
  }

  /** A frame or reply that was none: counted beside decode errors. */
  countFault(reason: string): void {
    this.#decodeErrors[reason] = (this.#decodeErrors[reason] ?? 0) + 1
  }

  #apply(payload: Uint8Array): DecodeReason | undefined {
    const { decoded, normaliser, batch } = this.#host
    const reason = this.#decoder.decode(payload, decoded)
    if (reason) {
      this.countFault(reason)
      return reason
    }
    this.#unknownEvents += decoded.unknownEvents
    this.#badEvents += decoded.badEvents
    this.#measure(decoded)
    const ledger = this.#ledgerFor(decoded.dpRank)
    if (ledger === undefined) {
      this.#main.counters.filtered.foreign_rank += decoded.eventCount
      return undefined
    }
    normaliser.apply(decoded, ledger, batch)
    const usable = Math.min(this.usableBlocks ?? this.#host.blocksMax, this.#host.blocksMax)
    if (ledger.deviceBlocks > usable) this.machine.distrust()
    this.#host.changed()
    return undefined
  }

  /** What a replay shows is old by nature, so only what comes live has a lag. */
  #measure({ timestamp, eventCount }: DecodedBatch): void {
    const now = this.#host.wallSeconds()
    this.#newestTimestamp = timestamp
    if (this.machine.state === 'live') this.#lagSeconds = now - timestamp
    this.#events += eventCount
    this.#rate.add(now, eventCount)
  }

  #ledgerFor(dpRank: number): RankLedger | undefined {
    if (dpRank < 0 || dpRank === this.dpRank) return this.#main
    const rankOf = this.#options.rankOf
    if (!rankOf) {
      this.#rankMismatches++
      return this.#main
    }
    const rank = rankOf(dpRank)
    if (rank === undefined) return undefined
    let ledger = this.ledgerOf(rank)
    if (!ledger && this.#others.size < ranksPerFeedMax) {
      ledger = new RankLedger(rank, this.#host.names, this.#host.seed)
      this.#others.set(rank, ledger)
    }
    return ledger
  }

  #purge(reason: PurgeReason): void {
    this.#purges[reason]++
    this.#forget()
    this.#options.onPurged?.(reason)
  }

  #forget(): void {
    this.#timesEmptied++
    for (const ledger of this.ledgers()) {
      ledger.clear()
      this.#host.batch.cleared(ledger.rank)
    }
    this.#host.purged()
  }
}
