/**
 * Does an engine that is asked for tokens still give any? After a few failures in a row it does not, and nothing that depends on
 * its tokens may be called exact, until it gives some again. Pure: outcomes in, a reason out.
 */

/** Fewer are a hiccup. */
export const failuresMax = 3

/** Of these statuses the request may be to blame, and not the engine. */
export const refusals: ReadonlySet<number> = new Set([400, 413, 422])

export class EngineTrouble {
  #failures = 0
  #hasAnswered = false
  #last = ''

  /** Why there are no tokens; undefined while there are. */
  get reason(): string | undefined {
    return this.#failures < failuresMax ? undefined : this.#last
  }

  answered(): void {
    this.#hasAnswered = true
    this.#failures = 0
  }

  /** A refused request says little of an engine that has given tokens before: anyone may send what it must refuse. */
  refused(path: string, status: number): void {
    if (this.#hasAnswered && refusals.has(status)) return
    this.failed(`the engine answered ${status} to ${path}`)
  }

  failed(reason: string): void {
    this.#failures = Math.min(failuresMax, this.#failures + 1)
    this.#last = reason
  }
}
