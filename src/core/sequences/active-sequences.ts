/**
 * What is running: the bookings of every rank, the blocks and prompt tokens they occupy, and what a further request would
 * find. The one owner of these facts. Follows lib/kv-router/src/sequences at v1.2.0.
 *
 * Time is an argument. Every change is whole when a call returns: counters, membership, load report, replica event.
 */
import type { HashColumn, Rank, RankTable, WorkerRank } from '../protocol/index.js'
import { hashCount, invariant, WarmrouteError } from '../protocol/index.js'
import { Bookings } from './bookings.js'
import { growFloat64, growUint32, roomFor } from './columns.js'
import type { LoadColumns } from './load-columns.js'
import { resetLoadColumns } from './load-columns.js'
import { PrefillQueue } from './prefill-queue.js'
import { PromptChains } from './prompt-chains.js'
import { RankBlocks, toUnits } from './rank-blocks.js'
import type { PrefillLoadHint, ReplicaPort, SequenceEvent } from './sequence-event.js'
import type { SequenceRules } from './sequence-rules.js'
import { sequenceRulesOf } from './sequence-rules.js'

/** Load placed on a rank for one request. */
export interface Booking {
  /** Unique among active requests. */
  readonly requestId: string
  readonly rank: Rank
  /** Sequence hashes of the prompt's complete blocks. Absent: blocks are not tracked. */
  readonly sequenceHashes?: HashColumn | undefined
  /** How many of them count; all unless told. */
  readonly blockCount?: number | undefined
  /** True unless told. False: the prefill hint is ignored. */
  readonly trackPrefillTokens?: boolean | undefined
  readonly prefillLoadHint?: PrefillLoadHint | undefined
  readonly expectedOutputTokens?: number | undefined
  readonly loraName?: string | undefined
}

/** Hears of every change of a rank's load. Must not call back into the tracker. */
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

export class ActiveSequences {
  readonly ranks: RankTable
  readonly rules: SequenceRules
  readonly #options: ActiveSequencesOptions
  readonly #expiryMs: number
  readonly #expiryCheckMs: number
  readonly #requestCountMax: number
  readonly #promptBlockCountMax: number
  readonly #bookings = new Bookings()
  readonly #blocks = new RankBlocks()
  readonly #chains = new PromptChains(this.#blocks)
  readonly #prefill: PrefillQueue
  readonly #loraCounts = new Map<string, number>()
  #promptBlockCount = 0
  #trackedCount = 0
  // By rank.
  #isTracked = new Uint8Array(0)
  #checkedAtMs = new Float64Array(0)
  #activeRequests = new Uint32Array(0)
  #depth = new Uint32Array(0)
  #promptBlocks = new Uint32Array(0) // by request

  constructor(options: ActiveSequencesOptions) {
    this.#options = options
    this.ranks = options.ranks
    this.rules = { ...sequenceRulesOf('default'), ...options.rules }
    this.#expiryMs = options.expiryMs ?? 300_000
    this.#expiryCheckMs = options.expiryCheckMs ?? 30_000
    this.#requestCountMax = options.requestCountMax ?? 1_000_000
    this.#promptBlockCountMax = options.promptBlockCountMax ?? 100_000_000
    if (!(this.#expiryMs > 0)) throw refused('expiryMs', this.#expiryMs)
    if (!(this.#expiryCheckMs >= 0)) throw refused('expiryCheckMs', this.#expiryCheckMs)
    this.#prefill = new PrefillQueue(this.rules.prefillDecay)
  }

  // ---- requests

  /** Books a request; an unknown rank is tracked from now on. Throws `WR_DUPLICATE_REQUEST`, `WR_TRACKER_FULL`. */
  book(booking: Booking, nowMs: number): void {
    this.#place(booking, nowMs)
    this.#report(booking.rank, nowMs, true)
    if (this.#options.replica) this.#tellAdded(booking, this.#options.replica)
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
    const rank = this.#bookings.rank[request]!
    const isChange = this.#prefill.remove(rank, request, nowMs)
    if (isChange || this.rules.loadPublication === 'always') this.#report(rank, nowMs, true)
    this.#tell(requestId, rank, request, 'mark_prefill_completed')
  }

  /**
   * One more block of output. With a fraction (0..1), every block that only this request holds weighs that much from now
   * on. Throws `WR_REQUEST_NOT_FOUND`.
   */
  addOutputBlock(requestId: string, nowMs: number, fraction?: number): void {
    if (fraction !== undefined && !(fraction >= 0 && fraction <= 1)) throw refused('fraction', fraction)
    const request = this.#find(requestId)
    const bookings = this.#bookings
    const rank = bookings.rank[request]!
    const outputs = ++bookings.outputBlocks[request]!
    this.#blocks.gain(rank, 1)
    if (fraction !== undefined) {
      const units = toUnits(fraction)
      const weighed = bookings.outputBlocksWeighed[request]!
      if (weighed > 0) this.#blocks.weigh(rank, weighed, bookings.outputUnits[request]!, units)
      this.#blocks.weigh(rank, outputs - weighed, -1, units)
      bookings.outputBlocksWeighed[request] = outputs
      bookings.outputUnits[request] = units
      this.#chains.weigh(rank, bookings.leaf[request]!, units)
    }
    this.#blocks.settle(rank)
    this.#report(rank, nowMs, this.rules.loadPublication === 'always')
  }

  /** Ends a booking, its prefill included. False: there is none of this id, which is no failure. */
  free(requestId: string, nowMs: number): boolean {
    requireTime(nowMs)
    const request = this.#bookings.find(requestId)
    if (request < 0) return false
    const rank = this.#bookings.rank[request]!
    const loraName = this.#bookings.loraName[request]
    this.#remove(request, rank, nowMs)
    this.#report(rank, nowMs, true)
    if (this.#options.replica) {
      const { port, routerId } = this.#options.replica
      port.publish({ requestId, worker: this.ranks.pairOf(rank), routerId, loraName, data: { kind: 'free' } })
    }
    return true
  }

  /** As `free`, but only while the booking is on this rank. */
  freeIfOn(requestId: string, rank: Rank, nowMs: number): boolean {
    return this.rankOf(requestId) === rank && this.free(requestId, nowMs)
  }

  // ---- what peers did: the same changes, told to nobody

  /** @internal Throws as `book`. */
  bookForPeer(booking: Booking, nowMs: number): void {
    this.#place(booking, nowMs)
  }

  /** @internal False: nothing was left to compute. */
  markForPeer(requestId: string, nowMs: number): boolean {
    const request = this.#find(requestId)
    return this.#prefill.remove(this.#bookings.rank[request]!, request, nowMs)
  }

  /** @internal The rank that the booking was on. */
  freeForPeer(requestId: string, nowMs: number): Rank {
    const request = this.#find(requestId)
    const rank = this.#bookings.rank[request]!
    this.#remove(request, rank, nowMs)
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
    let expired = 0
    for (let rank = 0; rank < this.#isTracked.length; rank++)
      if (this.#isTracked[rank] === 1) expired += this.#expireRank(rank, nowMs, this.#expiryCheckMs)
    return expired
  }

  /** As `expire`, for one rank and at once. */
  forceExpire(rank: Rank, nowMs: number): number {
    requireTime(nowMs)
    return this.isTracked(rank) ? this.#expireRank(rank, nowMs, 0) : 0
  }

  /** Starts to track a rank, empty. False: it is tracked already and keeps its state. */
  track(rank: Rank, nowMs: number): boolean {
    requireTime(nowMs)
    if (this.isTracked(rank)) return false
    if (!this.ranks.isLive(rank)) throw new WarmrouteError('WR_WORKER_NOT_FOUND', { rank })
    this.#makeRoom(rank + 1)
    this.#isTracked[rank] = 1
    this.#trackedCount++
    this.#checkedAtMs[rank] = nowMs
    return true
  }

  /** Forgets a rank with all its bookings, told to nobody. Returns how many bookings were lost. */
  untrack(rank: Rank, nowMs: number): number {
    requireTime(nowMs)
    if (!this.isTracked(rank)) return 0
    let lost = 0
    for (let request = this.#bookings.ofRank.first(rank); request >= 0; lost++) {
      const next = this.#bookings.ofRank.next(request)
      this.#remove(request, rank, nowMs)
      request = next
    }
    this.#isTracked[rank] = 0
    this.#trackedCount--
    return lost
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
    return this.#isTracked[rank] === 1
  }

  trackedRanks(): Rank[] {
    return Array.from(this.#isTracked.keys()).filter((rank) => this.#isTracked[rank] === 1)
  }

  get requestCount(): number {
    return this.#bookings.count
  }

  /** The rank that a request is booked on. */
  rankOf(requestId: string): Rank | undefined {
    const request = this.#bookings.find(requestId)
    return request < 0 ? undefined : this.#bookings.rank[request]!
  }

  has(requestId: string): boolean {
    return this.#bookings.find(requestId) >= 0
  }

  expectedOutputTokens(requestId: string): number | undefined {
    const request = this.#bookings.find(requestId)
    const tokens = request < 0 ? Number.NaN : this.#bookings.expectedOutputTokens[request]!
    return Number.isNaN(tokens) ? undefined : tokens
  }

  activeBlocks(rank: Rank): number {
    return this.isTracked(rank) ? this.#blocks.active[rank]! : 0
  }

  activeTokens(rank: Rank, nowMs: number): number {
    return this.isTracked(rank) ? this.#prefill.activeTokens(rank, nowMs) : 0
  }

  activeRequests(rank: Rank): number {
    return this.isTracked(rank) ? this.#activeRequests[rank]! : 0
  }

  /** Time until the rank has computed all booked prompts, or undefined where a duration is not predicted. */
  prefillRemainingMs(rank: Rank, nowMs: number): number | undefined {
    return this.isTracked(rank) ? this.#prefill.remainingMs(rank, nowMs) : 0
  }

  /** Active requests per LoRA name. */
  activeLoraCounts(): ReadonlyMap<string, number> {
    return this.#loraCounts
  }

  /** Bytes of the columns; strings, maps and lists of shared holders not counted. */
  get byteLength(): number {
    return (
      this.#chains.byteLength + this.#bookings.byteLength + this.#prefill.byteLength + 4 * this.#promptBlocks.length
    )
  }

  /** Runs of blocks that are held apart; 0 when nothing is active. */
  get runCount(): number {
    return this.#chains.nodeCount
  }

  /**
   * What a request with these blocks would find on every rank, in one pass. `blockCount` 0 or no query gives the load as
   * it is. Fills the columns for all ranks of the table.
   */
  fillLoads(out: LoadColumns, nowMs: number, query?: HashColumn, blockCount = query ? hashCount(query) : 0): void {
    const rankCount = this.ranks.size
    this.#makeRoom(rankCount)
    resetLoadColumns(out, rankCount)
    out.isTracked.set(this.#isTracked.subarray(0, rankCount))
    out.activeRequests.set(this.#activeRequests.subarray(0, rankCount))
    this.#prefill.fillActiveTokens(out.prefillTokens, rankCount, nowMs)
    if (query === undefined || blockCount === 0) out.decodeBlocks.set(this.#blocks.active.subarray(0, rankCount))
    else this.#fillBlocks(out.decodeBlocks, rankCount, query, blockCount)
  }

  #fillBlocks(out: Float64Array, rankCount: number, query: HashColumn, blockCount: number): void {
    const active = this.#blocks.active
    const depth = this.#depth
    const isMatched = this.#chains.matchDepths(query, blockCount, depth, this.#bookings.rank)
    for (let rank = 0; rank < rankCount; rank++) out[rank] = active[rank]! + (blockCount - depth[rank]!)
    if (isMatched) depth.fill(0, 0, rankCount)
    if (this.#trackedCount === rankCount) return
    for (let rank = 0; rank < rankCount; rank++) if (this.#isTracked[rank] === 0) out[rank] = 0
  }

  // ---- the changes themselves

  #place(booking: Booking, nowMs: number): void {
    const { requestId, rank, sequenceHashes, prefillLoadHint, loraName } = booking
    const blockCount = sequenceHashes ? (booking.blockCount ?? hashCount(sequenceHashes)) : 0
    validate(booking, blockCount, nowMs)
    this.track(rank, nowMs)
    const existing = this.#bookings.find(requestId)
    if (existing >= 0) throw duplicate(requestId, this.ranks.pairOf(this.#bookings.rank[existing]!))
    if (this.#bookings.count >= this.#requestCountMax)
      throw new WarmrouteError('WR_TRACKER_FULL', { requestCountMax: this.#requestCountMax })
    if (this.#promptBlockCount + blockCount > this.#promptBlockCountMax)
      throw new WarmrouteError('WR_TRACKER_FULL', { promptBlockCountMax: this.#promptBlockCountMax })
    this.#expireRank(rank, nowMs, this.#expiryCheckMs)
    const request = this.#bookings.open(requestId, rank, nowMs)
    this.#activeRequests[rank]!++
    if (booking.expectedOutputTokens !== undefined)
      this.#bookings.expectedOutputTokens[request] = booking.expectedOutputTokens
    if (loraName !== undefined) {
      this.#bookings.loraName[request] = loraName
      this.#loraCounts.set(loraName, (this.#loraCounts.get(loraName) ?? 0) + 1)
    }
    if (request >= this.#promptBlocks.length)
      this.#promptBlocks = growUint32(this.#promptBlocks, roomFor(request + 1, this.#promptBlocks.length))
    this.#promptBlocks[request] = blockCount
    if (sequenceHashes !== undefined && blockCount > 0) {
      this.#bookings.leaf[request] = this.#chains.acquire(request, rank, sequenceHashes, blockCount)
      this.#promptBlockCount += blockCount
      this.#blocks.settle(rank)
    }
    if (booking.trackPrefillTokens !== false && prefillLoadHint !== undefined && prefillLoadHint.tokens > 0)
      this.#prefill.push(rank, request, prefillLoadHint.tokens, prefillLoadHint.durationMs ?? Number.NaN, nowMs)
  }

  #remove(request: number, rank: Rank, nowMs: number): void {
    const bookings = this.#bookings
    this.#prefill.remove(rank, request, nowMs)
    const leaf = bookings.leaf[request]!
    if (leaf >= 0) this.#chains.release(request, rank, leaf)
    this.#promptBlockCount -= this.#promptBlocks[request]!
    const weighed = bookings.outputBlocksWeighed[request]!
    if (weighed > 0) this.#blocks.lose(rank, weighed, bookings.outputUnits[request]!)
    const outputs = bookings.outputBlocks[request]! - weighed
    if (outputs > 0) this.#blocks.lose(rank, outputs, -1)
    this.#blocks.settle(rank)
    this.#activeRequests[rank]!--
    const loraName = bookings.loraName[request]
    if (loraName !== undefined) this.#forgetLora(loraName)
    bookings.close(request)
  }

  #forgetLora(loraName: string): void {
    const count = this.#loraCounts.get(loraName)! - 1
    if (count === 0) this.#loraCounts.delete(loraName)
    else this.#loraCounts.set(loraName, count)
  }

  /** Tells nobody but the load port: a peer has its own clock, and an expired id needs no one to wake. */
  #expireRank(rank: Rank, nowMs: number, pauseMs: number): number {
    if (this.#expiryMs === Number.POSITIVE_INFINITY || nowMs - this.#checkedAtMs[rank]! < pauseMs) return 0
    this.#checkedAtMs[rank] = nowMs
    let expired = 0
    for (let request = this.#bookings.ofRank.first(rank); request >= 0; ) {
      const next = this.#bookings.ofRank.next(request)
      if (nowMs - this.#bookings.startedAtMs[request]! > this.#expiryMs) {
        const requestId = this.#bookings.idOf(request)
        this.#remove(request, rank, nowMs)
        this.#options.onExpired?.(requestId, rank)
        expired++
      }
      request = next
    }
    if (expired > 0) this.#report(rank, nowMs, true)
    return expired
  }

  #report(rank: Rank, nowMs: number, isPublic: boolean): void {
    this.#options.load?.loadChanged(rank, this.#blocks.active[rank]!, this.#prefill.activeTokens(rank, nowMs), isPublic)
  }

  #tellAdded(booking: Booking, replica: { readonly routerId: bigint; readonly port: ReplicaPort }): void {
    const { requestId, rank, sequenceHashes, loraName, expectedOutputTokens, prefillLoadHint } = booking
    // The caller fills its column again for the next request; the event may be sent later.
    const tokenSequence = sequenceHashes?.slice(0, 2 * (booking.blockCount ?? hashCount(sequenceHashes)))
    const trackPrefillTokens = booking.trackPrefillTokens !== false
    const { routerId, port } = replica
    const worker = this.ranks.pairOf(rank)
    port.publish({
      requestId,
      worker,
      routerId,
      loraName,
      data: { kind: 'add_request', tokenSequence, trackPrefillTokens, expectedOutputTokens, prefillLoadHint },
    })
  }

  #tell(requestId: string, rank: Rank, request: number, kind: 'mark_prefill_completed'): void {
    const replica = this.#options.replica
    if (replica === undefined) return
    const loraName = this.#bookings.loraName[request]
    const event: SequenceEvent = {
      requestId,
      worker: this.ranks.pairOf(rank),
      routerId: replica.routerId,
      loraName,
      data: { kind },
    }
    replica.port.publish(event)
  }

  #find(requestId: string): number {
    const request = this.#bookings.find(requestId)
    if (request < 0) throw new WarmrouteError('WR_REQUEST_NOT_FOUND', { requestId })
    return request
  }

  #makeRoom(rankCount: number): void {
    if (rankCount <= this.#isTracked.length) return
    const length = roomFor(rankCount, this.#isTracked.length)
    const isTracked = new Uint8Array(length)
    isTracked.set(this.#isTracked)
    this.#isTracked = isTracked
    this.#checkedAtMs = growFloat64(this.#checkedAtMs, length)
    this.#activeRequests = growUint32(this.#activeRequests, length)
    this.#depth = new Uint32Array(length)
    this.#blocks.makeRoom(length)
    this.#prefill.makeRoomForRanks(length)
    invariant(this.#blocks.active.length >= length, 'every column is as long as the ranks')
  }
}

function validate(booking: Booking, blockCount: number, nowMs: number): void {
  requireTime(nowMs)
  const available = booking.sequenceHashes ? hashCount(booking.sequenceHashes) : 0
  if (!(Number.isInteger(blockCount) && blockCount >= 0 && blockCount <= available))
    throw refused('blockCount', blockCount)
  const { prefillLoadHint: hint, expectedOutputTokens: expected } = booking
  if (expected !== undefined && !(Number.isFinite(expected) && expected >= 0))
    throw refused('expectedOutputTokens', expected)
  if (hint === undefined) return
  if (!(Number.isSafeInteger(hint.tokens) && hint.tokens >= 0)) throw refused('prefillLoadHint.tokens', hint.tokens)
  if (hint.durationMs !== undefined && !(Number.isFinite(hint.durationMs) && hint.durationMs >= 0))
    throw refused('prefillLoadHint.durationMs', hint.durationMs)
}

function requireTime(nowMs: number): void {
  if (!Number.isFinite(nowMs)) throw refused('nowMs', nowMs)
}

function duplicate(requestId: string, worker: WorkerRank): WarmrouteError {
  return new WarmrouteError('WR_DUPLICATE_REQUEST', { requestId, worker })
}

function refused(field: string, value: number): WarmrouteError {
  return new WarmrouteError('WR_INVALID_ARGUMENT', { reason: `${field} is ${value}`, field, value })
}
