/**
 * Learns prefill times from prefills that were seen. One shape for the fleet (base, per token, per token squared, per token
 * and prefix token) by recursive least squares on relative errors with forgetting, and one speed per worker beside it, so
 * that a worker that has served little already profits from what the others showed.
 *
 * Robust: an observation that is far off what is usual moves the shape only as far as a usual one would. Bounded: four
 * coefficients, ten numbers of covariance, and two numbers per worker.
 */
import type { PrefillCoefficients, PrefillEstimator } from './prefill-estimate.js'
import { crossTokens, evaluate, squareTokens } from './prefill-estimate.js'

/** One pass, or several prompts computed together: sums over their passes, tokens in thousands. */
export interface PrefillWork {
  passes: number
  tokens: number
  squares: number
  crosses: number
}

export interface OnlineEstimatorOptions {
  /** What to believe before anything was seen; a few observations outweigh it. */
  readonly prior?: PrefillCoefficients
  readonly workersMax?: number
  /** Tokens that an engine computes in one pass. */
  readonly chunkTokens?: number
}

/** Observations after which one has lost half of its weight: ln 2 / (1 - forgetting). */
const forgetting = 0.9985
/** Sum of the variances from which on a step forgets only what it brings news of. */
const unsureMax = 4e5
/** A residual beyond this many times the usual one is cut to it. */
const outlierAt = 4
/** Observations before the shape is trusted without a prior. */
const enough = 8
/** A worker's speed is used only when it is this far off the fleet's: closer, it is noise. */
const deadZone = 1.33
/** Tokens are counted in thousands, so that the four features have one order of magnitude. */
const thousand = 1000

interface WorkerSpeed {
  /** Moving mean of ln(observed / shape). */
  logRatio: number
  count: number
}

export class OnlineEstimator implements PrefillEstimator {
  readonly #weights = new Float64Array(4)
  /** Inverse covariance of the features, row by row: how sure we are in which direction. */
  readonly #covariance = new Float64Array(16)
  readonly #speeds = new Map<bigint, WorkerSpeed>()
  readonly #workersMax: number
  readonly #chunkTokens: number
  #count = 0
  /** Usual size of a relative residual. */
  #scale = 0.5
  #hasPrior = false
  /** Median of the workers' `logRatio`: what the shape itself is off by is nobody's slowness. */
  #fleetLogRatio = 0
  #speedsVersion = 0

  constructor(options: OnlineEstimatorOptions = {}) {
    this.#workersMax = options.workersMax ?? 10_000
    this.#chunkTokens = options.chunkTokens ?? Number.POSITIVE_INFINITY
    const prior = options.prior
    if (prior) {
      this.#hasPrior = true
      this.#weights.set([
        prior.base,
        prior.perToken * thousand,
        prior.perToken2 * thousand ** 2,
        prior.perTokenPrefix * thousand ** 2,
      ])
    }
    this.#beUnsure()
  }

  /** Prefills that were learned from. */
  get observations(): number {
    return this.#count
  }

  /** Usual relative error of a prediction: 0.1 is ten percent. Fit for a gauge. */
  get errorRatio(): number {
    return this.#scale
  }

  /** Changes when the workers' speeds have been compared anew, or one is forgotten; for who keeps copies of them. */
  get speedsVersion(): number {
    return this.#speedsVersion
  }

  /** The fleet's shape as coefficients. */
  coefficients(): PrefillCoefficients {
    const [base, perToken, perToken2, perTokenPrefix] = this.#weights as unknown as [number, number, number, number]
    return {
      base,
      perToken: perToken / thousand,
      perToken2: perToken2 / thousand ** 2,
      perTokenPrefix: perTokenPrefix / thousand ** 2,
    }
  }

  predictMs(workerId: bigint, newTokens: number, prefixTokens: number): number | undefined {
    if (!this.#hasPrior && this.#count < enough) return undefined
    return evaluate(this.coefficients(), newTokens, prefixTokens, this.#chunkTokens) * this.speedOf(workerId)
  }

  /** Times slower than the fleet: 2 takes twice as long. 1 inside the dead zone. */
  speedOf(workerId: bigint): number {
    const speed = this.#speeds.get(workerId)
    if (!speed || speed.count < enough) return 1
    const ratio = Math.exp(speed.logRatio - this.#fleetLogRatio)
    return ratio > deadZone || ratio < 1 / deadZone ? ratio : 1
  }

  /** A prefill ended. Values that no clock can have shown are ignored. */
  observe(workerId: bigint, newTokens: number, prefixTokens: number, ms: number): void {
    if (newTokens > 0 && prefixTokens >= 0) this.observeWork(workerId, this.workOf(newTokens, prefixTokens), ms)
  }

  workOf(newTokens: number, prefixTokens: number): PrefillWork {
    return {
      passes: Math.max(1, Math.ceil(newTokens / this.#chunkTokens)),
      tokens: newTokens / thousand,
      squares: squareTokens(newTokens, this.#chunkTokens) / thousand ** 2,
      crosses: crossTokens(newTokens, prefixTokens, this.#chunkTokens) / thousand ** 2,
    }
  }

  /** Work that ended together, such as the prompts of one pass. */
  observeWork(workerId: bigint, work: PrefillWork, ms: number): void {
    const features = [work.passes, work.tokens, work.squares, work.crosses]
    if (!(ms > 0 && work.tokens > 0 && Number.isFinite(ms) && features.every(Number.isFinite))) return
    const predicted = features.reduce((sum, feature, i) => sum + feature * this.#weights[i]!, 0)
    this.#learnSpeed(workerId, ms, predicted)
    this.#learnShape(features, ms / this.speedOf(workerId))
    this.#count++
  }

  removeWorker(workerId: bigint): void {
    if (this.#speeds.delete(workerId)) this.#speedsVersion++
  }

  #learnShape(work: readonly number[], ms: number): void {
    // Divided by the observation, so that a 10 ms prefill counts as much as a 2 s one: relative errors are what routing feels.
    const features = work.map((feature) => feature / ms)
    const gain = this.#gainOf(features)
    let residual = 1
    for (let i = 0; i < 4; i++) residual -= features[i]! * this.#weights[i]!
    const limit = outlierAt * this.#scale
    const cut = this.#count < enough ? residual : Math.max(-limit, Math.min(limit, residual))
    for (let i = 0; i < 4; i++) this.#weights[i]! += gain[i]! * cut
    this.#scale = Math.max(0.01, 0.98 * this.#scale + 0.02 * Math.min(Math.abs(residual), 2 * limit))
  }

  /**
   * One step of recursive least squares; updates the covariance and answers with the gain.
   *
   * What is old is forgotten in every direction alike, until we are so unsure in one of them, having had no news of it for
   * long (prompts of one length, or never a cached prefix), that forgetting on would blow it up: from there on a step
   * forgets only what it brings news of, and the others wait for theirs.
   */
  #gainOf(features: readonly number[]): number[] {
    const p = this.#covariance
    const pf = [0, 1, 2, 3].map((i) => features.reduce((sum, f, j) => sum + p[4 * i + j]! * f, 0))
    const news = features.reduce((sum, f, i) => sum + f * pf[i]!, 0)
    if (!(news > 0 && news < Number.POSITIVE_INFINITY)) {
      this.#beUnsure() // rounding has eaten it up
      return [0, 0, 0, 0]
    }
    const isSureEnough = p[0]! + p[5]! + p[10]! + p[15]! < unsureMax
    const kept = isSureEnough ? forgetting : 1 // of every direction
    const surer = isSureEnough ? 1 / (forgetting + news) : (1 - (1 / forgetting - 1) / news) / (1 + news)
    for (let i = 0; i < 4; i++) {
      // Mirrored, not computed twice: rounding makes two halves that differ, and forgetting multiplies the difference for ever.
      for (let j = 0; j <= i; j++) p[4 * i + j] = p[4 * j + i] = (p[4 * i + j]! - pf[i]! * surer * pf[j]!) / kept
    }
    return pf.map((value) => value / (kept + news))
  }

  /** What we have is believed to be right within its own size; where there is nothing, every direction is open. */
  #beUnsure(): void {
    this.#covariance.fill(0)
    for (let i = 0; i < 4; i++)
      this.#covariance[5 * i] = this.#hasPrior || this.#count > 0 ? Math.max(100, this.#weights[i]! ** 2) : 1000
  }

  #learnSpeed(workerId: bigint, ms: number, predicted: number): void {
    if (predicted <= 0 || (!this.#hasPrior && this.#count < enough)) return
    let speed = this.#speeds.get(workerId)
    if (!speed) {
      if (this.#speeds.size >= this.#workersMax) return
      this.#speeds.set(workerId, (speed = { logRatio: 0, count: 0 }))
    }
    speed.count++
    const step = Math.max(-1.5, Math.min(1.5, Math.log(ms / predicted) - speed.logRatio))
    speed.logRatio += step / Math.min(speed.count + 1, 30)
    // Sorting costs as much as there are workers, so it is done once in as many observations.
    if (this.#count % Math.max(8, this.#speeds.size) !== 0) return
    this.#fleetLogRatio = medianOf([...this.#speeds.values()])
    this.#speedsVersion++
  }
}

function medianOf(speeds: readonly WorkerSpeed[]): number {
  const ratios = speeds.filter((speed) => speed.count >= enough).map((speed) => speed.logRatio)
  ratios.sort((a, b) => a - b)
  return ratios[ratios.length >> 1] ?? 0
}
