import { expect, it } from 'vitest'
import { AskedHabits } from './asked-habits.js'
import type { HabitAsks } from './asked-habits.js'

/** An engine that counts `counted` and whose two chats have these lengths; undefined where it refuses. */
function engine(counted: number | undefined, ...lengths: (number | undefined)[]) {
  const state = { asks: 0, isDown: false }
  const asks: HabitAsks = {
    count: () => {
      state.asks++
      return state.isDown ? Promise.reject(new Error('down')) : Promise.resolve(counted)
    },
    length: (_, habits) => Promise.resolve(lengths[habits.takesLateSystem('vllm') ? 0 : 1]),
  }
  return { state, asks }
}

const learn = (habits: AskedHabits, asks: HabitAsks, signal?: AbortSignal): Promise<void> =>
  habits.learn('takesLateSystem', 'm', asks, signal)

it.each([
  { says: 'the chat that has the count', counted: 9, lengths: [9, 8], takes: true },
  { says: 'the other one', counted: 8, lengths: [9, 8], takes: false },
  { says: 'the one that is not refused', counted: 8, lengths: [undefined, 8], takes: false },
  { says: 'nothing where both have it', counted: 8, lengths: [8, 8], takes: undefined },
  { says: 'nothing where neither has it', counted: 7, lengths: [9, 8], takes: undefined },
  { says: 'nothing where it does not count', counted: undefined, lengths: [9, undefined], takes: undefined },
])('believes $says', async ({ counted, lengths, takes }) => {
  const habits = new AskedHabits()
  await learn(habits, engine(counted, ...lengths).asks)
  if (takes === undefined) expect(() => habits.takesLateSystem()).toThrow('where the template takes system messages')
  else expect(habits.takesLateSystem()).toBe(takes)
})

it('asks once for all who wait, also when one of them leaves, and again where asking failed', async () => {
  const habits = new AskedHabits()
  const { state, asks } = engine(9, 9, 8)
  state.isDown = true
  await expect(learn(habits, asks)).rejects.toThrow('down')
  state.isDown = false
  const leaver = new AbortController()
  const waiting = [learn(habits, asks, leaver.signal), learn(habits, asks), learn(habits, asks)]
  leaver.abort(new Error('gone'))
  const ends = await Promise.allSettled(waiting)
  expect(ends.map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'fulfilled'])
  expect([state.asks, habits.takesLateSystem()]).toEqual([2, true])
})

it('is asked again after many requests that depend on it: another engine may stand there by then', async () => {
  const habits = new AskedHabits()
  await learn(habits, engine(9, 9, 8).asks)
  for (let use = 0; use < 256; use++) expect(habits.takesLateSystem()).toBe(true)
  expect(() => habits.takesLateSystem()).toThrow()
  await learn(habits, engine(8, 9, 8).asks)
  expect(habits.takesLateSystem()).toBe(false)
})
