/**
 * Learns how fast answers are written: one step of a rank takes `base + slope * contextTokens`, where the context is everything
 * that runs there. A line by least squares with forgetting; its slope leans on a guess for as long as contexts were too much alike
 * to show one.
 *
 * Robust: what is far off counts as the farthest that is usual. Bounded: a handful of numbers, whoever is observed.
 */

export interface DecodeLine {
  /** Milliseconds of a step where next to nothing runs. */
  readonly base: number
  /** Milliseconds more for each token of context on the rank. */
  readonly slope: number
}

/** Before anything is known: Dynamo's simulator with a pool of a million tokens. */
export const decodeGuess: DecodeLine = { base: 6, slope: 54 / 1_048_576 }

/** Observations that count; older ones fade. */
const memory = 1000
/** Before as many, nothing is called far off. */
const enough = 20
/** A residual beyond this many times the usual one is cut to it. */
const outlierAt = 4
/** The guess counts for as many observations whose contexts are this many tokens apart. */
const guessCount = 10
const guessSpread = 6400
/** A day: no step takes longer, and products of what is shorter stay numbers. */
const stepMsMax = 86_400_000

export class DecodeEstimator implements DecodeLine {
  #count = 0
  // Means of context and step, their variance and covariance.
  #context = 0
  #step: number = decodeGuess.base
  #variance = 0
  #covariance = 0
  /** Usual size of a residual. */
  #scale = 0

  /** Answers that were learned from, a block each. */
  get observations(): number {
    return this.#count
  }

  get base(): number {
    return Math.max(0, this.#step - this.slope * this.#context)
  }

  get slope(): number {
    const leaning = (guessSpread ** 2 * guessCount) / (Math.min(this.#count, memory) + guessCount)
    return Math.max(0, (this.#covariance + leaning * decodeGuess.slope) / (this.#variance + leaning))
  }

  stepMs(contextTokens: number): number {
    const { slope } = this
    return Math.max(0, this.#step + slope * (contextTokens - this.#context))
  }

  /** Steps took this long on average, prefills of others left out. What no clock can have shown is ignored. */
  observe(contextTokens: number, stepMs: number): void {
    if (!(stepMs > 0 && stepMs <= stepMsMax && contextTokens >= 0 && contextTokens < 2 ** 53)) return
    const predicted = this.#count === 0 ? stepMs : this.stepMs(contextTokens)
    const limit = this.#count < enough ? Number.POSITIVE_INFINITY : outlierAt * this.#scale
    const residual = Math.max(-2 * limit, Math.min(2 * limit, stepMs - predicted))
    this.#count++
    const share = 1 / Math.min(this.#count, memory)
    // Farther than a step may count: where steps have become slower for good, the limit follows. Never nothing, or it would stay so.
    this.#scale += Math.max(share, 0.02) * (Math.abs(residual) - this.#scale)
    this.#scale = Math.max(this.#scale, 0.01 * predicted)
    const context = contextTokens - this.#context
    const step = predicted + Math.max(-limit, Math.min(limit, residual)) - this.#step
    this.#context += share * context
    this.#step += share * step
    this.#variance += share * ((1 - share) * context * context - this.#variance)
    this.#covariance += share * ((1 - share) * context * step - this.#covariance)
  }
}
