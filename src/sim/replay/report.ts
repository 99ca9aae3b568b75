/** What a replay says at its end. The names of the report's fields are read by scripts and stay as they are. */
import type { FinishReason } from '../engine/request.js'
import { LogHistogram, quantileOf } from './histogram.js'

export interface Spread {
  readonly mean: number
  readonly p50: number
  readonly p90: number
  readonly p99: number
}

export interface WorkerReport {
  readonly requests: number
  readonly prompt_tokens: number
  readonly cached_tokens: number
  /** Prompt tokens that were computed. */
  readonly prefill_tokens: number
  readonly output_tokens: number
  /** Mean time from arrival to the first pass, of the requests that it took. */
  readonly queued_ms_mean: number
  readonly passes: number
  readonly preemptions: number
}

/** How the requests of one stretch of the trace fared; a stretch is a sixtieth of the time in which they arrived. */
export interface TimelineEntry {
  readonly start_ms: number
  readonly requests: number
  readonly ttft_ms_mean: number
  /** In the router, and until the first pass of an engine. */
  readonly held_ms_mean: number
  readonly queued_ms_mean: number
  readonly reuse: number
  readonly prefill_tokens: number
  /** The worker with the most prefill over the mean one; 1 is even. */
  readonly imbalance: number
}

/** What a report needs to know of an engine. */
export interface EngineFacts {
  readonly passCount: number
  readonly scheduler: { readonly preemptionCount: number }
}

/**
 * What came out of a replay.
 *
 * @example
 * import { parseMooncake, replay, type ReplayReport, roundRobin } from 'warmroute/sim'
 *
 * const trace = parseMooncake('{"timestamp":0,"input_length":1024,"output_length":8,"hash_ids":[1,2]}')
 * const report: ReplayReport = replay(trace, { workers: 1, policy: roundRobin(1) })
 * console.log(report.prompt_tokens, report.output_tokens) // => 1024 8
 */
export interface ReplayReport {
  readonly requests: number
  readonly completed: number
  readonly rejected: number
  /** Requests that were prefilled on one worker and decoded on another. */
  readonly remote_prefills: number
  readonly duration_ms: number
  readonly ttft_ms: Spread
  readonly itl_ms: Spread
  readonly e2e_ms: Spread
  /** From arrival to being sent to a worker: what a policy that holds requests adds. */
  readonly held_ms: Spread
  /** From arrival to the first pass: in the router, and then in the engine's own queue. */
  readonly queued_ms: Spread
  /** Share of prompt tokens that did not have to be computed. */
  readonly reuse: number
  readonly prompt_tokens: number
  readonly cached_tokens: number
  /** Prompt tokens that were computed. */
  readonly prefill_tokens: number
  readonly output_tokens: number
  readonly output_tokens_per_s: number
  /** The busiest worker over the mean one; 1 is even. */
  readonly imbalance: { readonly requests: number; readonly prefill_tokens: number }
  /** TTFT at 0 %, 1 %, .. 100 % of the requests. */
  readonly ttft_quantiles_ms: readonly number[]
  readonly timeline: readonly TimelineEntry[]
  readonly workers: readonly WorkerReport[]
}

export class ReplayMeter {
  readonly #ttft: number[] = []
  readonly #ttftArrivals: number[] = []
  readonly #e2e: number[] = []
  readonly #held: number[] = []
  readonly #heldArrivals: number[] = []
  readonly #admissions: Admission[] = []
  readonly #itl = new LogHistogram()
  readonly #perWorker: WorkerSums[]
  #completed = 0
  #rejected = 0
  #remotePrefills = 0

  constructor(workers: number) {
    this.#perWorker = Array.from({ length: workers }, () => ({
      requests: 0,
      prompt: 0,
      cached: 0,
      output: 0,
      queuedMs: 0,
      admitted: 0,
    }))
  }

  dispatched(worker: number, heldMs: number, arrivalMs: number): void {
    this.#perWorker[worker]!.requests++
    this.#held.push(heldMs)
    this.#heldArrivals.push(arrivalMs)
  }

  admitted(admission: Admission): void {
    const worker = this.#perWorker[admission.worker]!
    worker.prompt += admission.promptTokens
    worker.cached += admission.cachedTokens
    worker.queuedMs += admission.queuedMs
    worker.admitted++
    this.#admissions.push(admission)
  }

  handedOver(): void {
    this.#remotePrefills++
  }

  firstToken(ms: number, arrivalMs: number): void {
    this.#ttft.push(ms)
    this.#ttftArrivals.push(arrivalMs)
  }

  nextToken(ms: number): void {
    this.#itl.add(ms)
  }

  finished(worker: number, ms: number, outputTokens: number, reason: FinishReason): void {
    if (reason === 'rejected') this.#rejected++
    else {
      this.#completed++
      this.#e2e.push(ms)
      this.#perWorker[worker]!.output += outputTokens
    }
  }

  report(durationMs: number, engines: readonly EngineFacts[]): ReplayReport {
    const sum = (of: (worker: WorkerSums) => number): number =>
      this.#perWorker.reduce((total, worker) => total + of(worker), 0)
    const prompt = sum((worker) => worker.prompt)
    const output = sum((worker) => worker.output)
    const cached = sum((worker) => worker.cached)
    return {
      requests: this.#held.length,
      completed: this.#completed,
      rejected: this.#rejected,
      remote_prefills: this.#remotePrefills,
      duration_ms: durationMs,
      ttft_ms: spreadOf(this.#ttft),
      itl_ms: {
        mean: this.#itl.mean,
        p50: this.#itl.quantile(0.5),
        p90: this.#itl.quantile(0.9),
        p99: this.#itl.quantile(0.99),
      },
      e2e_ms: spreadOf(this.#e2e),
      held_ms: spreadOf(this.#held),
      queued_ms: spreadOf(this.#admissions.map(({ queuedMs }) => queuedMs)),
      reuse: prompt === 0 ? 0 : cached / prompt,
      prompt_tokens: prompt,
      cached_tokens: cached,
      prefill_tokens: prompt - cached,
      output_tokens: output,
      output_tokens_per_s: durationMs === 0 ? 0 : (output * 1000) / durationMs,
      imbalance: {
        requests: imbalanceOf(this.#perWorker.map(({ requests }) => requests)),
        prefill_tokens: imbalanceOf(this.#perWorker.map((worker) => worker.prompt - worker.cached)),
      },
      ttft_quantiles_ms: quantilesOf(this.#ttft),
      timeline: this.#timeline(),
      workers: this.#perWorker.map((worker, index) => ({
        requests: worker.requests,
        prompt_tokens: worker.prompt,
        cached_tokens: worker.cached,
        prefill_tokens: worker.prompt - worker.cached,
        output_tokens: worker.output,
        queued_ms_mean: worker.admitted === 0 ? 0 : worker.queuedMs / worker.admitted,
        passes: engines[index]!.passCount,
        preemptions: engines[index]!.scheduler.preemptionCount,
      })),
    }
  }

  #timeline(): TimelineEntry[] {
    const lastMs = [this.#ttftArrivals, this.#heldArrivals].reduce(
      (last, arrivals) => arrivals.reduce((most, arrivalMs) => Math.max(most, arrivalMs), last),
      0,
    )
    const stretchMs = lastMs / stretches || 1
    const stretchOf = (arrivalMs: number): number => Math.min(stretches - 1, Math.floor(arrivalMs / stretchMs))
    const sums = Array.from({ length: stretches }, () => ({
      firsts: 0,
      ttftMs: 0,
      held: 0,
      heldMs: 0,
      admitted: 0,
      queuedMs: 0,
      prompt: 0,
      cached: 0,
      prefill: new Float64Array(this.#perWorker.length),
    }))
    for (const [index, arrivalMs] of this.#ttftArrivals.entries()) {
      const into = sums[stretchOf(arrivalMs)]!
      into.firsts++
      into.ttftMs += this.#ttft[index]!
    }
    for (const [index, arrivalMs] of this.#heldArrivals.entries()) {
      const into = sums[stretchOf(arrivalMs)]!
      into.held++
      into.heldMs += this.#held[index]!
    }
    for (const { worker, arrivalMs, promptTokens, cachedTokens, queuedMs } of this.#admissions) {
      const into = sums[stretchOf(arrivalMs)]!
      into.admitted++
      into.queuedMs += queuedMs
      into.prompt += promptTokens
      into.cached += cachedTokens
      into.prefill[worker]! += promptTokens - cachedTokens
    }
    return sums.map((it, stretch) => ({
      start_ms: stretch * stretchMs,
      requests: it.firsts,
      ttft_ms_mean: share(it.ttftMs, it.firsts),
      held_ms_mean: share(it.heldMs, it.held),
      queued_ms_mean: share(it.queuedMs, it.admitted),
      reuse: share(it.cached, it.prompt),
      prefill_tokens: it.prompt - it.cached,
      imbalance: imbalanceOf([...it.prefill]),
    }))
  }
}

interface WorkerSums {
  requests: number
  prompt: number
  cached: number
  output: number
  queuedMs: number
  admitted: number
}

/** A request's first pass on the worker that computes its prompt. */
export interface Admission {
  readonly worker: number
  readonly arrivalMs: number
  readonly queuedMs: number
  readonly promptTokens: number
  readonly cachedTokens: number
}

const stretches = 60

function share(part: number, whole: number): number {
  return whole === 0 ? 0 : part / whole
}

function spreadOf(values: readonly number[]): Spread {
  const sorted = Float64Array.from(values).sort()
  let total = 0
  for (const value of sorted) total += value
  return {
    mean: sorted.length === 0 ? 0 : total / sorted.length,
    p50: quantileOf(sorted, 0.5),
    p90: quantileOf(sorted, 0.9),
    p99: quantileOf(sorted, 0.99),
  }
}

function quantilesOf(values: readonly number[]): number[] {
  const sorted = Float64Array.from(values).sort()
  return Array.from({ length: 101 }, (_, percent) => quantileOf(sorted, percent / 100))
}

function imbalanceOf(loads: readonly number[]): number {
  const total = loads.reduce((sum, load) => sum + load, 0)
  return total === 0 ? 1 : (Math.max(...loads) * loads.length) / total
}
