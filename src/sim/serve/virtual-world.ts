/**
 * A world whose time passes only when nothing else can happen: a lease of half a minute costs as much as what happens in it.
 * Servers in it publish no events: those need sockets of the system.
 */
import { setImmediate } from 'node:timers'
import { VirtualClock } from '../clock.js'
import { MemoryNet } from './memory-net.js'
import type { SimWorld } from './sim-world.js'

interface Watcher {
  readonly isOver: () => boolean
  readonly resolve: () => void
  readonly reject: (error: Error) => void
}

export class VirtualWorld implements SimWorld {
  readonly clock: VirtualClock = new VirtualClock()
  readonly net: MemoryNet = new MemoryNet()
  /** Time passes while there are any: one loop for all of them. */
  readonly #watchers = new Set<Watcher>()
  #isDriving = false

  /** Lets time pass until `work` has ended. */
  async during<T>(work: Promise<T>): Promise<T> {
    let isOver = false
    const end = (): void => {
      isOver = true
    }
    work.then(end, end)
    await this.until(() => isOver)
    return work
  }

  /** Lets so much time pass. */
  async pass(ms: number): Promise<void> {
    let isOver = false
    this.clock.at(this.clock.now() + ms, () => {
      isOver = true
    })
    await this.until(() => isOver)
  }

  /** Lets time pass until it is so. Rejects when nothing can happen any more and it is not. */
  until(isSo: () => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#watchers.add({ isOver: isSo, resolve, reject })
      if (!this.#isDriving) void this.#drive()
    })
  }

  /** Whatever can happen without time passing has happened: streams hand on in ticks, and answer in the next turn. */
  async settle(): Promise<void> {
    for (let turn = 0; turn < 2; turn++) await new Promise<void>((resolve) => void setImmediate(resolve))
  }

  async #drive(): Promise<void> {
    this.#isDriving = true
    while (this.#watchers.size > 0) {
      await this.settle()
      const over = [...this.#watchers].filter(({ isOver }) => isOver())
      for (const watcher of over) this.#watchers.delete(watcher)
      for (const { resolve } of over) resolve()
      if (over.length > 0) continue // who waited for it goes on before time does
      if (!this.clock.step()) this.#giveUp()
    }
    this.#isDriving = false
  }

  #giveUp(): void {
    for (const { reject } of this.#watchers) reject(new Error('nothing can happen any more'))
    this.#watchers.clear()
  }
}
