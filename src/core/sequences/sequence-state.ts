/**
 * The state behind the tracker: bookings, blocks, prompt tokens and adapters, by rank and by request. Changes it, and
 * tells nobody: `ActiveSequences` does. What a call refuses it has not begun to do.
 */
import type { HashColumn, Rank, RankTable } from '../protocol/index.js'
import { hashCount, WarmrouteError } from '../protocol/index.js'
import { Bookings } from './bookings.js'
import { growFloat64, growUint32, roomFor } from './columns.js'
import type { LoadColumns, LoadDetail } from './load-columns.js'
import { resetLoadColumns } from './load-columns.js'
import type { PrefillDecay } from './prefill-queue.js'
import { PrefillQueue } from './prefill-queue.js'
import { PromptChains } from './prompt-chains.js'
import { RankBlocks, toUnits } from './rank-blocks.js'
import type { PrefillLoadHint } from './sequence-event.js'
import { UsualLoad } from './usual-load.js'

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

export interface SequenceLimits {
  readonly requestCountMax: number
  readonly promptBlockCountMax: number
}

export class SequenceState {
  readonly ranks: RankTable
  readonly bookings = new Bookings()
  readonly blocks = new RankBlocks()
  readonly chains = new PromptChains(this.blocks)
  readonly prefill: PrefillQueue
  readonly usual = new UsualLoad()
  readonly loraCounts = new Map<string, number>()
  readonly #limits: SequenceLimits
  #promptBlockCount = 0
  #trackedCount = 0
  // By rank.
  #isTracked = new Uint8Array(0)
  #activeRequests = new Uint32Array(0)
  #contextBlocks = new Float64Array(0)
  #depth = new Uint32Array(0)
  /** When the rank was last searched for expired requests. */
  checkedAtMs = new Float64Array(0)

  constructor(ranks: RankTable, decay: PrefillDecay, limits: SequenceLimits) {
    this.ranks = ranks
    this.prefill = new PrefillQueue(decay)
    this.#limits = limits
  }

  get byteLength(): number {
    return this.chains.byteLength + this.bookings.byteLength + this.prefill.byteLength
  }

  isTracked(rank: Rank): boolean {
    return this.#isTracked[rank] === 1
  }

  trackedRanks(): Rank[] {
    return Array.from(this.#isTracked.keys()).filter((rank) => this.#isTracked[rank] === 1)
  }

  activeRequests(rank: Rank): number {
    return this.#activeRequests[rank]!
  }

  track(rank: Rank, nowMs: number): boolean {
    requireTime(nowMs)
    if (this.isTracked(rank)) return false
    if (!this.ranks.isLive(rank)) throw new WarmrouteError('WR_WORKER_NOT_FOUND', { rank })
    this.#makeRoom(rank + 1)
    this.#isTracked[rank] = 1
    this.#trackedCount++
    this.checkedAtMs[rank] = nowMs
    this.usual.forget(rank)
    return true
  }

  untrack(rank: Rank, nowMs: number): number {
    requireTime(nowMs)
    if (!this.isTracked(rank)) return 0
    let lost = 0
    for (let request = this.bookings.ofRank.first(rank); request >= 0; lost++) {
      const next = this.bookings.ofRank.next(request)
      this.remove(request, nowMs)
      request = next
    }
    this.#isTracked[rank] = 0
    this.#trackedCount--
    return lost
  }

  /** Throws unless `open` will succeed: bad values, an id that is booked, a limit that is reached. Tracks the rank. */
  admit(booking: Booking, nowMs: number): void {
    const { requestId, rank } = booking
    const blockCount = blockCountOf(booking)
    requireBooking(booking, nowMs)
    this.track(rank, nowMs)
    const existing = this.bookings.find(requestId)
    if (existing >= 0) {
      const worker = this.ranks.pairOf(this.bookings.rank[existing]!)
      throw new WarmrouteError('WR_DUPLICATE_REQUEST', { requestId, worker })
    }
    const { requestCountMax, promptBlockCountMax } = this.#limits
    if (this.bookings.count >= requestCountMax) throw new WarmrouteError('WR_TRACKER_FULL', { requestCountMax })
    if (this.#promptBlockCount + blockCount > promptBlockCountMax)
      throw new WarmrouteError('WR_TRACKER_FULL', { promptBlockCountMax })
  }

  /** After `admit`. */
  open(booking: Booking, nowMs: number): void {
    const { requestId, rank, sequenceHashes, prefillLoadHint, loraName, expectedOutputTokens } = booking
    const { bookings } = this
    const blockCount = blockCountOf(booking)
    const request = bookings.open(requestId, rank, nowMs)
    this.#activeRequests[rank]!++
    bookings.promptBlocks[request] = blockCount
    this.#contextBlocks[rank]! += blockCount
    if (expectedOutputTokens !== undefined) bookings.expectedOutputTokens[request] = expectedOutputTokens
    if (loraName !== undefined) {
      bookings.loraName[request] = loraName
      this.loraCounts.set(loraName, (this.loraCounts.get(loraName) ?? 0) + 1)
    }
    if (sequenceHashes !== undefined && blockCount > 0) {
      bookings.leaf[request] = this.chains.acquire(request, rank, sequenceHashes, blockCount)
      this.#promptBlockCount += blockCount
      this.blocks.settle(rank)
    }
    if (booking.trackPrefillTokens !== false && prefillLoadHint !== undefined && prefillLoadHint.tokens > 0)
      this.prefill.push(rank, request, prefillLoadHint.tokens, prefillLoadHint.durationMs ?? Number.NaN, nowMs)
  }

  remove(request: number, nowMs: number): void {
    const { bookings, blocks } = this
    const rank = bookings.rank[request]!
    this.prefill.remove(rank, request, nowMs)
    const leaf = bookings.leaf[request]!
    if (leaf >= 0) this.chains.release(request, rank, leaf)
    this.#promptBlockCount -= bookings.promptBlocks[request]!
    this.#contextBlocks[rank]! -= bookings.promptBlocks[request]! + bookings.outputBlocks[request]!
    const weighed = bookings.outputBlocksWeighed[request]!
    if (weighed > 0) blocks.lose(rank, weighed, bookings.outputUnits[request]!)
    const outputs = bookings.outputBlocks[request]! - weighed
    if (outputs > 0) blocks.lose(rank, outputs, -1)
    blocks.settle(rank)
    this.#activeRequests[rank]!--
    const loraName = bookings.loraName[request]
    if (loraName !== undefined) this.#forgetLora(loraName)
    bookings.close(request)
  }

  /** `fraction` lies in 0..1. */
  grow(request: number, fraction: number | undefined): void {
    const { bookings, blocks } = this
    const rank = bookings.rank[request]!
    const outputs = ++bookings.outputBlocks[request]!
    this.#contextBlocks[rank]!++
    blocks.gain(rank, 1)
    if (fraction !== undefined) {
      const units = toUnits(fraction)
      const weighed = bookings.outputBlocksWeighed[request]!
      if (weighed > 0) blocks.weigh(rank, weighed, bookings.outputUnits[request]!, units)
      blocks.weigh(rank, outputs - weighed, -1, units)
      bookings.outputBlocksWeighed[request] = outputs
      bookings.outputUnits[request] = units
      this.chains.weigh(rank, bookings.leaf[request]!, units)
    }
    blocks.settle(rank)
  }

  contextBlocks(rank: number): number {
    return this.#contextBlocks[rank]!
  }

  fillLoads(out: LoadColumns, nowMs: number, query: HashColumn | undefined, blockCount: number): void {
    const rankCount = this.ranks.size
    this.#makeRoom(rankCount)
    resetLoadColumns(out, rankCount)
    out.isTracked.set(this.#isTracked.subarray(0, rankCount))
    out.activeRequests.set(this.#activeRequests.subarray(0, rankCount))
    this.prefill.fillActiveTokens(out.prefillTokens, rankCount, nowMs)
    if (out.detail) this.#fillDetail(out.detail, rankCount, nowMs)
    if (query === undefined || blockCount === 0) out.decodeBlocks.set(this.blocks.active.subarray(0, rankCount))
    else this.#fillBlocks(out, rankCount, query, blockCount)
  }

  #fillDetail(detail: LoadDetail, rankCount: number, nowMs: number): void {
    this.prefill.fillRemainingMs(detail.prefillMs, detail.prefillRequests, rankCount, nowMs)
    detail.contextBlocks.set(this.#contextBlocks.subarray(0, rankCount))
    const { usual } = this
    usual.see(nowMs, rankCount, this.#activeRequests, detail.prefillRequests, this.#contextBlocks)
    detail.usualDecoding.set(usual.decoding.subarray(0, rankCount))
    detail.usualContextBlocks.set(usual.contextBlocks.subarray(0, rankCount))
    detail.sharedBlocks.fill(0, 0, rankCount)
    detail.crowds.count = 0
  }

  #fillBlocks(columns: LoadColumns, rankCount: number, query: HashColumn, blockCount: number): void {
    const out = columns.decodeBlocks
    const active = this.blocks.active
    const depth = this.#depth
    const isMatched = this.chains.matchDepths(query, blockCount, depth, this.bookings.rank)
    if (isMatched && columns.detail) {
      columns.detail.sharedBlocks.set(depth.subarray(0, rankCount))
      this.chains.fillCrowds(columns.detail.crowds)
    }
    for (let rank = 0; rank < rankCount; rank++) out[rank] = active[rank]! + (blockCount - depth[rank]!)
    if (isMatched) depth.fill(0, 0, rankCount)
    if (this.#trackedCount === rankCount) return
    for (let rank = 0; rank < rankCount; rank++) if (this.#isTracked[rank] === 0) out[rank] = 0
  }

  #forgetLora(loraName: string): void {
    const count = this.loraCounts.get(loraName)! - 1
    if (count === 0) this.loraCounts.delete(loraName)
    else this.loraCounts.set(loraName, count)
  }

  #makeRoom(rankCount: number): void {
    if (rankCount <= this.#isTracked.length) return
    const length = roomFor(rankCount, this.#isTracked.length)
    const isTracked = new Uint8Array(length)
    isTracked.set(this.#isTracked)
    this.#isTracked = isTracked
    this.checkedAtMs = growFloat64(this.checkedAtMs, length)
    this.#activeRequests = growUint32(this.#activeRequests, length)
    this.#contextBlocks = growFloat64(this.#contextBlocks, length)
    this.#depth = new Uint32Array(length)
    this.blocks.makeRoom(length)
    this.prefill.makeRoomForRanks(length)
    this.usual.makeRoomForRanks(length)
  }
}

export function requireTime(nowMs: number): void {
  if (!Number.isFinite(nowMs)) throw refused('nowMs', nowMs)
}

export function refused(field: string, value: number): WarmrouteError {
  return new WarmrouteError('WR_INVALID_ARGUMENT', { reason: `${field} is ${value}`, field, value })
}

export function blockCountOf({ sequenceHashes, blockCount }: Omit<Booking, 'rank'>): number {
  return sequenceHashes ? (blockCount ?? hashCount(sequenceHashes)) : 0
}

/** Throws where its values are no booking's, whatever is booked already. */
export function requireBooking(booking: Omit<Booking, 'rank'>, nowMs: number): void {
  requireTime(nowMs)
  const blockCount = blockCountOf(booking)
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
