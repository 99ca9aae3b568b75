/** A scheduler on a clock: passes follow each other for as long as there is work, and stand still otherwise. */
import type { Clock } from '../clock.js'
import type { EngineRequest } from './request.js'
import { Scheduler } from './scheduler.js'
import type { SchedulerListener, SchedulerOptions } from './scheduler.js'
import { createTimer, dynamoProfile } from './timing.js'
import type { SpeedOptions, TimingProfile } from './timing.js'

/**
 * A simulated engine: how much it holds, how many requests it runs, how fast it is.
 *
 * @example
 * import { dynamoEngine, type EngineOptions, timingProfiles } from 'warmroute/sim'
 *
 * const options: EngineOptions = { ...dynamoEngine, profile: timingProfiles['dynamo']! }
 */
export interface EngineOptions extends SchedulerOptions, SpeedOptions {
  readonly profile: TimingProfile
}

/**
 * Dynamo's simulator as it comes: what the recorded replays were made with.
 *
 * @example
 * import { dynamoEngine } from 'warmroute/sim'
 *
 * const smaller = { ...dynamoEngine, blocks: 1024 }
 * console.log(smaller.blocks) // => 1024
 */
export const dynamoEngine: EngineOptions = {
  profile: dynamoProfile,
  speedup: 1,
  decodeSpeedup: 1,
  blocks: 16384,
  blockTokens: 64,
  sequencesMax: 256,
  batchedTokensMax: 8192,
  modelTokensMax: Number.POSITIVE_INFINITY,
  isPrefixCaching: true,
  isChunkedPrefill: true,
  watermark: 0,
  preemption: 'lifo',
  copies: 'first-and-last',
  emptied: 'head',
  evicts: 'block',
  visible: 'scheduled',
  hostBlocks: 0,
  hostLoadMs: 0.05,
}

/** Told after the tokens of a pass are out: SGLang publishes here. */
export interface EngineListener<Tag> extends SchedulerListener<Tag> {
  delivered?(): void
  /** No work is left. */
  idle?(): void
}

export class Engine<Tag> {
  readonly scheduler: Scheduler<Tag>
  readonly #clock: Clock
  readonly #listener: EngineListener<Tag>
  #isAwake = false
  #isStopped = false
  #isPaused = false
  #passCount = 0
  #passEndMs = 0

  constructor(options: EngineOptions, clock: Clock, listener: EngineListener<Tag>) {
    const timer = createTimer(options.profile, options.blocks * options.blockTokens, options)
    this.scheduler = new Scheduler(options, timer, listener)
    this.#clock = clock
    this.#listener = listener
  }

  get passCount(): number {
    return this.#passCount
  }

  submit(request: EngineRequest<Tag>): void {
    this.scheduler.enqueue(request)
    this.wake()
  }

  abort(request: EngineRequest<Tag>): void {
    this.scheduler.abort(request)
    this.wake()
  }

  release(request: EngineRequest<Tag>): void {
    this.scheduler.release(request)
    this.wake()
  }

  /** No further pass begins; the current one never ends. For an engine that crashes. */
  stop(): void {
    this.#isStopped = true
  }

  /** The current pass ends; no further one begins until it goes on. */
  pause(isPaused: boolean): void {
    this.#isPaused = isPaused
    if (!isPaused) this.wake()
  }

  /** Starts a pass at this instant, after everything else that happens in it. */
  wake(): void {
    if (this.#isAwake || this.#isStopped || this.#isPaused) return
    this.#isAwake = true
    this.#passEndMs = this.#clock.now()
    this.#clock.at(this.#passEndMs, this.#begin, 1)
  }

  readonly #begin = (): void => {
    if (this.#isStopped) return
    const ms = this.#isPaused ? -1 : this.scheduler.beginPass()
    if (ms < 0) {
      this.#isAwake = false
      this.#listener.idle?.()
      return
    }
    this.#passCount++
    // Counted from when the last pass should have ended, so that a late timer is caught up with and not added.
    this.#passEndMs += ms
    this.#clock.at(this.#passEndMs, this.#end, 1)
  }

  readonly #end = (): void => {
    if (this.#isStopped) return
    this.scheduler.endPass()
    this.#listener.delivered?.()
    this.#begin()
  }
}
