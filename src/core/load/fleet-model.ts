/**
 * What a router learns of its fleet by watching its own requests: how long prefills take (per worker where they differ), how
 * long requests stay, how much they write and how fast. Fed with bookings, first tokens and ends; read by the cost in milliseconds.
 *
 * Prompts that an engine computes in one pass end together. They are learned from together: alone, the first of them would
 * look twice as slow as it is and the second infinitely fast.
 */
import type { DecodeLine } from './decode-estimator.js'
import { DecodeEstimator, decodeGuess } from './decode-estimator.js'
import { PrefillClocks } from './prefill-clocks.js'
import type { PrefillCoefficients, PrefillEstimator } from './prefill-estimate.js'
import { evaluate } from './prefill-estimate.js'
import type { PrefillWork } from './online-estimator.js'
import { OnlineEstimator } from './online-estimator.js'

export interface FleetModelOptions {
  /** Where to start; learned from there. Without it the first requests are placed by token counts at `unknown` speed. */
  readonly profile?: PrefillCoefficients | undefined
  /** False: the profile is right and stays as it is. */
  readonly isLearning?: boolean | undefined
  /** Tokens that an engine computes in one pass. */
  readonly chunkTokens?: number | undefined
}

/** Before anything is known: about what a large model does on one modern accelerator. Replaced within a few requests. */
const unknown: PrefillCoefficients = { base: 10, perToken: 0.02, perToken2: 0, perTokenPrefix: 0 }

/** Observations before a model without a profile answers `predictMs`; it looks at what it learned once in as many. */
const enough = 8
/** First tokens closer than this came out of one pass. */
const samePassMs = 0.5
/** Of the time between two blocks of an answer; where prefills took more, what is left says little of decoding. */
const decodeShareMin = 0.25
/** Requests that a mean of them remembers. */
const meanMemory = 300

/** A percent of the first token is worth this many percent of the whole request; see docs/decisions/0163. */
const firstTokenWorth = 0.8
/** Below it, the longest prompts wait for a calm worker for longer than is lost by being computed beside others: p99. */
const weightMin = 15
const weightMax = 120

interface Running {
  readonly rank: number
  readonly workerId: bigint
  readonly newTokens: number
  readonly prefixTokens: number
  readonly bookedAtMs: number
  readonly isWhole: boolean
  isPrefilled: boolean
  outputBlocks: number
  /** As the last block of its answer was full: when, how long the rank had been busy with prompts, and what ran there. */
  blockAtMs: number
  blockBusyMs: number
  blockContextTokens: number
}

interface RankClock {
  /** When the last prefill of this rank ended. */
  doneAtMs: number
  /** The pass that ended then, not yet learned from: more of its prompts may follow. */
  open: (PrefillWork & { startMs: number; workerId: bigint }) | undefined
}

export class FleetModel implements PrefillEstimator {
  readonly #estimator: OnlineEstimator
  readonly #isLearning: boolean
  readonly #hasProfile: boolean
  readonly #chunkTokens: number
  readonly #running = new Map<string, Running>()
  readonly #clocks: (RankClock | undefined)[] = []
  readonly #decode = new DecodeEstimator()
  readonly #prefills = new PrefillClocks()
  #coefficients: PrefillCoefficients
  #toldAtMs = 0
  /** Means from booking: to the end, and to the first token. They start where it weighs 15 times as much. */
  readonly #residenceMs = new RunningMean(5_000)
  readonly #firstTokenMs = new RunningMean((5_000 * firstTokenWorth) / 15)
  #outputBlocks = 4

  constructor(options: FleetModelOptions = {}) {
    this.#chunkTokens = options.chunkTokens ?? 8192
    this.#isLearning = options.isLearning ?? true
    this.#coefficients = options.profile ?? unknown
    this.#hasProfile = options.profile !== undefined
    this.#estimator = new OnlineEstimator({ prior: this.#coefficients, chunkTokens: this.#chunkTokens })
  }

  get coefficients(): PrefillCoefficients {
    return this.#coefficients
  }

  get chunkTokens(): number {
    return this.#chunkTokens
  }

  /** Mean time from booking to end. */
  get residenceMs(): number {
    return this.#residenceMs.value
  }

  /** How fast answers are written on a worker of usual speed. */
  get decode(): DecodeLine {
    return this.#decode
  }

  /**
   * Milliseconds by which a token of context is taken to slow a step: half of the way, by ratio, from the guess to what was learned. All
   * of it makes fleets with small pools give up first tokens for answers; see docs/decisions/0163.
   */
  get contextTokenStepMs(): number {
    return Math.sqrt(this.#decode.slope * decodeGuess.slope)
  }

  /**
   * How much more a millisecond counts that a first token waits than one by which requests end later: a percent of the one for about a
   * percent of the other, whatever they take here.
   */
  get firstTokenWeight(): number {
    const ratio = this.#residenceMs.value / Math.max(1, this.#firstTokenMs.value)
    return Math.min(weightMax, Math.max(weightMin, firstTokenWorth * ratio))
  }

  /** Share of a rank's time that goes into prompts lately; as of the last thing that was told. */
  prefillShare(rank: number): number {
    return this.#prefills.share(rank, this.#toldAtMs)
  }

  /** Mean blocks of an answer. */
  get outputBlocks(): number {
    return this.#outputBlocks
  }

  /** Usual relative error of a prefill estimate. */
  get errorRatio(): number {
    return this.#estimator.errorRatio
  }

  get observations(): number {
    return this.#estimator.observations
  }

  /** Requests that were booked and have not ended. */
  get runningCount(): number {
    return this.#running.size
  }

  /** Undefined while nothing but a guess could be said. */
  predictMs(workerId: bigint, newTokens: number, prefixTokens: number): number | undefined {
    if (!this.#hasProfile && this.observations < enough) return undefined
    return this.prefillMs(workerId, newTokens, prefixTokens)
  }

  prefillMs(workerId: bigint, newTokens: number, prefixTokens: number): number {
    return this.fleetPrefillMs(newTokens, prefixTokens) * this.speedOf(workerId)
  }

  /** On a worker of usual speed. */
  fleetPrefillMs(newTokens: number, prefixTokens: number): number {
    return evaluate(this.#coefficients, newTokens, prefixTokens, this.#chunkTokens)
  }

  /** Changes when speeds are worth reading again: about once in as many observations as there are workers. */
  get speedsVersion(): number {
    return this.#estimator.speedsVersion
  }

  /** Times slower than the fleet. */
  speedOf(workerId: bigint): number {
    return this.#isLearning ? this.#estimator.speedOf(workerId) : 1
  }

  /** `isWhole`: nobody will see its first token. */
  booked(
    requestId: string,
    rank: number,
    workerId: bigint,
    newTokens: number,
    prefixTokens: number,
    nowMs: number,
    isWhole = false,
  ): void {
    if (this.#running.has(requestId)) this.forget(requestId)
    this.#toldAtMs = nowMs
    // Written out: on Node 20 a spread followed by more properties costs about 1 µs for each of them.
    this.#running.set(requestId, {
      rank,
      workerId,
      newTokens,
      prefixTokens,
      bookedAtMs: nowMs,
      isWhole,
      isPrefilled: false,
      outputBlocks: 0,
      blockAtMs: Number.NaN,
      blockBusyMs: 0,
      blockContextTokens: 0,
    })
    if (newTokens > 0) this.#prefills.begin(rank, nowMs)
  }

  /** Only the first call for a request counts. Of an answer that comes whole it is a guess, and nothing is learned from it. */
  firstToken(requestId: string, nowMs: number): void {
    const running = this.#running.get(requestId)
    if (!running || running.isPrefilled) return
    running.isPrefilled = true
    this.#toldAtMs = nowMs
    if (running.newTokens > 0) this.#prefills.end(running.rank, nowMs)
    if (running.isWhole) return
    if (this.#isLearning) this.#firstTokenMs.add(nowMs - running.bookedAtMs)
    if (!this.#isLearning || running.newTokens <= 0) return
    const clock = (this.#clocks[running.rank] ??= { doneAtMs: Number.NEGATIVE_INFINITY, open: undefined })
    const work = this.#estimator.workOf(running.newTokens, running.prefixTokens)
    if (clock.open && nowMs - clock.doneAtMs < samePassMs) {
      addWork(clock.open, work)
      return
    }
    this.#learn(clock)
    clock.open = { ...work, startMs: Math.max(running.bookedAtMs, clock.doneAtMs), workerId: running.workerId }
    clock.doneAtMs = nowMs
  }

  /** One more block of an answer is full; `contextTokens` run on its rank. */
  outputBlock(requestId: string, blockTokens: number, contextTokens: number, nowMs: number): void {
    const running = this.#running.get(requestId)
    if (!running) return
    running.outputBlocks++
    if (!this.#isLearning) return
    const busyMs = this.#prefills.busyMs(running.rank, nowMs)
    const blockMs = nowMs - running.blockAtMs // NaN for the first, which nothing is learned from
    const decodeMs = blockMs - (busyMs - running.blockBusyMs)
    if (decodeMs >= decodeShareMin * blockMs) {
      const stepMs = decodeMs / blockTokens / this.speedOf(running.workerId)
      this.#decode.observe((contextTokens + running.blockContextTokens) / 2, stepMs)
    }
    running.blockAtMs = nowMs
    running.blockBusyMs = busyMs
    running.blockContextTokens = contextTokens
  }

  ended(requestId: string, nowMs: number): void {
    const running = this.#running.get(requestId)
    if (!running) return
    this.#running.delete(requestId)
    this.#toldAtMs = nowMs
    if (isComputing(running)) this.#prefills.end(running.rank, nowMs)
    if (this.#isLearning) this.#residenceMs.add(nowMs - running.bookedAtMs)
    if (this.#isLearning && running.isWhole) this.#firstTokenMs.add(nowMs - running.bookedAtMs) // all that its client sees
    if (running.outputBlocks > 0) this.#outputBlocks += 0.02 * (running.outputBlocks - this.#outputBlocks)
  }

  /** It is gone without an end that says anything: expired, or lost. Nothing is learned of it. */
  forget(requestId: string): void {
    const running = this.#running.get(requestId)
    if (!running) return
    this.#running.delete(requestId)
    if (isComputing(running)) this.#prefills.end(running.rank, this.#toldAtMs)
  }

  /** Their numbers will mean other workers: what ran there is lost, and a pass that nobody learned from stays so. */
  removeRanks(ranks: ReadonlySet<number>): void {
    for (const rank of ranks) {
      this.#clocks[rank] = undefined
      this.#prefills.forget(rank)
    }
    for (const [requestId, running] of this.#running) if (ranks.has(running.rank)) this.#running.delete(requestId)
  }

  removeWorker(workerId: bigint): void {
    this.#estimator.removeWorker(workerId)
  }

  #learn(clock: RankClock): void {
    const pass = clock.open
    if (!pass) return
    clock.open = undefined
    this.#estimator.observeWork(pass.workerId, pass, clock.doneAtMs - pass.startMs)
    if (this.#estimator.observations % enough === 0) this.#coefficients = sane(this.#estimator.coefficients())
  }
}

/** Of all that came, then of the last few hundred. What it starts with counts for ten. */
class RunningMean {
  value: number
  #count = 10

  constructor(start: number) {
    this.value = start
  }

  add(value: number): void {
    this.#count = Math.min(this.#count + 1, meanMemory)
    if (Number.isFinite(value)) this.value += (value - this.value) / this.#count
  }
}

function isComputing(running: Running): boolean {
  return !running.isPrefilled && running.newTokens > 0
}

function addWork(sum: PrefillWork, work: PrefillWork): void {
  // Prompts of one pass share its base: the longest of them decides how many passes there were.
  sum.passes = Math.max(sum.passes, work.passes)
  sum.tokens += work.tokens
  sum.squares += work.squares
  sum.crosses += work.crosses
}

/** No cost of a prefill is negative; a fit to few points may say so. */
function sane(learned: PrefillCoefficients): PrefillCoefficients {
  return {
    base: Math.max(0, learned.base),
    perToken: Math.max(1e-6, learned.perToken),
    perToken2: Math.max(0, learned.perToken2),
    perTokenPrefix: Math.max(0, learned.perTokenPrefix),
  }
}
