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
  readonly output_tokens: number
  readonly passes: number
  readonly preemptions: number
}

/** How the requests of one stretch of the trace fared; a stretch is a sixtieth of the time in which they arrived. */
export interface TimelineEntry {
  readonly start_ms: number
  readonly requests: number
  readonly ttft_ms_mean: number
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
  readonly #itl = new LogHistogram()
  readonly #perWorker: { requests: number; prompt: number; cached: number; output: number }[]
  #completed = 0
  #rejected = 0
  #remotePrefills = 0

  constructor(workers: number) {
    this.#perWorker = Array.from({ length: workers }, () => ({ requests: 0, prompt: 0, cached: 0, output: 0 }))
  }

  dispatched(worker: number, heldMs: number): void {
    this.#perWorker[worker]!.requests++
    this.#held.push(heldMs)
  }

  admitted(worker: number, promptTokens: number, cachedTokens: number): void {
    this.#perWorker[worker]!.prompt += promptTokens
    this.#perWorker[worker]!.cached += cachedTokens
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
    const sum = (of: (worker: { prompt: number; cached: number; output: number }) => number): number =>
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
      timeline: timelineOf(this.#ttftArrivals, this.#ttft),
      workers: this.#perWorker.map((worker, index) => ({
        requests: worker.requests,
        prompt_tokens: worker.prompt,
        cached_tokens: worker.cached,
        output_tokens: worker.output,
        passes: engines[index]!.passCount,
        preemptions: engines[index]!.scheduler.preemptionCount,
      })),
    }
  }
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

const stretches = 60

function timelineOf(arrivals: readonly number[], ttft: readonly number[]): TimelineEntry[] {
  let lastMs = 0
  for (const arrivalMs of arrivals) lastMs = Math.max(lastMs, arrivalMs)
  const stretchMs = lastMs / stretches || 1
  const counts = new Uint32Array(stretches)
  const sums = new Float64Array(stretches)
  for (const [index, arrivalMs] of arrivals.entries()) {
    const stretch = Math.min(stretches - 1, Math.floor(arrivalMs / stretchMs))
    counts[stretch]!++
    sums[stretch]! += ttft[index]!
  }
  return Array.from(counts, (requests, stretch) => ({
    start_ms: stretch * stretchMs,
    requests,
    ttft_ms_mean: requests === 0 ? 0 : sums[stretch]! / requests,
  }))
}
