/**
 * What an engine makes of a chat template that it does not tell. Two things are decided by a template and are the same for every
 * request: where system messages go, and which effort stands for none. The engine counts a request that depends on it
 * (`/v1/messages/count_tokens`), and tokenizes each of the chats that it may become: where their lengths differ, the one that has
 * the engine's count is the engine's. Nothing is taken for likely: where lengths do not tell, it stays untold.
 */
import type { TemplateHabits } from '../chat/converted.js'
import { UntoldHabitError } from '../chat/converted.js'
import type { Body } from '../chat/request.js'

export type Habit = UntoldHabitError['habit']

export interface HabitAsks {
  /** The tokens that the engine counts in a request of `/v1/messages`. Undefined: it says no number. */
  readonly count: (messages: Body) => Promise<number | undefined>
  /** The length of the chat that the request becomes under these habits. Undefined: the engine refuses that chat. */
  readonly length: (messages: Body, habits: TemplateHabits) => Promise<number | undefined>
}

/** What was found out is asked for again after so many requests that depend on it. */
const usesMax = 256

const turn = (role: string, content: string): Body => ({ role, content })

/** Roles that take turns under either habit: many templates insist on it. */
const probes: Readonly<Record<Habit, Body>> = {
  'late-system': {
    max_tokens: 1,
    system: 'Be kind.',
    messages: [turn('user', 'Hi'), turn('assistant', 'Hello'), turn('system', 'Be brief.'), turn('user', 'Go on')],
  },
  'effort-of-none': { max_tokens: 1, thinking: { type: 'disabled' }, messages: [turn('user', 'Hi')] },
}

export class AskedHabits implements TemplateHabits {
  #takesLateSystem: boolean | undefined
  #effortOfNone: string | undefined
  #uses = 0
  readonly #learning = new Map<Habit, Promise<void>>()

  takesLateSystem(): boolean {
    this.#use()
    if (this.#takesLateSystem === undefined) throw new UntoldHabitError('late-system')
    return this.#takesLateSystem
  }

  effortOfNone(): string {
    this.#use()
    if (this.#effortOfNone === undefined) throw new UntoldHabitError('effort-of-none')
    return this.#effortOfNone
  }

  /** Asks once, however many requests wait for it, and whoever of them leaves; again later where asking failed. Rejects as the asks do. */
  learn(habit: Habit, model: Body[string], asks: HabitAsks, signal: AbortSignal | undefined): Promise<void> {
    let learning = this.#learning.get(habit)
    if (!learning) {
      learning = this.#learn(habit, { ...probes[habit], model }, asks)
      learning.catch(() => this.#learning.delete(habit))
      this.#learning.set(habit, learning)
    }
    return signal ? unlessAborted(learning, signal) : learning
  }

  /** What it may be, as far as is known: one of these is the engine's. */
  candidates(habit: Habit): readonly TemplateHabits[] {
    const takesLateSystem = (): boolean => this.takesLateSystem()
    const effortOfNone = (): string => this.effortOfNone()
    return habit === 'late-system'
      ? [true, false].map((it) => ({ takesLateSystem: () => it, effortOfNone }))
      : ['none', 'low'].map((it) => ({ takesLateSystem, effortOfNone: () => it }))
  }

  /** The engine behind an address may be started again with another template. */
  #use(): void {
    if (this.#uses++ < usesMax) return
    this.#uses = 0
    this.#takesLateSystem = this.#effortOfNone = undefined
    this.#learning.clear()
  }

  async #learn(habit: Habit, probe: Body, { count, length }: HabitAsks): Promise<void> {
    const candidates = this.candidates(habit)
    const [counted, ...lengths] = await Promise.all([count(probe), ...candidates.map((it) => length(probe, it))])
    const fitting = candidates.filter((_, at) => counted !== undefined && lengths[at] === counted)
    if (fitting.length !== 1) return
    if (habit === 'late-system') this.#takesLateSystem = fitting[0]!.takesLateSystem('vllm')
    else this.#effortOfNone = fitting[0]!.effortOfNone()
  }
}

function unlessAborted(work: Promise<void>, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const leave = (): void => reject(signal.reason as Error)
    signal.addEventListener('abort', leave, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', leave))
  })
}
