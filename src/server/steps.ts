/**
 * Work on what a client sent that may be long: a generator that yields wherever others may have their turn of the loop. What is short
 * never yields, and is done at once.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'

export type Steps<T> = Generator<undefined, T, undefined>

/** A promise only where there is more than one step. */
export function takeSteps<T>(steps: Steps<T>): T | Promise<T> {
  const first = steps.next()
  return first.done ? first.value : takeOthers(steps)
}

async function takeOthers<T>(steps: Steps<T>): Promise<T> {
  for (;;) {
    await nextTurn()
    const step = steps.next()
    if (step.done) return step.value
  }
}
