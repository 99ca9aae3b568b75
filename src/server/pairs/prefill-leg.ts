/**
 * One prefill sent to one worker: from its booking to its answer, its failure or its abort, whichever comes first. The
 * guard of the booking ends and the worker is left on every path; what was answered is bounded.
 */
import { WarmrouteError } from '../../core/protocol/index.js'
import type { GuardEnd, RequestGuard, RouteAnswer } from '../../routing/index.js'
import type { Deadlines } from '../options.js'
import type { DeadlineClock, Timed } from '../request/deadlines.js'
import type { AnswerHandlers, EngineRequest } from '../wire/engine-connection.js'
import type { EngineCall } from '../wire/engine-link.js'
import type { ResponseHead } from '../wire/response-head.js'
import type { Fleet } from '../workers/fleet.js'
import type { Worker } from '../workers/worker.js'

export interface PrefillAnswer {
  readonly head: ResponseHead
  readonly body: Buffer
  readonly atMs: number
  /** The worker cannot have ended it before this, however long the answer waited for us. */
  readonly notBeforeMs: number
}

export interface PrefillLegOptions {
  /** Of its booking. */
  readonly guard: RequestGuard
  readonly fleet: Fleet
  readonly choice: RouteAnswer
  readonly clock: DeadlineClock
  readonly deadlines: Deadlines
  readonly now: () => number
  /** From when the time of the whole request counts. */
  readonly countsFromMs: number
  /** It went to a connected socket. */
  readonly onSent?: (() => void) | undefined
}

const answerBytesMax = 16 * 1024 * 1024

export class PrefillLeg implements AnswerHandlers, Timed {
  readonly worker: Worker
  readonly choice: RouteAnswer
  readonly isStream = false
  readonly dispatchedAtMs: number
  readonly countsFromMs: number
  readonly answerBeforeMs: number | undefined
  /** No client listens to it. */
  readonly silentSinceMs = Number.POSITIVE_INFINITY
  byteAtMs: number
  clockSeat = -1
  readonly #options: PrefillLegOptions
  readonly #parts: Buffer[] = []
  readonly #answered: Promise<PrefillAnswer>
  #resolve: (answer: PrefillAnswer) => void = () => {}
  #reject: (error: WarmrouteError) => void = () => {}
  #call: EngineCall | undefined
  #head: ResponseHead | undefined
  #size = 0
  #isOver = false
  #isGivenUp = false

  /** Takes over the booking of `choice`. Throws `WR_ENGINE_UNREACHABLE` when the worker left in between. */
  constructor(options: PrefillLegOptions) {
    const { fleet, choice, now, deadlines } = options
    const worker = fleet.get(choice.workerId)
    if (!worker) {
      options.guard.end('failed')
      throw new WarmrouteError('WR_ENGINE_UNREACHABLE', { reason: 'the worker just left' })
    }
    this.#options = options
    this.worker = worker
    this.choice = choice
    this.dispatchedAtMs = this.byteAtMs = now()
    this.countsFromMs = options.countsFromMs
    this.answerBeforeMs = deadlines.prefillMs > 0 ? this.dispatchedAtMs + deadlines.prefillMs : undefined
    this.#answered = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
    this.#answered.catch(() => undefined) // whoever aborted it may not be waiting any more
  }

  get isOver(): boolean {
    return this.#isOver
  }

  get workerProgressAtMs(): number {
    return this.worker.progressAtMs
  }

  /** Sends; the answer, or why there is none. */
  send(request: EngineRequest): Promise<PrefillAnswer> {
    if (this.#isOver) return this.#answered
    this.worker.enter()
    this.#options.clock.add(this)
    this.#options.guard.dispatched()
    this.#call = this.worker.link.call(request, this)
    return this.#answered
  }

  /** It ended because we wanted it to: the worker is not to blame. */
  get isGivenUp(): boolean {
    return this.#isGivenUp
  }

  /** In this turn of the loop; the engine sees the connection close. */
  giveUp(error: WarmrouteError): void {
    if (!this.#isOver) this.#isGivenUp = true
    this.#abort(error)
  }

  #abort(error: WarmrouteError): void {
    if (this.#isOver) return
    this.#call?.abort()
    this.#end(this.#isGivenUp ? 'stopped' : 'failed', () => this.#reject(error))
  }

  expire(error: WarmrouteError): void {
    this.#abort(error)
  }

  comment(): void {}

  onSent(): void {
    this.#options.onSent?.()
  }

  onHead(head: ResponseHead): void {
    this.#moved()
    this.#head = head
  }

  onData(buffer: Buffer, ranges: readonly number[]): void {
    this.#moved()
    for (let at = 0; at < ranges.length; at += 2) {
      const part = buffer.subarray(ranges[at], ranges[at + 1])
      this.#size += part.length
      this.#parts.push(part)
    }
    if (this.#size > answerBytesMax)
      this.#abort(new WarmrouteError('WR_ENGINE_PROTOCOL', { reason: 'the answer of the prefill is too large' }))
  }

  onEnd(): void {
    const body = this.#parts.length === 1 ? this.#parts[0]! : Buffer.concat(this.#parts)
    const { now, clock } = this.#options
    const notBeforeMs = Math.max(this.dispatchedAtMs, clock.awakeSinceMs)
    const answer = { head: this.#head!, body, atMs: now(), notBeforeMs }
    const hasToken = this.#head!.status < 400
    if (hasToken) this.#options.guard.item(1) // it was asked for one
    this.#end(hasToken ? 'completed' : 'failed', () => this.#resolve(answer))
  }

  onError(error: WarmrouteError): void {
    this.#end('failed', () => this.#reject(error))
  }

  #moved(): void {
    this.byteAtMs = this.worker.progressAtMs = this.#options.now()
  }

  #end(end: GuardEnd, settle: () => void): void {
    if (this.#isOver) return
    this.#isOver = true
    const { clock, guard } = this.#options
    clock.delete(this)
    guard.end(end)
    if (this.#call) this.worker.leave()
    settle()
  }
}
