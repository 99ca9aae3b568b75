/**
 * Lets a bounded number of addresses be asked at once, of those that are not in yet: hundreds of answers in one turn would hold
 * the loop, and asking more at once than can be read makes nobody join sooner.
 */
export interface LookGateOptions {
  readonly insideMax: number
  /** A host that is silent keeps nobody waiting for longer: it makes room though it is still asked. */
  readonly holdMs: number
}

export class LookGate {
  readonly #options: LookGateOptions
  readonly #waiting: (() => void)[] = []
  #inside = 0

  constructor(options: LookGateOptions = { insideMax: 32, holdMs: 50 }) {
    this.#options = options
  }

  /** Settles when there is room, with the way to leave; safe to repeat. */
  async enter(): Promise<() => void> {
    const { insideMax, holdMs } = this.#options
    if (this.#inside < insideMax) this.#inside++
    else await new Promise<void>((resolve) => this.#waiting.push(resolve)) // in the place of who left
    let isInside = true
    const leave = (): void => {
      if (!isInside) return
      isInside = false
      clearTimeout(timer)
      const next = this.#waiting.shift()
      if (next) next()
      else this.#inside--
    }
    const timer = setTimeout(leave, holdMs)
    timer.unref()
    return leave
  }
}
