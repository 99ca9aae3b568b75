/**
 * Late binding: a request stays here until its best worker is about to be free, because in an engine's queue it could no
 * longer be placed better. A look goes over the front of those who are held, prices each as if it came now, and lets go
 * whoever would not wait long. Needs a model of durations.
 */
import type { FleetModel } from '../load/index.js'
import type { MatchColumns, WorkerTable } from '../protocol/index.js'
import type { PolicyClass, QueueRejection } from '../queue/index.js'
import { HeldClasses } from '../queue/index.js'
import type { ActiveSequences } from '../sequences/index.js'
import type { Moment } from './moment.js'
import type { ParkedRequest } from './parked-request.js'
import type { Outlook, Placer } from './placer.js'

export interface LateBindingOptions {
  readonly workers: WorkerTable
  readonly sequences: ActiveSequences
  readonly model: FleetModel
  readonly placer: Placer
  readonly classes: readonly PolicyClass[]
  readonly heldMax: number
}

/** What a look asks of the scheduler. */
export interface LookPort {
  /** What caches hold of its prompt by now; valid until the next call. */
  matchesOf(parked: ParkedRequest): MatchColumns
  /** False: its class must not send anything to busy ranks, and all are. */
  mayPlace(parked: ParkedRequest, moment: Moment): boolean
  /** It is no longer held: place it. */
  go(parked: ParkedRequest, moment: Moment): void
}

export class LateBinding {
  readonly #options: LateBindingOptions
  readonly #held: HeldClasses<ParkedRequest>
  /** Who came since the last look. */
  #fresh: ParkedRequest[] = []
  #lookedAtMs = 0

  constructor(options: LateBindingOptions) {
    this.#options = options
    this.#held = new HeldClasses(options.classes)
  }

  get size(): number {
    return this.#held.size
  }

  get islTokens(): number {
    return this.#held.islTokens
  }

  /** Everybody who is held, in the order of their coming. */
  [Symbol.iterator](): IterableIterator<ParkedRequest> {
    return this.#held[Symbol.iterator]()
  }

  /** Why nobody of this class may be held any more. */
  judge(classIndex: number): QueueRejection | undefined {
    const { classes, heldMax, workers } = this.#options
    const { size: current } = this.#held
    if (current >= heldMax)
      return { policyClass: classes[classIndex]!.name, limitKind: 'parked_requests', current, limit: heldMax }
    return this.#held.judge(classIndex, workers.workerCount)
  }

  hold(parked: ParkedRequest, classIndex: number, estimateMs: number, cachedTokens: number): void {
    const { promptTokens: islTokens, strictPriority = 0 } = parked.request
    const arrivedAtMs = parked.parkedAtMs
    this.#held.push({ payload: parked, classIndex, estimateMs, arrivedAtMs, strictPriority, islTokens, cachedTokens })
    this.#fresh.push(parked)
  }

  /** False: it is not held. */
  remove(parked: ParkedRequest): boolean {
    return this.#held.remove(parked)
  }

  /** One look over the front of the held: whoever's best worker is about to be free goes there. */
  look(moment: Moment, port: LookPort): void {
    const fresh = this.#fresh
    if (fresh.length > 0) this.#fresh = []
    this.#lookedAtMs = moment.nowMs
    if (this.#held.size === 0) return
    if (this.#isAnybodyFree(moment.nowMs)) this.#lookAtFront(moment, port)
    this.#lookAtFresh(fresh, moment, port)
    this.#options.placer.forgetHeld()
  }

  #lookAtFront(moment: Moment, port: LookPort): void {
    const { nowMs } = moment
    const { placer, workers } = this.#options
    const looks = this.#held.look(lookCount, workers.servedCount)
    for (let parked = looks.next(); parked; parked = looks.next()) {
      const outlook = placer.outlook(parked.request, port.matchesOf(parked), nowMs)
      if (outlook && !(this.#mayLeave(outlook) && port.mayPlace(parked, moment))) {
        placer.holdFor(outlook.rank, outlook.ownMs)
        continue
      }
      looks.leaves()
      this.#held.remove(parked)
      port.go(parked, moment)
      if (!this.#isAnybodyFree(nowMs)) break // loads change only when somebody goes
    }
  }

  /** A burst with one long beginning: once the first of it has gone, there is little left to compute for the others. */
  #lookAtFresh(fresh: readonly ParkedRequest[], moment: Moment, port: LookPort): void {
    const { placer } = this.#options
    for (let at = 0; at < fresh.length && at < lookCount; at++) {
      const parked = fresh[at]!
      if (parked.state !== 'waiting') continue
      const outlook = placer.outlook(parked.request, port.matchesOf(parked), moment.nowMs)
      if (!outlook || !this.isLittle(outlook) || !port.mayPlace(parked, moment)) continue
      this.#held.remove(parked)
      port.go(parked, moment)
    }
  }

  /** No more than a few empty passes: it goes with whatever is computed next, and delays nobody by much. */
  isLittle(outlook: Outlook): boolean {
    return outlook.ownMs <= littlePasses * this.#options.model.coefficients.base
  }

  #mayLeave(outlook: Outlook): boolean {
    const { waitMs, ownMs } = outlook
    return waitMs <= aboutFreeMs || waitMs + ownMs <= shortMs || this.isLittle(outlook)
  }

  /** When a held request may be able to go by the mere passing of time; undefined where only a change can let it go. */
  nextWakeMs(nowMs: number): number | undefined {
    if (this.#held.size === 0) return undefined
    if (this.#fresh.length > 0) return nowMs
    const { sequences, workers } = this.#options
    const { served, servedCount } = workers
    const sinceMs = Math.min(this.#lookedAtMs, nowMs) // what has come about free after that was not seen yet
    let earliest = Number.POSITIVE_INFINITY
    for (let row = 0; row < servedCount; row++) {
      const rank = served[row]!
      // Time lets the oldest prefill of a rank end, and no other: behind it everybody waits for its mark.
      const lowest = Math.max(aboutFreeMs, sequences.prefillWaitMs(rank, Number.POSITIVE_INFINITY))
      const fallsBy = sequences.prefillWaitMs(rank, sinceMs) - lowest
      if (fallsBy > 0 && lowest <= shortMs) earliest = Math.min(earliest, sinceMs + fallsBy)
    }
    return earliest === Number.POSITIVE_INFINITY ? undefined : Math.max(earliest, nowMs + 1)
  }

  /** False: whoever is looked at would have to stay. Costs far less than looking. */
  #isAnybodyFree(nowMs: number): boolean {
    const { sequences, workers } = this.#options
    const { served, servedCount } = workers
    for (let row = 0; row < servedCount; row++) if (sequences.prefillWaitMs(served[row]!, nowMs) <= shortMs) return true
    return servedCount === 0
  }
}

/** A worker with less prefill than this left is about to be free. */
const aboutFreeMs = 15
/** What is booked and this together: short enough to wait behind, and engines batch short prompts well. */
const shortMs = 120
/** Times an empty pass: what costs no more is never held. */
const littlePasses = 2
/** Held requests that are priced in one look: 64 lookups stay far below a millisecond. */
const lookCount = 64
