/**
 * How many blocks each rank holds: unique blocks, each weighing 1 or a fraction.
 *
 * Fractions are held in units of 2^-30, rounded up, and sums of units are whole numbers below 2^53. So sums are exact and
 * do not depend on the order of bookings and frees: a running sum of doubles drifts, and a rank that never drains would
 * drift for good. Rounding up keeps halves where they are: 5 blocks at 0.7 are 3.5, which rounds to 4.
 */
import { growFloat64, roomFor } from './columns.js'

/** The weight 1, in units. */
export const wholeUnits = 2 ** 30

/** `fraction` lies in 0..1. */
export function toUnits(fraction: number): number {
  return Math.ceil(fraction * wholeUnits)
}

export class RankBlocks {
  /** Active blocks by rank, rounded; what everybody else reads. */
  active = new Float64Array(0)
  #unique = new Float64Array(0)
  #fractional = new Float64Array(0)
  #units = new Float64Array(0)

  makeRoom(rankCount: number): void {
    if (rankCount <= this.active.length) return
    const length = roomFor(rankCount, this.active.length)
    this.active = growFloat64(this.active, length)
    this.#unique = growFloat64(this.#unique, length)
    this.#fractional = growFloat64(this.#fractional, length)
    this.#units = growFloat64(this.#units, length)
  }

  /** Blocks of weight 1 that the rank did not hold before. */
  gain(rank: number, blocks: number): void {
    this.#unique[rank]! += blocks
  }

  /** Blocks whose last reference is gone; `units` is their fraction, or -1 for weight 1. */
  lose(rank: number, blocks: number, units: number): void {
    this.#unique[rank]! -= blocks
    if (units < 0) return
    this.#fractional[rank]! -= blocks
    this.#units[rank]! -= blocks * units
  }

  /** Gives blocks a fraction in place of the one they had, or of weight 1 where `before` is -1. */
  weigh(rank: number, blocks: number, before: number, units: number): void {
    if (before < 0) {
      this.#fractional[rank]! += blocks
      this.#units[rank]! += blocks * units
    } else this.#units[rank]! += blocks * (units - before)
  }

  /** After the last change of a call: brings `active` up to date. */
  settle(rank: number): void {
    const whole = this.#unique[rank]! - this.#fractional[rank]!
    this.active[rank] = this.#fractional[rank] === 0 ? whole : Math.round(whole + this.#units[rank]! / wholeUnits)
  }
}
