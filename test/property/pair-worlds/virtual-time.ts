/**
 * The simulator's virtual world with this process's timers in it: a gateway and simulated engines live by one clock, a second
 * costs as much as what happens in it, and one seed is one run.
 */
import { VirtualWorld } from '../../../src/sim/index.js'

interface Timer {
  readonly everyMs: number | undefined
  readonly act: () => void
  isLive: boolean
}

type Globals = Pick<
  typeof globalThis,
  'setTimeout' | 'clearTimeout' | 'setInterval' | 'clearInterval' | 'setImmediate' | 'clearImmediate'
>

const { setTimeout, clearTimeout, setInterval, clearInterval, setImmediate, clearImmediate } = globalThis
const real: Globals = { setTimeout, clearTimeout, setInterval, clearInterval, setImmediate, clearImmediate }

export class VirtualTime extends VirtualWorld {
  /** What was put off to the next turn of the loop. */
  #turn: Set<Timer> = new Set()

  readonly now = (): number => this.clock.now()

  install(): void {
    const clear = (timer: unknown): void => {
      if (timer) (timer as Timer).isLive = false
    }
    Object.assign(globalThis, {
      setTimeout: (act: (...all: unknown[]) => void, ms = 0, ...all: unknown[]) =>
        this.#arm(
          newTimer(() => act(...all)),
          ms,
        ),
      setInterval: (act: (...all: unknown[]) => void, ms = 0, ...all: unknown[]) =>
        this.#arm(
          newTimer(() => act(...all), Math.max(1, ms)),
          ms,
        ),
      setImmediate: (act: (...all: unknown[]) => void, ...all: unknown[]) => {
        const timer = newTimer(() => act(...all))
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
  }

  override async settle(): Promise<void> {
    do {
      await super.settle()
      const turn = this.#turn
      this.#turn = new Set()
      for (const { isLive, act } of turn) if (isLive) act()
    } while (this.#turn.size > 0)
    await super.settle()
    if (this.#turn.size > 0) await this.settle()
  }

  /** Until then, or until `isOver` says so. */
  async run(untilMs: number, isOver: () => boolean = () => false): Promise<void> {
    await this.settle()
    while (!isOver() && this.clock.nextMs <= untilMs) {
      this.clock.step()
      await this.settle()
    }
    if (!isOver()) this.clock.run(untilMs)
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.clock.at(this.now() + Math.max(1, ms), resolve))
  }

  #arm(timer: Timer, ms: number): Timer {
    this.clock.at(this.now() + Math.max(1, ms), () => {
      if (!timer.isLive) return
      if (timer.everyMs !== undefined) this.#arm(timer, timer.everyMs)
      timer.act()
    })
    return timer
  }
}

/** With what Node's own handles have besides. */
function newTimer(act: () => void, everyMs?: number): Timer {
  const timer: Timer = { everyMs, act, isLive: true }
  return Object.assign(timer, { ref: () => timer, unref: () => timer, hasRef: () => true })
}
