/** What one machine can replay. More is refused before it starts: it would fill the memory, or not end while somebody waits. */
import { WarmrouteError } from '../../core/protocol/index.js'
import type { EngineOptions } from '../engine/engine.js'
import type { TraceRequest } from './trace.js'

export interface ExperimentSize {
  readonly workers: number
  readonly routers: number
  readonly arrivalSpeedup: number
  readonly smoothMs: number
  readonly eventDelayMs: number
  readonly transferMsPerToken: number
  readonly slowFactor: number
}

const workersMax = 16_384
const routersMax = 256

/** Blocks of all workers, once for every router that knows of them: 50 to 80 bytes each, so a few gigabytes. */
const blocksMax = 2 ** 26

/** 279 years. Beyond it a virtual clock no longer tells microseconds apart. */
const timeMsMax = 2 ** 43

/** Throws `WR_INVALID_ARGUMENT` with what is too much, and how much there may be. */
export function judgeSize(trace: readonly TraceRequest[], engine: EngineOptions, size: ExperimentSize): void {
  const { workers, routers, arrivalSpeedup, slowFactor } = size
  if (workers > workersMax) refuse(`${workers} workers are too many: at most ${workersMax} are simulated`)
  if (routers > routersMax) refuse(`${routers} routers are too many: at most ${routersMax} are simulated`)
  const blocks = workers * engine.blocks * routers
  if (blocks > blocksMax)
    refuse(
      `${workers} workers of ${engine.blocks} blocks${routers > 1 ? `, known to ${routers} routers,` : ''} are ${blocks} blocks to keep: at most ${blocksMax} are`,
    )
  if (!(slowFactor >= 1e-6 && slowFactor <= 1e6)) refuse(`a worker that takes ${slowFactor} times as long is none`)
  let lastMs = 0
  let promptTokensMax = 0
  for (const { arrivalMs, follows, promptTokens } of trace) {
    lastMs = Math.max(lastMs, (arrivalMs + (follows?.delayMs ?? 0)) / arrivalSpeedup)
    promptTokensMax = Math.max(promptTokensMax, promptTokens)
  }
  judgeTime('the last arrival, by its time and the speed-up,', lastMs)
  judgeTime('smoothing', size.smoothMs / arrivalSpeedup)
  judgeTime('the delay of events', size.eventDelayMs)
  judgeTime('the transfer of the longest prompt', promptTokensMax * size.transferMsPerToken)
}

/** How many tokens an engine answers: none where the prompt does not fit, and no more than its KV has room for. */
export function answerTokensOf({ promptTokens, outputTokens }: TraceRequest, engine: EngineOptions): number {
  if (Math.ceil(promptTokens / engine.blockTokens) > engine.blocks) return 0
  const room = engine.blocks * engine.blockTokens - promptTokens
  return Math.min(Math.max(1, outputTokens), room + 1) // the last token needs no KV; the first always comes
}

function judgeTime(what: string, ms: number): void {
  if (!(ms <= timeMsMax)) refuse(`${what} is at ${ms} ms: a replay reaches to ${timeMsMax} ms`)
}

function refuse(reason: string): never {
  throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason })
}
