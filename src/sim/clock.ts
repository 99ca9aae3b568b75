/**
 * What time it is, and what happens later. The same engine runs on a virtual clock, where a trace of an hour takes a
 * second, and on the real one, where sockets wait for it.
 */
export interface Clock {
  /** Milliseconds; only differences mean anything. */
  now(): number
  /**
   * Runs `run` at `timeMs`, or as soon as possible if that is past. At equal times lower phases go first: arrivals are
   * phase 0, so that all requests of one instant are there before an engine (phase 1) starts its pass.
   */
  at(timeMs: number, run: () => void, phase?: number): void
}

/** Fires events in the order of their times; time stands still while an event runs. Equal events fire in order of insertion. */
export class VirtualClock implements Clock {
  #now = 0
  #times = new Float64Array(64)
  #orders = new Float64Array(64) // phase * 2^48 + insertion number: one comparison instead of two
  #runs: (() => void)[] = []
  #inserted = 0

  now(): number {
    return this.#now
  }

  get pending(): number {
    return this.#runs.length
  }

  /** When the next event fires; infinity when there is none. */
  get nextMs(): number {
    return this.#runs.length > 0 ? this.#times[0]! : Number.POSITIVE_INFINITY
  }

  at(timeMs: number, run: () => void, phase = 0): void {
    const size = this.#runs.length
    if (size === this.#times.length) this.#grow()
    this.#runs.push(run)
    this.#siftUp(size, Math.max(timeMs, this.#now), phase * 2 ** 48 + this.#inserted++, run)
  }

  /** Fires the next event; false when there is none. */
  step(): boolean {
    const runs = this.#runs
    if (runs.length === 0) return false
    const run = runs[0]!
    this.#now = this.#times[0]!
    const last = runs.length - 1
    const moved = runs.pop()!
    if (last > 0) this.#siftDown(last, this.#times[last]!, this.#orders[last]!, moved)
    run()
    return true
  }

  /** Fires everything up to and including `timeMs`, or everything there is. */
  run(untilMs = Number.POSITIVE_INFINITY): void {
    while (this.#runs.length > 0 && this.#times[0]! <= untilMs) this.step()
    if (untilMs !== Number.POSITIVE_INFINITY) this.#now = Math.max(this.#now, untilMs)
  }

  #siftUp(start: number, time: number, order: number, run: () => void): void {
    const times = this.#times
    const orders = this.#orders
    const runs = this.#runs
    let child = start
    while (child > 0) {
      const parent = (child - 1) >> 1
      if (times[parent]! < time || (times[parent]! === time && orders[parent]! < order)) break
      times[child] = times[parent]!
      orders[child] = orders[parent]!
      runs[child] = runs[parent]!
      child = parent
    }
    times[child] = time
    orders[child] = order
    runs[child] = run
  }

  #siftDown(size: number, time: number, order: number, run: () => void): void {
    const times = this.#times
    const orders = this.#orders
    const runs = this.#runs
    let parent = 0
    for (;;) {
      let child = 2 * parent + 1
      if (child >= size) break
      const right = child + 1
      if (
        right < size &&
        (times[right]! < times[child]! || (times[right]! === times[child]! && orders[right]! < orders[child]!))
      )
        child = right
      if (time < times[child]! || (time === times[child]! && order < orders[child]!)) break
      times[parent] = times[child]!
      orders[parent] = orders[child]!
      runs[parent] = runs[child]!
      parent = child
    }
    times[parent] = time
    orders[parent] = order
    runs[parent] = run
  }

  #grow(): void {
    this.#times = grown(this.#times)
    this.#orders = grown(this.#orders)
  }
}

function grown(column: Float64Array): Float64Array<ArrayBuffer> {
  const wider = new Float64Array(column.length * 2)
  wider.set(column)
  return wider
}
