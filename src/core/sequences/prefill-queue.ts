/**
 * Prompt tokens that each rank still has to compute: a queue per rank, oldest first, that an engine works off in order.
 * The oldest entry is the anchor. Where its duration is predicted its tokens fade with the time since it became oldest.
 *
 * `anchor`: only the oldest fades (lib/kv-router/src/sequences at v1.2.0).
 * `full`: when every entry has a duration, fading goes on past the oldest (1.5.0-dev).
 */
import { growFloat64, growUint32, roomFor } from './columns.js'
import { LinkedLists } from './linked-lists.js'

export type PrefillDecay = 'anchor' | 'full'

export class PrefillQueue {
  readonly #decay: PrefillDecay
  readonly #queue = new LinkedLists() // list: rank, item: request
  // By request. 0 tokens: not in the queue. NaN: no duration is predicted.
  #tokens = new Float64Array(0)
  #durationMs = new Float64Array(0)
  // By rank. The anchor's own figures are repeated here, so that reading all ranks walks columns and no lists.
  #sum = new Float64Array(0)
  #anchorTokens = new Float64Array(0)
  #anchorDurationMs = new Float64Array(0) // NaN: nothing fades, or nothing is there
  #anchoredAtMs = new Float64Array(0)
  #unpredicted = new Uint32Array(0)
  #sumMs = new Float64Array(0) // predicted durations only
  #count = new Uint32Array(0)
  /** Ranks whose anchor fades: without a model of durations there are none, and sums are all there is to read. */
  #fadingCount = 0

  constructor(decay: PrefillDecay) {
    this.#decay = decay
  }

  get byteLength(): number {
    return 16 * this.#tokens.length + 48 * this.#sum.length + this.#queue.byteLength
  }

  makeRoomForRanks(rankCount: number): void {
    if (rankCount <= this.#sum.length) return
    const before = this.#sum.length
    const length = roomFor(rankCount, before)
    this.#sum = growFloat64(this.#sum, length)
    this.#anchorTokens = growFloat64(this.#anchorTokens, length)
    this.#anchorDurationMs = growFloat64(this.#anchorDurationMs, length).fill(Number.NaN, before)
    this.#anchoredAtMs = growFloat64(this.#anchoredAtMs, length)
    this.#unpredicted = growUint32(this.#unpredicted, length)
    this.#sumMs = growFloat64(this.#sumMs, length)
    this.#count = growUint32(this.#count, length)
  }

  /** `tokens` is above 0; `durationMs` is NaN where none is predicted. */
  push(rank: number, request: number, tokens: number, durationMs: number, nowMs: number): void {
    if (request >= this.#tokens.length) {
      const length = roomFor(request + 1, this.#tokens.length)
      this.#tokens = growFloat64(this.#tokens, length)
      this.#durationMs = growFloat64(this.#durationMs, length)
    }
    const isFirst = this.#queue.first(rank) < 0
    this.#queue.push(rank, request)
    this.#tokens[request] = tokens
    this.#durationMs[request] = durationMs
    if (isFirst) this.#anchor(rank, nowMs)
    this.#sum[rank]! += tokens
    this.#count[rank]!++
    if (Number.isNaN(durationMs)) this.#unpredicted[rank]!++
    else this.#sumMs[rank]! += durationMs
  }

  /** False: the request had no tokens there, or none any more. */
  remove(rank: number, request: number, nowMs: number): boolean {
    const tokens = request < this.#tokens.length ? this.#tokens[request]! : 0
    if (tokens === 0) return false
    const durationMs = this.#durationMs[request]!
    const wasOldest = this.#queue.first(rank) === request
    this.#queue.remove(rank, request)
    this.#tokens[request] = 0
    this.#sum[rank]! -= tokens
    this.#count[rank]!--
    if (Number.isNaN(durationMs)) this.#unpredicted[rank]!--
    else this.#sumMs[rank]! -= durationMs
    if (this.#count[rank] === 0) this.#sumMs[rank] = 0 // so that rounding does not pile up over a day
    if (wasOldest) this.#anchor(rank, nowMs)
    else if (this.#decay === 'full' && !Number.isNaN(durationMs)) {
      // What faded past the anchor faded from this entry too; without it the clock must not run ahead of the rest.
      const moved = this.#anchoredAtMs[rank]! + durationMs
      this.#anchoredAtMs[rank] = Math.max(this.#anchoredAtMs[rank]!, Math.min(moved, nowMs))
    }
    return true
  }

  activeTokens(rank: number, nowMs: number): number {
    const sum = this.#sum[rank]!
    const durationMs = this.#anchorDurationMs[rank]!
    if (Number.isNaN(durationMs)) return sum
    const tokens = this.#anchorTokens[rank]!
    if (durationMs === 0) return sum - tokens
    const elapsedMs = this.#elapsedMs(rank, nowMs)
    if (this.#decay === 'full' && this.#unpredicted[rank] === 0)
      return Math.max(0, sum - Math.floor((tokens * elapsedMs) / durationMs))
    return sum - tokens + Math.ceil(tokens * Math.max(0, 1 - elapsedMs / durationMs))
  }

  /** Fills `out[rank]` for all ranks below `rankCount`; once per request. */
  fillActiveTokens(out: Float64Array, rankCount: number, nowMs: number): void {
    out.set(this.#sum.subarray(0, rankCount))
    if (this.#fadingCount === 0) return
    for (let rank = 0; rank < rankCount; rank++)
      if (!Number.isNaN(this.#anchorDurationMs[rank]!)) out[rank] = this.activeTokens(rank, nowMs)
  }

  /** Time until the rank has computed all it has, or undefined where a duration is missing. */
  remainingMs(rank: number, nowMs: number): number | undefined {
    const oldest = this.#queue.first(rank)
    if (oldest < 0) return 0
    if (this.#unpredicted[rank]! > 0) return undefined
    let total = 0
    for (let request = oldest; request >= 0; request = this.#queue.next(request)) total += this.#durationMs[request]!
    return Math.max(0, total - this.#elapsedMs(rank, nowMs))
  }

  /**
   * What `fillRemainingMs` fills, for one rank. Only the oldest entry runs down: at `nowMs` Infinity this is what is left
   * when time alone has done all it can.
   */
  waitMs(rank: number, nowMs: number): number {
    const sumMs = this.#sumMs[rank]!
    const durationMs = this.#anchorDurationMs[rank]!
    if (Number.isNaN(durationMs)) return sumMs
    return Math.max(0, sumMs - Math.min(this.#elapsedMs(rank, nowMs), durationMs))
  }

  /** As `remainingMs` for all ranks in one pass; entries without a duration count as nothing, an overdue one as done. */
  fillRemainingMs(outMs: Float64Array, outCount: Uint32Array, rankCount: number, nowMs: number): void {
    outCount.set(this.#count.subarray(0, rankCount))
    outMs.set(this.#sumMs.subarray(0, rankCount))
    if (this.#fadingCount === 0) return
    for (let rank = 0; rank < rankCount; rank++) {
      const durationMs = this.#anchorDurationMs[rank]!
      if (Number.isNaN(durationMs)) continue
      const left = this.#sumMs[rank]! - Math.min(this.#elapsedMs(rank, nowMs), durationMs)
      outMs[rank] = left > 0 ? left : 0
    }
  }

  /** The oldest entry, whichever it is, begins to fade now. */
  #anchor(rank: number, nowMs: number): void {
    const oldest = this.#queue.first(rank)
    const durationMs = oldest < 0 ? Number.NaN : this.#durationMs[oldest]!
    if (!Number.isNaN(this.#anchorDurationMs[rank]!)) this.#fadingCount--
    if (!Number.isNaN(durationMs)) this.#fadingCount++
    this.#anchoredAtMs[rank] = nowMs
    this.#anchorTokens[rank] = oldest < 0 ? 0 : this.#tokens[oldest]!
    this.#anchorDurationMs[rank] = durationMs
  }

  /** A clock that stands still, runs backwards or is no number fades nothing. */
  #elapsedMs(rank: number, nowMs: number): number {
    const elapsedMs = nowMs - this.#anchoredAtMs[rank]!
    return elapsedMs > 0 ? elapsedMs : 0
  }
}
