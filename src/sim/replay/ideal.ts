/**
 * The floor of a trace: one cache that holds everything that ever arrived, and an engine for every request alone. No
 * router and no fleet does better; what is between it and a policy is queueing, crowded passes and lost cache.
 */
import { createTimer } from '../engine/timing.js'
import type { EngineOptions } from '../engine/engine.js'
import { BlockKeys } from './block-keys.js'
import { answerTokensOf } from './limits.js'
import { ReplayMeter } from './report.js'
import type { ReplayReport } from './report.js'
import type { TraceRequest } from './trace.js'

/** Share of the prompt tokens that a cache would spare which holds everything that ever arrived. */
export function achievableReuse(trace: readonly TraceRequest[], blockTokens: number, traceBlockTokens: number): number {
  const cache = new EndlessCache(blockTokens, traceBlockTokens)
  let prompt = 0
  let spared = 0
  for (const request of trace) {
    prompt += request.promptTokens
    spared += cache.take(request)
  }
  return prompt === 0 ? 0 : spared / prompt
}

export function idealReplay(
  trace: readonly TraceRequest[],
  engine: EngineOptions,
  arrivalSpeedup: number,
  traceBlockTokens: number,
): ReplayReport {
  const cache = new EndlessCache(engine.blockTokens, traceBlockTokens)
  const meter = new ReplayMeter(1)
  const timer = createTimer(engine.profile, engine.blocks * engine.blockTokens, engine)
  const ends = new Float64Array(trace.length)
  let passCount = 0
  let endMs = 0
  const pass = (tokens: number): number => {
    passCount++
    return timer.take(Math.min(1, Math.ceil(tokens / engine.blockTokens) / engine.blocks))
  }
  for (const [index, request] of trace.entries()) {
    const { promptTokens, follows } = request
    const outputTokens = answerTokensOf(request, engine)
    const own = request.arrivalMs / arrivalSpeedup
    const arrivalMs = follows ? ends[follows.index]! + follows.delayMs / arrivalSpeedup : own
    meter.dispatched(0, 0, arrivalMs)
    if (outputTokens === 0) {
      meter.finished(0, 0, 0, 'rejected')
      ends[index] = arrivalMs
      continue
    }
    let done = cache.take(request)
    meter.admitted({ worker: 0, arrivalMs, queuedMs: 0, promptTokens, cachedTokens: done })
    let ms = 0
    while (done < promptTokens) {
      const tokens = Math.min(engine.batchedTokensMax, promptTokens - done)
      timer.prefill(tokens, done, done + tokens === promptTokens)
      done += tokens
      ms += pass(done)
    }
    meter.firstToken(ms, arrivalMs)
    for (let token = 1; token < outputTokens; token++) {
      timer.decode(promptTokens + token)
      const stepMs = pass(promptTokens + token)
      meter.nextToken(stepMs)
      ms += stepMs
    }
    meter.finished(0, ms, outputTokens, 'length')
    ends[index] = arrivalMs + ms
    endMs = Math.max(endMs, arrivalMs + ms)
  }
  return meter.report(endMs, [{ passCount, scheduler: { preemptionCount: 0 } }])
}

class EndlessCache {
  readonly #blockTokens: number
  readonly #keys: BlockKeys
  /** By trace block: how many of its leading blocks are there. */
  readonly #held: number[] = []

  constructor(blockTokens: number, traceBlockTokens: number) {
    this.#blockTokens = blockTokens
    this.#keys = new BlockKeys(blockTokens, traceBlockTokens)
  }

  /** How many leading tokens of a prompt are there; from now on all of it is. One token is always computed. */
  take(request: TraceRequest): number {
    const hitsMax = Math.floor((request.promptTokens - 1) / this.#blockTokens)
    let hits = 0
    this.#keys.walk(request, (node, start, end) => {
      const held = Math.min(this.#held[node] ?? 0, end - start)
      if (hits === start) hits += held
      if (held < end - start) this.#held[node] = end - start
    })
    return Math.min(hits, hitsMax) * this.#blockTokens
  }
}
