/** The state of one rendering: what was written, which variables exist, and how much work is still allowed. */
import type { Value } from './values.js'

/** Rendering was stopped: it took too long or wrote too much. */
export class TemplateLimitError extends Error {
  override readonly name = 'TemplateLimitError'
  readonly limit: 'steps' | 'time' | 'output'
  constructor(limit: 'steps' | 'time' | 'output') {
    super(`the template exceeded its limit of ${limit}`)
    this.limit = limit
  }
}

export interface RunLimits {
  /** Statements and loop turns; long strings count as more. Infinity leaves only the deadline. */
  readonly stepsMax: number
  readonly outputMax: number
  /** Milliseconds by `now`. */
  readonly deadlineMs: number
}

const stepsPerLook = 1024

export class Run {
  /** What is written so far, of the innermost capture. */
  out = ''
  readonly #outputMax: number
  readonly #endsAt: number
  readonly #now: () => number
  #stepsLeft: number
  #untilLook = stepsPerLook

  constructor(limits: RunLimits, now: () => number) {
    this.#outputMax = limits.outputMax
    this.#stepsLeft = limits.stepsMax
    this.#endsAt = now() + limits.deadlineMs
    this.#now = now
  }

  write(text: string): void {
    this.out += text
    if (this.out.length > this.#outputMax) throw new TemplateLimitError('output')
  }

  /** Counts work; every expression that can be slow says how slow. */
  step(cost = 1): void {
    this.#stepsLeft -= cost
    if (this.#stepsLeft < 0) throw new TemplateLimitError('steps')
    this.#untilLook -= cost
    if (this.#untilLook > 0) return
    this.#untilLook = stepsPerLook
    if (this.#now() > this.#endsAt) throw new TemplateLimitError('time')
  }
}

/** Variables by name. A scope ends with the loop turn, macro or block that opened it. */
export class Scope {
  readonly #parent: Scope | undefined
  readonly #values = new Map<string, Value>()

  constructor(parent?: Scope) {
    this.#parent = parent
  }

  get(name: string): Value {
    const found = this.#values.get(name)
    if (found !== undefined || this.#parent === undefined || this.#values.has(name)) return found
    return this.#parent.get(name)
  }

  set(name: string, value: Value): void {
    this.#values.set(name, value)
  }
}
