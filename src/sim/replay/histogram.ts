/** Quantiles of millions of values in constant memory: buckets of 0.1 % width, so a quantile is off by at most that. */
export class LogHistogram {
  readonly #counts = new Float64Array(32768)
  #count = 0
  #sum = 0
  #lastValue = Number.NaN
  #lastBucket = 0

  get count(): number {
    return this.#count
  }

  get mean(): number {
    return this.#count === 0 ? 0 : this.#sum / this.#count
  }

  /** Values from 0.001 to about 1.6e11; smaller ones fall into the first bucket, larger ones into the last. */
  add(value: number): void {
    this.#count++
    this.#sum += value
    // Tokens of one pass have the same value: one logarithm for all of them.
    if (value !== this.#lastValue) {
      this.#lastValue = value
      this.#lastBucket = bucketOf(value)
    }
    this.#counts[this.#lastBucket]!++
  }

  quantile(share: number): number {
    if (this.#count === 0) return 0
    const rank = Math.ceil(share * this.#count) - 1 // of few values the 99th percentile is the largest
    let below = 0
    for (let bucket = 0; bucket < this.#counts.length; bucket++) {
      below += this.#counts[bucket]!
      if (below > rank) return Math.exp((bucket - 0.5) / 1000) / 1000
    }
    return 0
  }
}

function bucketOf(value: number): number {
  const bucket = Math.floor(Math.log(value * 1000) * 1000) + 1
  return bucket < 0 || Number.isNaN(bucket) ? 0 : Math.min(bucket, 32767)
}

/** Quantile of few values, exactly: linear between the two neighbours. `sorted` ascends. */
export function quantileOf(sorted: ArrayLike<number>, share: number): number {
  if (sorted.length === 0) return 0
  const place = share * (sorted.length - 1)
  const low = Math.floor(place)
  const high = Math.min(sorted.length - 1, low + 1)
  return sorted[low]! + (sorted[high]! - sorted[low]!) * (place - low)
}
