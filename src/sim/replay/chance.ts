/** Draws of the kinds that traces are made of. */
export class Chance {
  readonly #draw: () => number

  constructor(draw: () => number) {
    this.#draw = draw
  }

  isTrue(share: number): boolean {
    return this.#draw() < share
  }

  /** `from` to `to`, both included. */
  whole(from: number, to: number): number {
    return from + Math.floor(this.#draw() * (to - from + 1))
  }

  /** Exponential: arrivals that know nothing of each other. */
  wait(meanMs: number): number {
    return -meanMs * Math.log(1 - this.#draw())
  }

  /** Log-normal around a median, as lengths of texts are: many short ones, a few very long ones. At least 1. */
  size(median: number, max: number): number {
    const normal = Math.sqrt(-2 * Math.log(1 - this.#draw())) * Math.cos(2 * Math.PI * this.#draw())
    return Math.max(1, Math.min(max, Math.round(median * Math.exp(0.9 * normal))))
  }

  /** 1, 2, 3, .. with the given mean: after each one it is as likely as before that another follows. */
  geometric(mean: number): number {
    return 1 + Math.floor(Math.log(1 - this.#draw()) / Math.log(1 - 1 / mean))
  }

  /** 0 .. count - 1, the k-th in proportion to 1 / k. */
  zipf(count: number): number {
    let total = 0
    for (let rank = 1; rank <= count; rank++) total += 1 / rank
    let left = this.#draw() * total
    for (let rank = 1; rank < count; rank++) {
      left -= 1 / rank
      if (left < 0) return rank - 1
    }
    return count - 1
  }
}
