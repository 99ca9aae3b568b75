/**
 * The floor of a trace: one cache that holds everything that ever arrived, and an engine for every request alone. No
 * router and no fleet does better; what is between it and a policy is queueing, crowded passes and lost cache.
 */
import { createTimer } from '../engine/timing.js'
import type { EngineOptions } from '../engine/engine.js'
import { BlockKeys } from './block-keys.js'
import { ReplayMeter } from './report.js'
import type { ReplayReport } from './report.js'
import type { TraceRequest } from './trace.js'

export function idealReplay(
  trace: readonly TraceRequest[],
  engine: EngineOptions,
  arrivalSpeedup: number,
  traceBlockTokens: number,
): ReplayReport {
  const keys = new BlockKeys(engine.blockTokens, traceBlockTokens)
  const cached = new Set<number>()
  const meter = new ReplayMeter(1)
  const timer = createTimer(engine.profile, engine.blocks * engine.blockTokens, engine)
  const ends = new Float64Array(trace.length)
  let passCount = 0
  let endMs = 0
  const pass = (): number => {
    passCount++
    return timer.take()
  }
  for (const [index, request] of trace.entries()) {
    const { promptTokens, outputTokens, follows } = request
    const own = request.arrivalMs / arrivalSpeedup
    const arrivalMs = follows ? Math.max(own, ends[follows.index]! + follows.delayMs / arrivalSpeedup) : own
    const blockKeys = keys.keysOf(request)
    let hits = 0
    const hitsMax = Math.floor((promptTokens - 1) / engine.blockTokens) // one token is always computed
    while (hits < hitsMax && cached.has(blockKeys[hits]!)) hits++
    for (const key of blockKeys) cached.add(key)
    let done = hits * engine.blockTokens
    meter.dispatched(0, 0)
    meter.admitted(0, promptTokens, done)
    let ms = 0
    while (done < promptTokens) {
      const tokens = Math.min(engine.batchedTokensMax, promptTokens - done)
      timer.prefill(tokens, done, done + tokens === promptTokens)
      ms += pass()
      done += tokens
    }
    meter.firstToken(ms, arrivalMs)
    for (let token = 1; token < outputTokens; token++) {
      timer.decode(promptTokens + token)
      const stepMs = pass()
      meter.nextToken(stepMs)
      ms += stepMs
    }
    meter.finished(0, ms, outputTokens, 'length')
    ends[index] = arrivalMs + ms
    endMs = Math.max(endMs, arrivalMs + ms)
  }
  return meter.report(endMs, [{ passCount, scheduler: { preemptionCount: 0 } }])
}
