/** What `/v1/responses` and `/v1/messages` become before anything is rendered: a chat, by the rules of the engine that gets them. */
import type { Value } from '../template/values.js'
import type { ThinkingSwitch } from './reasoning-parsers.js'
import type { Dialect } from './request.js'
import { LoadOnlyError } from './request.js'

/** Of an engine, as far as conversions depend on it. */
export interface EngineRules {
  readonly dialect: Dialect
  /** `--reasoning-parser` of an SGLang; null: it has none. Undefined: nobody knows. */
  readonly reasoningParser?: string | null | undefined
}

/** What engines ask of the chat template before they convert. Asked only where it matters. */
export interface TemplateHabits {
  /** Whether system messages stay where they stand, or all go to the beginning. */
  readonly takesLateSystem: (dialect: Dialect) => boolean
  /** The effort that stands for "no thinking" (vLLM): `none`, or `low` where the template makes nothing of it. */
  readonly effortOfNone: () => string
  /** How thinking is switched (SGLang). Undefined: the template does not show it, and the reasoning parser decides. */
  readonly thinkingSwitch: () => ThinkingSwitch | undefined
  /** Whether a low effort is said by an argument of its own, too (SGLang). */
  readonly hasLowEffort: () => boolean
  /** Whether thoughts are a field of their message (SGLang); else they begin its text, in the marks of the reasoning parser. */
  readonly takesThoughts: () => boolean
}

/** Of a template that nobody told us. */
export class UntoldHabitError extends LoadOnlyError {
  readonly habit: keyof TemplateHabits

  constructor(habit: UntoldHabitError['habit']) {
    super('engine-settings', `the engine does not tell ${untold[habit]}`)
    this.habit = habit
  }
}

const untold: Readonly<Record<keyof TemplateHabits, string>> = {
  takesLateSystem: 'where the template takes system messages',
  effortOfNone: 'what the template makes of an effort',
  thinkingSwitch: 'how thinking is switched',
  hasLowEffort: 'what a low effort is',
  takesThoughts: 'where thoughts of earlier turns go',
}

export function notTold(what: string): never {
  throw new LoadOnlyError('engine-settings', `the engine does not tell ${what}`)
}

/** A message under construction: what follows it may belong to it. */
export type Message = Record<string, Value>

export function isText(value: Value): value is string {
  return typeof value === 'string' && value !== ''
}
