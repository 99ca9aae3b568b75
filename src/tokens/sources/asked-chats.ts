/** The chats that a request may become at an engine that is asked: one, where what it depends on could be found out. */
import type { TemplateHabits } from '../chat/converted.js'
import { UntoldHabitError } from '../chat/converted.js'
import { LoadOnlyError } from '../chat/request.js'
import { nextTurn } from '../next-turn.js'
import type { AskedHabits, Habit } from './asked-habits.js'

export interface AskedChats {
  /** What the engine's tokenize endpoint is asked, each differing from the others. */
  readonly posts: readonly string[]
  /** What could not be found out, so that there are several. */
  readonly open: readonly Habit[]
}

/** Of one ask: to write a dozen of them would hold the loop. */
const longUnits = 64 << 10

export async function askedChats(
  makeAsk: (habits: TemplateHabits) => string,
  habits: AskedHabits,
  learn: (habit: Habit) => Promise<void>,
): Promise<AskedChats> {
  const learnt = new Set<Habit>()
  const open: Habit[] = []
  for (;;)
    try {
      const asks: (string | LoadOnlyError)[] = []
      for (const it of habits.candidates(open)) {
        const ask = unlessMalformed(() => makeAsk(it))
        asks.push(ask)
        if (typeof ask === 'string' && ask.length > longUnits) await nextTurn()
      }
      const posts = new Set(asks.filter((it) => typeof it === 'string'))
      // Nobody needs the tokens of a chat that the engine refuses; unless it refuses all that it may be.
      if (posts.size === 0) throw asks[0] as LoadOnlyError
      return { posts: [...posts], open }
    } catch (error) {
      if (!(error instanceof UntoldHabitError)) throw error
      if (learnt.has(error.habit)) open.push(error.habit)
      learnt.add(error.habit)
      await learn(error.habit)
    }
}

/** All of them at once, but for the work of sending what is long. */
export async function inTurns<T>(posts: readonly string[], ask: (post: string) => Promise<T>): Promise<T[]> {
  const asked: Promise<T>[] = []
  for (const post of posts) {
    if (post.length > longUnits) await nextTurn()
    const answer = ask(post)
    answer.catch(() => undefined) // is told below, when all are asked
    asked.push(answer)
  }
  return Promise.all(asked)
}

/** Where the engine would refuse the request, the refusal. */
export function unlessMalformed(make: () => string): string | LoadOnlyError {
  try {
    return make()
  } catch (error) {
    if (error instanceof LoadOnlyError && error.reason === 'malformed') return error
    throw error
  }
}
