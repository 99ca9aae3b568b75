/**
 * When each of many workers has its turn in a period, so that never all are looked at in the same moment. By id alone: no state, no
 * chance, and a worker keeps its moment whoever else comes or goes.
 */

/** 2^64 divided by the golden ratio: its multiples, modulo 2^64, divide the circle about evenly after any number of steps. */
const step = 0x9e3779b97f4a7c15n

/** From 0 to below 1. Of consecutive ids no two are close, and every part of the period has about its share. */
export function phaseOf(workerId: bigint): number {
  return Number(BigInt.asUintN(64, workerId * step) >> 11n) / 2 ** 53
}

/** The moments of one worker, a period apart. */
export class Turns {
  readonly #periodMs: number
  readonly #offsetMs: number
  #last = -Infinity

  constructor(phase: number, periodMs: number) {
    this.#periodMs = periodMs
    this.#offsetMs = phase * periodMs
  }

  /** Until its next moment: mostly at most a period, and never the moment that was waited for before, as a timer may be early. */
  waitMs(nowMs: number): number {
    const next = Math.floor((nowMs - this.#offsetMs) / this.#periodMs) + 1
    this.#last = Math.max(next, this.#last + 1)
    return this.#last * this.#periodMs + this.#offsetMs - nowMs
  }
}

/** Which phases a round has come past since it was asked before. */
export class Round {
  readonly #periodMs: number
  #fromMs: number

  constructor(periodMs: number, nowMs: number) {
    this.#periodMs = periodMs
    this.#fromMs = nowMs
  }

  /** True for the phases whose moment lies between the call before and now: each once in a period, however long between two calls. */
  advance(nowMs: number): (phase: number) => boolean {
    const from = this.#fromMs / this.#periodMs
    const to = nowMs / this.#periodMs
    this.#fromMs = nowMs
    return (phase) => Math.floor(to - phase) > Math.floor(from - phase)
  }
}
