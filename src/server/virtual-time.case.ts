/**
 * A loop whose time passes only when nothing else can happen, for tests: takes the place of this process's timers, so that a
 * second costs as much as what happens in it, and one seed is one run. Sockets must be those of `memory-net.case.ts`:
 * nothing here waits for the system.
 */

interface Timer {
  readonly order: number
  readonly everyMs: number | undefined
  readonly act: () => void
  atMs: number
}

type Globals = Pick<
  typeof globalThis,
  'setTimeout' | 'clearTimeout' | 'setInterval' | 'clearInterval' | 'setImmediate' | 'clearImmediate'
>

const { setTimeout, clearTimeout, setInterval, clearInterval, setImmediate, clearImmediate } = globalThis
const real: Globals = { setTimeout, clearTimeout, setInterval, clearInterval, setImmediate, clearImmediate }

export class VirtualTime {
  #nowMs = 0
  #order = 0
  readonly #timers = new Set<Timer>()
  #turn: Set<Timer> = new Set()

  readonly now = (): number => this.#nowMs

  get timerCount(): number {
    return this.#timers.size
  }

  install(): void {
    const clear = (timer: unknown): void => {
      this.#timers.delete(timer as Timer)
      this.#turn.delete(timer as Timer)
    }
    Object.assign(globalThis, {
      setTimeout: (act: (...all: unknown[]) => void, ms = 0, ...all: unknown[]) => this.#add(() => act(...all), ms),
      setInterval: (act: (...all: unknown[]) => void, ms = 0, ...all: unknown[]) =>
        this.#add(() => act(...all), ms, Math.max(1, ms)),
      setImmediate: (act: (...all: unknown[]) => void, ...all: unknown[]) => {
        const timer = this.#newTimer(() => act(...all), 0)
        this.#turn.add(timer)
        return timer
      },
      clearTimeout: clear,
      clearInterval: clear,
      clearImmediate: clear,
    })
  }

  uninstall(): void {
    Object.assign(globalThis, real)
    this.#timers.clear()
  }

  /** Whatever can happen without time passing has happened. */
  async settle(): Promise<void> {
    do {
      await new Promise<void>((resolve) => void real.setImmediate(resolve))
      const turn = this.#turn
      this.#turn = new Set()
      for (const timer of turn) {
        turn.delete(timer)
        timer.act()
      }
    } while (this.#turn.size > 0)
    await new Promise<void>((resolve) => void real.setImmediate(resolve))
    if (this.#turn.size > 0) await this.settle()
  }

  /** Until then, or until `isOver` says so. */
  async run(untilMs: number, isOver: () => boolean = () => false): Promise<void> {
    await this.settle()
    while (!isOver()) {
      const next = this.#next()
      if (!next || next.atMs > untilMs) break
      this.#nowMs = Math.max(this.#nowMs, next.atMs)
      if (next.everyMs === undefined) this.#timers.delete(next)
      else next.atMs += next.everyMs
      next.act()
      await this.settle()
    }
    if (!isOver()) this.#nowMs = Math.max(this.#nowMs, untilMs)
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#add(resolve, ms))
  }

  #next(): Timer | undefined {
    let next: Timer | undefined
    for (const timer of this.#timers)
      if (!next || timer.atMs < next.atMs || (timer.atMs === next.atMs && timer.order < next.order)) next = timer
    return next
  }

  #add(act: () => void, ms: number, everyMs?: number): Timer {
    const timer = this.#newTimer(act, ms, everyMs)
    this.#timers.add(timer)
    return timer
  }

  /** With what Node's own handles have besides. */
  #newTimer(act: () => void, ms: number, everyMs?: number): Timer {
    const timer = { order: this.#order++, everyMs, act, atMs: this.#nowMs + Math.max(1, ms) }
    return Object.assign(timer, { ref: () => timer, unref: () => timer, hasRef: () => true })
  }
}
