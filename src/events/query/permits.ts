/** At most so many questions at a time; the others wait in line. A permit given back goes to the one that waited longest. */
export class Permits {
  readonly #waiting: (() => void)[] = []
  #free: number

  constructor(count = 16) {
    this.#free = count
  }

  /** Runs now, or when a permit is free. Answers how to give it back, or to leave the line. Both are safe to repeat. */
  take(run: () => void): () => void {
    let state: 'waiting' | 'running' | 'done' = 'waiting'
    const start = () => {
      state = 'running'
      run()
    }
    if (this.#free > 0) {
      this.#free--
      start()
    } else this.#waiting.push(start)
    return () => {
      if (state === 'running') this.#giveBack()
      else if (state === 'waiting') this.#waiting.splice(this.#waiting.indexOf(start), 1)
      state = 'done'
    }
  }

  get waiting(): number {
    return this.#waiting.length
  }

  #giveBack(): void {
    const next = this.#waiting.shift()
    if (next) next()
    else this.#free++
  }
}
