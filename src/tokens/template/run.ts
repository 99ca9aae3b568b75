/** The state of one rendering: what was written, which variables exist, and how much work is still allowed. */
import type { Meter } from './meter.js'
import type { Turns } from './turns.js'
import type { Value } from './values.js'
import { Markup } from './values.js'

/** How a statement ends: with the next one, or by leaving a loop or its turn. */
export type Flow = typeof goesOn | typeof breaks | typeof continues
export const goesOn = 0
export const breaks = 1
export const continues = 2

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
const stepMs = 0.0002

export class Run implements Meter {
  /** What is written so far, of the innermost capture. */
  out = ''
  /** Length of what was written before `out`, where that is kept elsewhere; it counts towards the limit. */
  before = 0
  /** Turns of loops that an earlier rendering made, and those that this one makes. */
  readonly turns: Turns | undefined
  /** What the turn now rendered has read outside its loop, by the guard's place. */
  notes: Value[] | undefined
  readonly #outputMax: number
  readonly #endsAt: number
  readonly #now: () => number
  #stepsLeft: number
  #untilLook = stepsPerLook

  constructor(limits: RunLimits, now: () => number, turns?: Turns) {
    this.turns = turns
    this.#outputMax = limits.outputMax
    this.#stepsLeft = limits.stepsMax
    this.#endsAt = now() + limits.deadlineMs
    this.#now = now
  }

  write(text: string): void {
    this.out += text
    if (this.before + this.out.length > this.#outputMax) throw new TemplateLimitError('output')
  }

  /** A text or list that is made and not written counts alone: one that is joined to itself would soon fill the memory. */
  hold(made: Value): Value {
    if (typeof made === 'string' ? made.length > this.#outputMax : lengthOf(made) > this.#outputMax)
      throw new TemplateLimitError('output')
    return made
  }

  note(place: number, value: Value): Value {
    if (this.notes) this.notes[place] = value
    return value
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

  /** Work inside of a step: it counts for the clock alone. What takes long is not begun where there is no time for it. */
  spend(cost: number): void {
    this.#untilLook -= cost
    if (this.#untilLook > 0) return
    this.#untilLook = stepsPerLook
    const ahead = cost > stepsPerLook ? cost * stepMs : 0
    if (this.#now() + ahead > this.#endsAt) throw new TemplateLimitError('time')
  }
}

function lengthOf(value: Value): number {
  if (typeof value !== 'object') return 0
  return Array.isArray(value) ? value.length : value instanceof Markup ? value.text.length : 0
}

/** Numbers for the names that templates use: scopes are searched by number, and most hold two or three names. */
const numbers = new Map<string, number>()

export function numberOf(name: string): number {
  const known = numbers.get(name)
  if (known !== undefined) return known
  numbers.set(name, numbers.size)
  return numbers.size - 1
}

/** Variables. A scope ends with the loop turn, macro or block that opened it. */
export class Scope {
  readonly #parent: Scope | undefined
  readonly #names: number[] = []
  readonly #values: Value[] = []

  constructor(parent?: Scope) {
    this.#parent = parent
  }

  get(name: number): Value {
    for (let index = 0; index < this.#names.length; index++) if (this.#names[index] === name) return this.#values[index]
    return this.#parent?.get(name)
  }

  set(name: number, value: Value): void {
    const at = this.#names.indexOf(name)
    if (at >= 0) this.#values[at] = value
    else {
      this.#names.push(name)
      this.#values.push(value)
    }
  }

  /** Sets a variable from outside. A name that no template has ever used cannot be read, and is not kept. */
  setNamed(name: string, value: Value): void {
    const number = numbers.get(name)
    if (number !== undefined) this.set(number, value)
  }

  clear(): void {
    this.#names.length = 0
    this.#values.length = 0
  }
}
