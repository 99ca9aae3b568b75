/** What every request handler of one gateway shares. */
import type { Tracer } from '@opentelemetry/api'
import type { BlockHasher } from '../core/hashing/index.js'
import type { BodyBudget } from './http/body-budget.js'
import type { BufferPool } from './http/buffer-pool.js'
import type { WarmrouteError } from '../core/protocol/index.js'
import type { Caller, Callers } from './http/callers.js'
import type { ErrorShape } from './http/error-body.js'
import type { ModelHub } from './model-hub.js'
import type { Deadlines, EndedRequest, HealthOptions, Limits, Log } from './options.js'
import type { DeadlineClock } from './request/deadlines.js'
import type { LoopTurns } from './request/loop-turns.js'
import type { Meters } from './telemetry/request-meters.js'
import type { Roster } from './roster.js'
import type { StageMeters } from './telemetry/stage-meters.js'

/** A request of a client that a worker answers. */
export interface UnderWay extends Caller {
  /** Among those under way. */
  seat: number
  /** The gateway closes: everything of this request ends in this turn of the loop. */
  giveUp(error: WarmrouteError): void
}

export interface GatewayContext {
  readonly hub: ModelHub
  readonly meters: Meters
  readonly stages: StageMeters
  readonly clock: DeadlineClock
  readonly turns: LoopTurns
  readonly callers: Callers
  readonly buffers: BufferPool
  readonly budget: BodyBudget
  readonly log: Log
  readonly tracer: Tracer | undefined
  readonly onEnded: ((ended: EndedRequest) => void) | undefined
  readonly now: () => number
  readonly random: () => number
  readonly hasher: BlockHasher
  readonly limits: Limits
  readonly deadlines: Deadlines
  readonly health: HealthOptions
  readonly isStrict: boolean
  readonly shape: ErrorShape
  readonly overloadStatus: number
  readonly usageSampleEvery: number
  readonly allowedEngineFields: ReadonlySet<string>
  readonly showsWorker: boolean
  readonly passesAuthorization: boolean
  /** Our name in `via`, by which a request that comes back is known. */
  readonly hop: string
  /** Requests under way; `close` walks them. */
  readonly running: Roster<'seat', UnderWay>
  /** Set when the gateway is about to end: whoever asks whether to send more is told no. */
  isEnding: boolean
  /** Set when the grace is over: no new work. */
  isDraining: boolean
  nextRequestId(): string
  /** Somebody is known and takes no requests yet; what it serves may be unknown. */
  awaitsWorkers(): boolean
  /** True for one stream in `usageSampleEvery`. */
  samplesUsage(): boolean
}
