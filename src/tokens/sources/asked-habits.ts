/**
 * What an engine makes of a chat template that it does not tell. Some things are decided by a template and are the same for every
 * request, as where system messages go, or how thinking is switched. The engine counts a request that depends on it
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
  /** The length of the chat that the request becomes under these habits. Undefined: the engine refuses it. */
  readonly length: (messages: Body, habits: TemplateHabits) => Promise<number | undefined>
}

/** What was found out is asked for again after so many requests that depend on it. */
const usesMax = 256

const turn = (role: string, content: string): Body => ({ role, content })

/** Requests that depend on one habit alone. Roles take turns under every habit: many templates insist on it. */
const probes: Readonly<Record<Habit, readonly Body[]>> = {
  takesLateSystem: [
    {
      max_tokens: 1,
      system: 'Be kind.',
      messages: [turn('user', 'Hi'), turn('assistant', 'Hello'), turn('system', 'Be brief.'), turn('user', 'Go on')],
    },
  ],
  effortOfNone: [{ max_tokens: 1, thinking: { type: 'disabled' }, messages: [turn('user', 'Hi')] }],
  thinkingSwitch: ['disabled', 'adaptive'].map((type) => ({
    max_tokens: 1,
    thinking: { type },
    messages: [turn('user', 'Hi')],
  })),
  hasLowEffort: [{ max_tokens: 1, output_config: { effort: 'low' }, messages: [turn('user', 'Hi')] }],
  // SGLang takes an assistant who speaks last for the user, so that every template shows whether thoughts are in the text.
  takesThoughts: [
    {
      max_tokens: 1,
      messages: [{ role: 'assistant', content: [{ type: 'thinking', thinking: 'Let me see.', signature: '' }] }],
    },
  ],
}

type Values = { readonly [It in Habit]: ReturnType<TemplateHabits[It]> }

const possible: { readonly [It in Habit]: readonly Values[It][] } = {
  takesLateSystem: [true, false],
  effortOfNone: ['none', 'low'],
  thinkingSwitch: ['enable_thinking', 'thinking', 'effort', 'always', 'none'],
  hasLowEffort: [false, true],
  takesThoughts: [false, true],
}

export class AskedHabits implements TemplateHabits {
  #known: Partial<Values> = {}
  #uses = 0
  readonly #learning = new Map<Habit, Promise<void>>()

  readonly takesLateSystem = (): boolean => this.#tell('takesLateSystem')
  readonly effortOfNone = (): string => this.#tell('effortOfNone')
  readonly thinkingSwitch = (): Values['thinkingSwitch'] => this.#tell('thinkingSwitch')
  readonly hasLowEffort = (): boolean => this.#tell('hasLowEffort')
  readonly takesThoughts = (): boolean => this.#tell('takesThoughts')

  /** Asks once, however many requests wait for it, and whoever of them leaves; again later where asking failed. Rejects as the asks do. */
  learn(habit: Habit, model: Body[string], asks: HabitAsks, signal: AbortSignal | undefined): Promise<void> {
    let learning = this.#learning.get(habit)
    if (!learning) {
      learning = this.#learn(
        habit,
        probes[habit].map((probe) => ({ ...probe, model })),
        asks,
      )
      learning.catch(() => this.#learning.delete(habit))
      this.#learning.set(habit, learning)
    }
    return signal ? unlessAborted(learning, signal) : learning
  }

  /** What these may be, all else as far as it is known: one of the answers is the engine's. */
  candidates(habits: readonly Habit[]): readonly TemplateHabits[] {
    return habits.reduce<readonly TemplateHabits[]>(
      (all, habit) => all.flatMap((it) => possible[habit].map((value) => ({ ...it, [habit]: () => value }))),
      [{ ...(this as TemplateHabits) }],
    )
  }

  #tell<It extends Habit>(habit: It): Values[It] {
    this.#use()
    if (!(habit in this.#known)) throw new UntoldHabitError(habit)
    return (this.#known as Values)[habit]
  }

  /** The engine behind an address may be started again with another template. */
  #use(): void {
    if (this.#uses++ < usesMax) return
    this.#uses = 0
    this.#known = {}
    this.#learning.clear()
  }

  /** An engine that refuses a probe as a candidate says, and counts another as it says, has that habit. */
  async #learn(habit: Habit, asked: readonly Body[], { count, length }: HabitAsks): Promise<void> {
    const candidates = this.candidates([habit])
    const [counts, ...lengths] = await Promise.all([
      Promise.all(asked.map(count)),
      ...candidates.map((it) => Promise.all(asked.map((probe) => length(probe, it)))),
    ])
    if (counts.every((counted) => counted === undefined)) return
    const fitting = lengths.flatMap((them, at) => (them.every((it, nth) => it === counts[nth]) ? [at] : []))
    if (fitting.length === 1) this.#known = { ...this.#known, [habit]: possible[habit][fitting[0]!] }
  }
}

function unlessAborted(work: Promise<void>, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const leave = (): void => reject(signal.reason as Error)
    signal.addEventListener('abort', leave, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', leave))
  })
}
