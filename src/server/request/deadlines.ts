/**
 * Watches every running request with one timer: comments on silent streams, and the ways to run out of time. A
 * timer per request and per chunk would cost more than the chunk.
 */
import { WarmrouteError } from '../../core/protocol/index.js'
import type { Deadlines } from '../options.js'
import { Roster } from '../roster.js'

/** A request as the clock sees it. */
export interface Timed {
  /** When the client had sent all of it: neither a queue nor a second worker gets more time in all. */
  readonly countsFromMs: number
  /** 0 while it waits for a worker, which nobody is to blame for. */
  readonly dispatchedAtMs: number
  /** The engine is held back because the client does not read. */
  readonly isHeldUp?: boolean
  /** Last byte of this request. */
  readonly byteAtMs: number
  /** Last progress of its worker, whatever it was. */
  readonly workerProgressAtMs: number
  /** A whole answer is judged by its worker alone: nothing of it can arrive before its end. */
  readonly isStream: boolean
  /** When the client was last sent something, or began to wait. */
  readonly silentSinceMs: number
  /** A prefill's answer, or the first token after one, must be there by then. */
  readonly answerBeforeMs?: number | undefined
  /** The clock's own; begins as -1. */
  clockSeat: number
  comment(): void
  expire(error: WarmrouteError): void
}

export class DeadlineClock {
  readonly #deadlines: Deadlines
  readonly #keepAliveMs: number
  readonly #now: () => number
  /** The clock of the timers, whatever time the gateway is told. */
  readonly #timerNow: () => number
  readonly #periodMs: number
  /** A tick that is later than this was not late by work: the process stood still. */
  readonly #standstillMs: number
  readonly #silenceMsMax: number
  readonly #running = new Roster<'clockSeat', Timed>('clockSeat')
  #timer: NodeJS.Timeout | undefined
  #tickedAtMs = Number.NEGATIVE_INFINITY
  #tickedBeforeMs = Number.NEGATIVE_INFINITY
  /** By the clock of the timers. */
  #dueAtMs = 0
  /** When it last went on after a standstill. Nobody was heard before that, so that nobody was silent. */
  #wokeAtMs = Number.NEGATIVE_INFINITY
  #wokeBeforeMs = Number.NEGATIVE_INFINITY
  /**
   * Since then, by time in which it ran, somebody who was not heard between the last two standstills is silent. Standstills that
   * follow each other move it by their own length alone: under load that never ends nobody would ever be silent long enough.
   */
  #countsSinceMs = Number.NEGATIVE_INFINITY

  constructor(
    deadlines: Deadlines,
    keepAliveMs: number,
    now: () => number,
    timerNow: () => number = () => performance.now(),
  ) {
    this.#deadlines = deadlines
    this.#keepAliveMs = keepAliveMs
    this.#now = now
    this.#timerNow = timerNow
    this.#periodMs = this.#period()
    const silences = [deadlines.idleMs, deadlines.noProgressMs].filter((ms) => ms > 0)
    this.#silenceMsMax = Math.max(0, ...silences)
    this.#standstillMs = Math.max(this.#periodMs, Math.min(...silences) / 4)
  }

  get size(): number {
    return this.#running.size
  }

  /**
   * What arrives now cannot have waited for us since before this moment: the loop has turned since then. The tick before the
   * last, because after a standstill timers run first and sockets are read afterwards.
   */
  get awakeSinceMs(): number {
    return this.#tickedBeforeMs
  }

  add(timed: Timed): void {
    this.#running.add(timed)
    if (this.#timer) return
    this.#dueAtMs = this.#timerNow() + this.#periodMs
    this.#timer = setInterval(() => this.tick(), this.#periodMs).unref()
  }

  delete(timed: Timed): void {
    this.#running.delete(timed)
    if (this.#running.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  tick(): void {
    const now = this.#now()
    this.#tickedBeforeMs = this.#tickedAtMs
    this.#tickedAtMs = now
    const timerNow = this.#timerNow()
    const lateMs = timerNow - this.#dueAtMs
    if (lateMs > this.#standstillMs) this.#woke(now, lateMs)
    this.#dueAtMs = timerNow + this.#periodMs
    for (const timed of this.#running) {
      const error = this.#verdict(timed, now)
      if (error) timed.expire(error)
      else if (this.#isSilent(timed, now)) timed.comment()
    }
  }

  #woke(now: number, stoodMs: number): void {
    const ranMs = now - stoodMs - this.#wokeAtMs
    this.#countsSinceMs = ranMs > this.#silenceMsMax ? now : Math.min(now, this.#countsSinceMs + stoodMs)
    this.#wokeBeforeMs = this.#wokeAtMs
    this.#wokeAtMs = now
  }

  /** From when on somebody is silent who was last heard then. */
  #silentSince(heardAtMs: number): number {
    return Math.max(heardAtMs, heardAtMs < this.#wokeBeforeMs ? this.#countsSinceMs : this.#wokeAtMs)
  }

  #isSilent(timed: Timed, now: number): boolean {
    if (this.#keepAliveMs <= 0 || timed.isHeldUp) return false
    return now - timed.silentSinceMs >= this.#keepAliveMs
  }

  /**
   * Too long in all is nobody's fault; silence is the worker's, and another one may do better. It counts from when we could hear:
   * a machine that slept, or a process that was stopped, would otherwise blame every worker at once for its own silence.
   */
  #verdict(timed: Timed, now: number): WarmrouteError | undefined {
    const { totalMs, idleMs, noProgressMs } = this.#deadlines
    if (now - timed.countsFromMs > totalMs)
      return new WarmrouteError('WR_REQUEST_TIMEOUT', { reason: `not finished within ${totalMs} ms` })
    if (timed.dispatchedAtMs === 0) return undefined
    const heardMs = this.#silentSince(timed.byteAtMs)
    if (timed.isHeldUp)
      return noProgressMs > 0 && now - heardMs > noProgressMs
        ? new WarmrouteError('WR_REQUEST_TIMEOUT', { reason: `the client read nothing within ${noProgressMs} ms` })
        : undefined
    if (timed.answerBeforeMs !== undefined && now > this.#readBy(timed.answerBeforeMs))
      return silent(`no answer within ${Math.round(timed.answerBeforeMs - timed.dispatchedAtMs)} ms`)
    if (idleMs > 0 && timed.isStream && now - heardMs > idleMs) return silent(`no byte within ${idleMs} ms`)
    const moved = timed.isStream ? Math.max(timed.byteAtMs, timed.workerProgressAtMs) : timed.workerProgressAtMs
    if (noProgressMs > 0 && now - this.#silentSince(Math.max(moved, timed.dispatchedAtMs)) > noProgressMs)
      return silent(`no progress within ${noProgressMs} ms`)
    return undefined
  }

  /** What came during a standstill is read behind the tick that ends it. */
  #readBy(dueMs: number): number {
    return dueMs < this.#wokeBeforeMs ? dueMs : Math.max(dueMs, this.#wokeAtMs + this.#periodMs)
  }

  /** A quarter of the shortest limit, within 10 ms and 1 s. */
  #period(): number {
    const { totalMs, idleMs, noProgressMs, prefillMs, transferMs } = this.#deadlines
    const limits = [totalMs, idleMs, noProgressMs, prefillMs, transferMs, this.#keepAliveMs].filter((ms) => ms > 0)
    return Math.min(1_000, Math.max(10, Math.min(...limits) / 4))
  }
}

function silent(reason: string): WarmrouteError {
  return new WarmrouteError('WR_ENGINE_TIMEOUT', { reason })
}
