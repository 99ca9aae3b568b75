/**
 * What a rank usually carries: its decoding requests and their contexts, averaged over the last half minute or so. A session that
 * is between two turns runs nowhere, and comes back to the rank that has its beginning: the moment alone does not show it.
 *
 * Sampled whenever loads are asked for; what is seen then stands for the time since the last look.
 */
import { growFloat64 } from './columns.js'

/** What is this long ago counts for a third. */
const memoryMs = 20_000

export class UsualLoad {
  // By rank.
  decoding: Float64Array = new Float64Array(0)
  contextBlocks: Float64Array = new Float64Array(0)
  #seenAtMs = Number.NEGATIVE_INFINITY

  makeRoomForRanks(length: number): void {
    this.decoding = growFloat64(this.decoding, length)
    this.contextBlocks = growFloat64(this.contextBlocks, length)
  }

  /** Its number means another rank from now on. */
  forget(rank: number): void {
    this.decoding[rank] = this.contextBlocks[rank] = 0
  }

  /** A clock that stands still, runs backwards or is no number changes nothing. */
  see(
    nowMs: number,
    rankCount: number,
    activeRequests: Uint32Array,
    prefillRequests: Uint32Array,
    contextBlocks: Float64Array,
  ): void {
    const sinceMs = nowMs - this.#seenAtMs
    if (!(sinceMs > 0 && nowMs < Number.POSITIVE_INFINITY)) return
    this.#seenAtMs = nowMs
    const share = 1 - Math.exp(-sinceMs / memoryMs)
    const { decoding, contextBlocks: contexts } = this
    for (let rank = 0; rank < rankCount; rank++) {
      const behind = activeRequests[rank]! - prefillRequests[rank]!
      decoding[rank]! += share * ((behind > 0 ? behind : 0) - decoding[rank]!)
      contexts[rank]! += share * (contextBlocks[rank]! - contexts[rank]!)
    }
  }
}
