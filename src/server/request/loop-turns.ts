/**
 * Shares the event loop between requests that arrive together. Reading, hashing and booking a request is done in one go;
 * forty that become readable in the same turn of the loop would hold up every stream, timer and health check for as long
 * as all of them take. Past a millisecond of one turn the others wait for the next, and a request that takes several
 * is served a stage at a time.
 */
import { ownTurn } from '../steps.js'

const budgetMsDefault = 1
/** One request alone takes a tenth of this, and more only where it is long, or where its code runs for the first time. */
const lateMs = 2
/** Looks for time that is left, per turn: one call each, and what it lets go runs before the next. */
const stepsMax = 32

export class LoopTurns {
  readonly #now: () => number
  readonly #budgetMs: number
  readonly #waiting: (() => void)[] = []
  #first = 0 // of those who wait
  #isTurn = false
  #startedMs = 0

  constructor(now: () => number, budgetMs: number = budgetMsDefault) {
    this.#now = now
    this.#budgetMs = budgetMs
  }

  get waitingCount(): number {
    return this.#waiting.length - this.#first
  }

  /** `undefined`: go on at once. Otherwise it settles in a later turn; first come, first served. */
  enter(): Promise<void> | undefined {
    const now = this.#now()
    if (!this.#isTurn) this.#begin(now)
    return this.waitingCount === 0 && now - this.#startedMs < this.#budgetMs ? undefined : this.#wait()
  }

  /** Between two stages of a request. `undefined`: go on at once, since there is time, or nothing is known of this turn. */
  rest(): Promise<void> | undefined {
    const now = this.#now()
    if (!this.#isTurn) this.#begin(now)
    return now - this.#startedMs < lateMs ? undefined : this.#wait()
  }

  /** For a stage that is known to be long. */
  async ownTurn(): Promise<void> {
    await ownTurn()
    if (!this.#isTurn) this.#begin(this.#now())
  }

  #wait(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  #begin(now: number): void {
    this.#isTurn = true
    this.#startedMs = now
    setImmediate(this.#endTurn)
  }

  /** Immediates that are set now run in the next turn, one by one, each with all that follows from it. */
  readonly #endTurn = (): void => {
    const steps = Math.min(stepsMax, this.waitingCount)
    this.#isTurn = steps > 0
    for (let step = 0; step < steps; step++) setImmediate(this.#step, step === 0, step === steps - 1)
  }

  readonly #step = (isFirst: boolean, isLast: boolean): void => {
    const now = this.#now()
    if (isFirst) this.#startedMs = now
    if (now - this.#startedMs < this.#budgetMs) this.#letGo()
    if (isLast) this.#endTurn()
  }

  #letGo(): void {
    this.#waiting[this.#first++]?.()
    if (this.#first < this.#waiting.length) return
    this.#waiting.length = 0
    this.#first = 0
  }
}
