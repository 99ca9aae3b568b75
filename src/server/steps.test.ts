import { stat } from 'node:fs'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, it } from 'vitest'
import type { Steps } from './steps.js'
import { ownTurn, takeSteps } from './steps.js'

function* work(steps: number, onStep: () => void): Steps<string> {
  for (let step = 0; step < steps; step++) {
    if (step > 0) yield
    onStep()
  }
  return 'done'
}

it('does what is short at once', () => {
  expect(takeSteps(work(1, () => {}))).toBe('done')
})

it('does one step in a turn of the loop, whoever it belongs to', async () => {
  let turn = 0
  const turns: number[] = []
  const onStep = (): void => {
    if (turn > 0) turns.push(turn)
  }
  const works = [work(5, onStep), work(3, onStep), work(4, onStep)].map((steps) => takeSteps(steps))
  turn = 1
  let isDone = false
  const all = Promise.all([...works, ownTurn().then(onStep)]).then(() => (isDone = true))
  while (!isDone) {
    await nextTurn()
    turn++
  }
  await all
  expect(turns).toHaveLength(4 + 2 + 3 + 1)
  expect(new Set(turns).size).toBe(turns.length)
})

it('lets those go first who came first', async () => {
  const order: number[] = []
  await Promise.all([1, 2, 3].map((name) => ownTurn().then(() => order.push(name))))
  expect(order).toEqual([1, 2, 3])
})

it('lets a timer that is due go first, also where a socket or a file has just been served', async () => {
  const order = await new Promise<string[]>((resolve) => {
    stat('.', () => {
      const seen: string[] = []
      setTimeout(() => seen.push('timer'), 1)
      for (const startedMs = performance.now(); performance.now() - startedMs < 3; );
      void ownTurn().then(() => resolve([...seen, 'own turn']))
    })
  })
  expect(order).toEqual(['timer', 'own turn'])
})
