/**
 * Does the engine count as many tokens in a prompt as we do? Every answer that carries its usage says so, for as long as requests
 * flow: an engine that was given another template since shows here. One request may differ for reasons of its own (the engine
 * cut it short); most of the last ones do so only when the tokens are others.
 */

/** Requests that are judged together. */
const windowSize = 16
/** Fewer say nothing. */
const judgedMin = 4

export interface CountedCounts {
  readonly equal: number
  readonly different: number
}

export class CountedPrompts {
  readonly #isDifferent: boolean[] = []
  #equal = 0
  #different = 0
  #last: { readonly own: number; readonly engines: number } | undefined

  get counts(): CountedCounts {
    return { equal: this.#equal, different: this.#different }
  }

  compare(own: number, engines: number): void {
    const isDifferent = own !== engines
    if (isDifferent) {
      this.#different++
      this.#last = { own, engines }
    } else this.#equal++
    this.#isDifferent[(this.#equal + this.#different - 1) % windowSize] = isDifferent
  }

  /** Why the tokens cannot be the engine's, while that is so. */
  get trouble(): string | undefined {
    const judged = this.#isDifferent.length
    const differing = this.#isDifferent.filter(Boolean).length
    if (judged < judgedMin || differing * 2 <= judged) return undefined
    const { own, engines } = this.#last!
    return `of the last ${judged} prompts the engine counted ${differing} otherwise, the latest as ${engines} tokens where this tokenizer makes ${own}`
  }
}
