/**
 * When a question to an engine is given up: after its time, or with a signal that lives longer than the question. Not AbortSignal.timeout
 * and any: those go on after the answer, each ends in an exception that nobody sees, and Node 20 keeps a note of every one at the other signal.
 */
export class Deadline {
  readonly #end = new AbortController()
  readonly #outer: AbortSignal | undefined
  readonly #timer: NodeJS.Timeout
  readonly #stop = (): void => this.#end.abort()
  #isLate = false

  constructor(ms: number, outer: AbortSignal | undefined) {
    this.#outer = outer
    this.#timer = setTimeout(() => {
      this.#isLate = true
      this.#stop()
    }, ms)
    this.#timer.unref()
    outer?.addEventListener('abort', this.#stop, { once: true })
    if (outer?.aborted) this.#stop()
  }

  get signal(): AbortSignal {
    return this.#end.signal
  }

  /** It was the time, and nobody's wish. */
  get isLate(): boolean {
    return this.#isLate
  }

  /** Nothing is waited for any more. */
  clear(): void {
    clearTimeout(this.#timer)
    this.#outer?.removeEventListener('abort', this.#stop)
  }
}
