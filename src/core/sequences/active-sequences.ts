/**
 * What is running: the bookings of every rank, the blocks and prompt tokens they occupy, and what a further request would
 * find. The one owner of these facts. Follows lib/kv-router/src/sequences at v1.2.0.
 *
 * Time is an argument. Every change is whole when a call returns: counters, membership, load report, replica event.
 */
import type { HashColumn, Rank, RankTable } from '../protocol/index.js'
import { hashCount, WarmrouteError } from '../protocol/index.js'
import type { LoadColumns } from './load-columns.js'
import type { ReplicaPort, SequenceEvent } from './sequence-event.js'
import type { SequenceRules } from './sequence-rules.js'
import { sequenceRulesOf } from './sequence-rules.js'
import type { Booking } from './sequence-state.js'
import { blockCountOf, refused, requireTime, SequenceState } from './sequence-state.js'

/** Hears of every change of a rank's load. Must not call back into the tracker, and should not throw: see `portFailures`. */
export interface LoadPort {
  /** `isPublic` is false where peers and monitors need not hear of it. */
  loadChanged(rank: Rank, decodeBlocks: number, prefillTokens: number, isPublic: boolean): void
}

export interface ActiveSequencesOptions {
  readonly ranks: RankTable
  readonly rules?: Partial<SequenceRules> | undefined
  /** A request that lives longer is taken for lost. Infinity keeps it until it is freed. 5 minutes unless told. */
  readonly expiryMs?: number | undefined
  /** A rank is searched for expired requests at most this often. 30 seconds unless told. */
  readonly expiryCheckMs?: number | undefined
  /** A million unless told. */
  readonly requestCountMax?: number | undefined
  /** Blocks of all active prompts together, shared ones counted each time; 100 million unless told. */
  readonly promptBlockCountMax?: number | undefined
  readonly load?: LoadPort | undefined
  /** Present: bookings are told to peers under this id. */
  readonly replica?: { readonly routerId: bigint; readonly port: ReplicaPort } | undefined
  readonly onExpired?: ((requestId: string, rank: Rank) => void) | undefined
}

/**
 * What is running where: booked when a worker is chosen, freed when its request ends.
 *
 * @example
 * import { ActiveSequences, RankTable } from 'warmroute/core'
 *
 * const ranks = new RankTable()
 * const rank = ranks.intern(1n, 0)
 * const running = new ActiveSequences({ ranks })
 * running.track(rank, 0)
 * running.book({ requestId: 'r1', rank, prefillLoadHint: { tokens: 100 } }, 0)
 * console.log(running.activeTokens(rank, 0)) // => 100
 * running.free('r1', 5)
 * console.log(running.requestCount) // => 0
 */
export class ActiveSequences {
  readonly ranks: RankTable
  readonly rules: SequenceRules
  /** Times that a port threw. What happened here stays whole: a booking is not undone because somebody could not hear of it. */
  portFailures = 0
  readonly #options: ActiveSequencesOptions
  readonly #expiryMs: number
  readonly #expiryCheckMs: number
  readonly #state: SequenceState

  constructor(options: ActiveSequencesOptions) {
    this.#options = options
    this.ranks = options.ranks
    this.rules = { ...sequenceRulesOf('default'), ...options.rules }
    this.#expiryMs = options.expiryMs ?? 300_000
    this.#expiryCheckMs = options.expiryCheckMs ?? 30_000
    if (!(this.#expiryMs > 0)) throw refused('expiryMs', this.#expiryMs)
    if (!(this.#expiryCheckMs >= 0)) throw refused('expiryCheckMs', this.#expiryCheckMs)
    this.#state = new SequenceState(options.ranks, this.rules.prefillDecay, {
      requestCountMax: options.requestCountMax ?? 1_000_000,
      promptBlockCountMax: options.promptBlockCountMax ?? 100_000_000,
    })
  }

  // ---- requests

  /** Books a request; an unknown rank is tracked from now on. Throws `WR_DUPLICATE_REQUEST`, `WR_TRACKER_FULL`. */
  book(booking: Booking, nowMs: number): void {
    this.bookForPeer(booking, nowMs)
    this.#report(booking.rank, nowMs, true)
    if (this.#options.replica) this.#tellAdded(booking)
  }

  /** As `book`, but an untracked rank is refused with `WR_WORKER_NOT_FOUND`. */
  bookIfTracked(booking: Booking, nowMs: number): void {
    if (!this.isTracked(booking.rank)) throw new WarmrouteError('WR_WORKER_NOT_FOUND', { rank: booking.rank })
    this.book(booking, nowMs)
  }

  /** The prompt is computed: its tokens are no load any more. Repeating it is fine. Throws `WR_REQUEST_NOT_FOUND`. */
  markPrefillCompleted(requestId: string, nowMs: number): void {
    requireTime(nowMs)
    const request = this.#find(requestId)
    const rank = this.#state.bookings.rank[request]!
    const isChange = this.#state.prefill.remove(rank, request, nowMs)
    if (isChange || this.rules.loadPublication === 'always') this.#report(rank, nowMs, true)
    if (this.#options.replica)
      this.#tell(requestId, rank, this.#state.bookings.loraName[request], { kind: 'mark_prefill_completed' })
  }

  /**
   * One more block of output. With a fraction (0..1), every block that only this request holds weighs that much from now
   * on. Throws `WR_REQUEST_NOT_FOUND`.
   */
  addOutputBlock(requestId: string, nowMs: number, fraction?: number): void {
    if (fraction !== undefined && !(fraction >= 0 && fraction <= 1)) throw refused('fraction', fraction)
    const request = this.#find(requestId)
    this.#state.grow(request, fraction)
    this.#report(this.#state.bookings.rank[request]!, nowMs, this.rules.loadPublication === 'always')
  }

  /** Ends a booking, its prefill included. False: there is none of this id, which is no failure. */
  free(requestId: string, nowMs: number): boolean {
    requireTime(nowMs)
    const { bookings } = this.#state
    const request = bookings.find(requestId)
    if (request < 0) return false
    const rank = bookings.rank[request]!
    const loraName = bookings.loraName[request]
    this.#state.remove(request, nowMs)
    this.#report(rank, nowMs, true)
    if (this.#options.replica) this.#tell(requestId, rank, loraName, { kind: 'free' })
    return true
  }

  /** As `free`, but only while the booking is on this rank. */
  freeIfOn(requestId: string, rank: Rank, nowMs: number): boolean {
    return this.rankOf(requestId) === rank && this.free(requestId, nowMs)
  }

  // ---- what peers did: the same changes, told to nobody

  /** @internal Throws as `book`. */
  bookForPeer(booking: Booking, nowMs: number): void {
    this.#state.admit(booking, nowMs)
    this.#expireRank(booking.rank, nowMs, this.#expiryCheckMs)
    this.#state.open(booking, nowMs)
  }

  /** @internal False: nothing was left to compute. */
  markForPeer(requestId: string, nowMs: number): boolean {
    const request = this.#find(requestId)
    return this.#state.prefill.remove(this.#state.bookings.rank[request]!, request, nowMs)
  }

  /** @internal The rank that the booking was on. */
  freeForPeer(requestId: string, nowMs: number): Rank {
    const request = this.#find(requestId)
    const rank = this.#state.bookings.rank[request]!
    this.#state.remove(request, nowMs)
    return rank
  }

  /** @internal After the last change of a batch. */
  reportForPeer(rank: Rank, nowMs: number): void {
    if (this.isTracked(rank)) this.#report(rank, nowMs, true)
  }

  // ---- time and topology

  /** Frees what is older than the expiry on every rank whose last check is long enough ago. Returns how many. */
  expire(nowMs: number): number {
    requireTime(nowMs)
    return this.trackedRanks().reduce((sum, rank) => sum + this.#expireRank(rank, nowMs, this.#expiryCheckMs), 0)
  }

  /** As `expire`, for one rank and at once. */
  forceExpire(rank: Rank, nowMs: number): number {
    requireTime(nowMs)
    return this.isTracked(rank) ? this.#expireRank(rank, nowMs, 0) : 0
  }

  /** Starts to track a rank, empty. False: it is tracked already and keeps its state. */
  track(rank: Rank, nowMs: number): boolean {
    return this.#state.track(rank, nowMs)
  }

  /** Forgets a rank with all its bookings, told to nobody. Returns how many bookings were lost. */
  untrack(rank: Rank, nowMs: number): number {
    return this.#state.untrack(rank, nowMs)
  }

  /** Makes `ranks` all that is tracked: new ones start empty, vanished ones lose their bookings, the others stay as they are. */
  reconcile(ranks: Iterable<Rank>, nowMs: number): { readonly added: Rank[]; readonly removed: Rank[] } {
    const wanted = new Set(ranks)
    const removed = this.trackedRanks().filter((rank) => !wanted.has(rank))
    for (const rank of removed) this.untrack(rank, nowMs)
    const added = [...wanted].filter((rank) => this.track(rank, nowMs))
    return { added, removed }
  }

  // ---- readings

  isTracked(rank: Rank): boolean {
    return this.#state.isTracked(rank)
  }

  trackedRanks(): Rank[] {
    return this.#state.trackedRanks()
  }

  get requestCount(): number {
    return this.#state.bookings.count
  }

  has(requestId: string): boolean {
    return this.#state.bookings.find(requestId) >= 0
  }

  /** The rank that a request is booked on. */
  rankOf(requestId: string): Rank | undefined {
    const { bookings } = this.#state
    const request = bookings.find(requestId)
    return request < 0 ? undefined : bookings.rank[request]!
  }

  expectedOutputTokens(requestId: string): number | undefined {
    const { bookings } = this.#state
    const request = bookings.find(requestId)
    const tokens = request < 0 ? Number.NaN : bookings.expectedOutputTokens[request]!
    return Number.isNaN(tokens) ? undefined : tokens
  }

  activeBlocks(rank: Rank): number {
    return this.isTracked(rank) ? this.#state.blocks.active[rank]! : 0
  }

  activeTokens(rank: Rank, nowMs: number): number {
    return this.isTracked(rank) ? this.#state.prefill.activeTokens(rank, nowMs) : 0
  }

  activeRequests(rank: Rank): number {
    return this.isTracked(rank) ? this.#state.activeRequests(rank) : 0
  }

  /** Time until the rank has computed all booked prompts, or undefined where a duration is not predicted. */
  prefillRemainingMs(rank: Rank, nowMs: number): number | undefined {
    return this.isTracked(rank) ? this.#state.prefill.remainingMs(rank, nowMs) : 0
  }

  /** Blocks of all that runs there, each counted for every request that reads it. */
  contextBlocks(rank: Rank): number {
    return this.isTracked(rank) ? this.#state.contextBlocks(rank) : 0
  }

  /**
   * Predicted time that a newcomer would wait for booked prompts: an overdue one counts as done, those behind it in full.
   * At `nowMs` Infinity: what is left until somebody marks or frees.
   */
  prefillWaitMs(rank: Rank, nowMs: number): number {
    return this.isTracked(rank) ? this.#state.prefill.waitMs(rank, nowMs) : 0
  }

  /** Active requests per LoRA name. */
  activeLoraCounts(): ReadonlyMap<string, number> {
    return this.#state.loraCounts
  }

  /** Bytes of the columns; strings, maps and lists of shared holders not counted. */
  get byteLength(): number {
    return this.#state.byteLength
  }

  /** Runs of blocks that are held apart; 0 when nothing is active. */
  get runCount(): number {
    return this.#state.chains.nodeCount
  }

  /**
   * What a request with these blocks would find on every rank, in one pass. `blockCount` 0 or no query gives the load as
   * it is. Fills the columns for all ranks of the table.
   */
  fillLoads(out: LoadColumns, nowMs: number, query?: HashColumn, blockCount = query ? hashCount(query) : 0): void {
    if (!(blockCount >= 0 && blockCount <= (query ? hashCount(query) : 0))) throw refused('blockCount', blockCount)
    this.#state.fillLoads(out, nowMs, query, blockCount)
  }

  // ---- telling

  /** Tells nobody but the load port: a peer has its own clock, and an expired id needs no one to wake. */
  #expireRank(rank: Rank, nowMs: number, pauseMs: number): number {
    const { bookings, checkedAtMs } = this.#state
    if (this.#expiryMs === Number.POSITIVE_INFINITY || nowMs - checkedAtMs[rank]! < pauseMs) return 0
    checkedAtMs[rank] = nowMs
    let expired = 0
    for (let request = bookings.ofRank.first(rank); request >= 0; ) {
      const next = bookings.ofRank.next(request)
      if (nowMs - bookings.startedAtMs[request]! > this.#expiryMs) {
        const requestId = bookings.idOf(request)
        this.#state.remove(request, nowMs)
        expired++
        try {
          this.#options.onExpired?.(requestId, rank)
        } catch {
          this.portFailures++
        }
      }
      request = next
    }
    if (expired > 0) this.#report(rank, nowMs, true)
    return expired
  }

  #report(rank: Rank, nowMs: number, isPublic: boolean): void {
    const { load } = this.#options
    if (load === undefined) return
    const { blocks, prefill } = this.#state
    try {
      load.loadChanged(rank, blocks.active[rank]!, prefill.activeTokens(rank, nowMs), isPublic)
    } catch {
      this.portFailures++
    }
  }

  #tellAdded(booking: Booking): void {
    const { requestId, rank, sequenceHashes, loraName, expectedOutputTokens, prefillLoadHint } = booking
    // The caller fills its column again for the next request; the event may be sent later.
    const tokenSequence = sequenceHashes?.slice(0, 2 * blockCountOf(booking))
    const trackPrefillTokens = booking.trackPrefillTokens !== false
    const kind = 'add_request'
    this.#tell(requestId, rank, loraName, {
      kind,
      tokenSequence,
      trackPrefillTokens,
      expectedOutputTokens,
      prefillLoadHint,
    })
  }

  #tell(requestId: string, rank: Rank, loraName: string | undefined, data: SequenceEvent['data']): void {
    const { routerId, port } = this.#options.replica!
    try {
      port.publish({ requestId, worker: this.ranks.pairOf(rank), routerId, loraName, data })
    } catch {
      this.portFailures++
    }
  }

  #find(requestId: string): number {
    const request = this.#state.bookings.find(requestId)
    if (request < 0) throw new WarmrouteError('WR_REQUEST_NOT_FOUND', { requestId })
    return request
  }
}
