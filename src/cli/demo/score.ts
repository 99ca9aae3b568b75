/** What one side of the demo has achieved: hit rate, time to first token, and whether predictions came true. */
import type { Asked } from './ask.js'

export interface Score {
  readonly requests: number
  readonly failures: number
  /** Share of prompt tokens that the engines had cached, by their own account. */
  readonly hitRate: number
  readonly firstTokenMs: { readonly median: number; readonly p95: number }
  /** The longest pause in an answer. */
  readonly longestGapMs: { readonly median: number; readonly p95: number }
  /** Share of answers whose cached tokens were predicted to the token. */
  readonly predictedRate: number
}

/** Quantiles are over the newest this many. */
const samplesMax = 4096

export class ScoreKeeper {
  readonly #samples: number[] = []
  readonly #gaps: number[] = []
  #requests = 0
  #failures = 0
  #promptTokens = 0
  #cachedTokens = 0
  #predicted = 0

  add({ firstTokenMs, longestGapMs, promptTokens, cachedTokens, predictedTokens }: Asked): void {
    this.#samples[this.#requests % samplesMax] = firstTokenMs
    this.#gaps[this.#requests % samplesMax] = longestGapMs
    this.#requests++
    this.#promptTokens += promptTokens
    this.#cachedTokens += cachedTokens
    if (predictedTokens === cachedTokens) this.#predicted++
  }

  fail(): void {
    this.#failures++
  }

  score(): Score {
    return {
      requests: this.#requests,
      failures: this.#failures,
      hitRate: this.#cachedTokens / Math.max(1, this.#promptTokens),
      firstTokenMs: spreadOf(this.#samples),
      longestGapMs: spreadOf(this.#gaps),
      predictedRate: this.#predicted / Math.max(1, this.#requests),
    }
  }
}

function spreadOf(samples: readonly number[]): { median: number; p95: number } {
  const sorted = samples.toSorted((a, b) => a - b)
  const quantile = (share: number): number => sorted[Math.floor(share * (sorted.length - 1))] ?? 0
  return { median: quantile(0.5), p95: quantile(0.95) }
}
