/**
 * Fault scripts: what goes wrong, when, for how long, how often. By seed, so that a failing run can be had again.
 * This file decides whether a fault strikes; the places where it hurts ask.
 */
import { z } from 'zod'
import { WarmrouteError } from '../../core/protocol/index.js'

export const faultKinds = [
  // Event frames
  'drop_events',
  'duplicate_events',
  'reorder_events',
  'delay_events',
  'late_events',
  'double_copies',
  // Event sockets
  'stall_events',
  'close_event_sockets',
  'foreign_publisher',
  'short_replay',
  'late_replay',
  // The engine
  'restart',
  'reset_cache',
  'wrong_tokenizer',
  'template_drift',
  'wrong_block_size',
  'wrong_rank',
  'clock_skew',
  // HTTP
  'hang_before_headers',
  'hang_mid_stream',
  'reset_mid_stream',
  'trickle',
  'status',
  'abort_streams',
  // The prefill half of a pair (vLLM)
  'transfer_missing_keys',
  'transfer_wrong_port',
  'slow_metrics',
] as const

export type FaultKind = (typeof faultKinds)[number]

const faultSchema = z.strictObject({
  fault: z.enum(faultKinds),
  /** Milliseconds after the script was given. */
  at_ms: z.number().min(0).default(0),
  /** How long it lasts; absent: until cleared. */
  for_ms: z.number().min(0).optional(),
  /** How often it strikes at most. */
  count: z.number().int().min(1).optional(),
  /** Share of the occasions on which it strikes. */
  share: z.number().min(0).max(1).default(1),
  /** Which engine of a fleet, and which of its ranks; absent: all. */
  worker: z.number().int().min(0).optional(),
  rank: z.number().int().min(0).optional(),
  /** `delay_events`, `trickle`, `slow_metrics`, `late_events` and `late_replay` (at most), `restart` (how long it is gone), `foreign_publisher` (between two batches). */
  ms: z.number().min(0).default(100),
  /** `status`: what is answered. `hang_mid_stream`, `reset_mid_stream`: after how many chunks. */
  status: z.number().int().min(400).max(599).default(503),
  after_chunks: z.number().int().min(0).default(1),
  /** `short_replay`: batches kept. `wrong_block_size`: tokens. `clock_skew`: seconds. */
  batches: z.number().int().min(0).default(1),
  tokens: z.number().int().min(1).default(8),
  seconds: z.number().default(3600),
  /** `foreign_publisher`: what it publishes under; absent: the engine's own topic. */
  topic: z.string().optional(),
})

/**
 * One thing that goes wrong, when and for how long (docs/reference/sim-faults.md).
 *
 * @example
 * import { type Fault, parseFaults, startSimEngine } from 'warmroute/sim'
 *
 * const faults: Fault[] = parseFaults([{ fault: 'restart', at_ms: 60_000, ms: 500 }])
 * const engine = await startSimEngine({ engine: 'sglang', faults })
 * await engine.close()
 */
export type Fault = z.output<typeof faultSchema>

export interface Armed {
  readonly fault: Fault
  readonly fromMs: number
  readonly untilMs: number
  strikes: number
}

/**
 * Reads a script: one fault or a list, as JSON.
 *
 * @example
 * import { parseFaults } from 'warmroute/sim'
 *
 * const [fault] = parseFaults({ fault: 'restart', at_ms: 2000, ms: 500 })
 * console.log(fault?.fault) // => restart
 */
export function parseFaults(value: unknown): Fault[] {
  const result = z.array(faultSchema).safeParse(Array.isArray(value) ? value : [value])
  if (result.success) return result.data
  throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: `fault script: ${z.prettifyError(result.error)}` })
}

/** At most so many faults are remembered: a script that is posted again and again does not grow without end. */
const armedMax = 1000

export class Faults {
  readonly #now: () => number
  readonly #worker: number
  #armed: Armed[] = []
  #state: number

  constructor(now: () => number, seed: number, worker: number) {
    this.#now = now
    this.#state = seed >>> 0
    this.#worker = worker
  }

  /** Arms a script from now on. Faults that are not a matter of occasions (`restart`, sockets) are answered with their times. */
  arm(faults: readonly Fault[]): Armed[] {
    const now = this.#now()
    const armed = faults
      .filter(({ worker }) => worker === undefined || worker === this.#worker)
      .map((fault) => ({
        fault,
        fromMs: now + fault.at_ms,
        untilMs: fault.for_ms === undefined ? Number.POSITIVE_INFINITY : now + fault.at_ms + fault.for_ms,
        strikes: 0,
      }))
    this.#armed = [...this.#armed.filter(({ untilMs }) => untilMs > now), ...armed].slice(-armedMax)
    return armed
  }

  clear(): void {
    this.#armed = []
  }

  list(): { fault: Fault; strikes: number }[] {
    return this.#armed.map(({ fault, strikes }) => ({ fault, strikes }))
  }

  /** Whether a fault that has a time instead of occasions comes to pass; counted if so. */
  begins(armed: Armed): boolean {
    if (armed.fault.share < 1 && this.#draw() >= armed.fault.share) return false
    armed.strikes++
    return true
  }

  /** Whether a fault of this kind strikes at this occasion; counted if so. */
  strike(kind: FaultKind, rank?: number): Fault | undefined {
    if (this.#armed.length === 0) return undefined
    const now = this.#now()
    for (const armed of this.#armed) {
      const { fault } = armed
      if (fault.fault !== kind || now < armed.fromMs || now >= armed.untilMs) continue
      if (fault.rank !== undefined && rank !== undefined && fault.rank !== rank) continue
      if (fault.count !== undefined && armed.strikes >= fault.count) continue
      if (fault.share < 1 && this.#draw() >= fault.share) continue
      armed.strikes++
      return fault
    }
    return undefined
  }

  /** A part of `ms`, by seed. */
  drawn(fault: Fault): number {
    return fault.ms * this.#draw()
  }

  /** xorshift: enough for "one in ten", and the same on every machine. */
  #draw(): number {
    let state = this.#state || 0x9e3779b9
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    this.#state = state >>> 0
    return this.#state / 4294967296
  }
}
