/**
 * Work on what a client sent that may be long: a generator that yields wherever others may have their turn of the loop. What is short
 * never yields, and is done at once. Of everything that is long one piece is done in a turn, whoever it belongs to: ten long
 * bodies hold the loop no longer than one.
 */

export type Steps<T> = Generator<undefined, T, undefined>

/** A promise only where there is more than one step. */
export function takeSteps<T>(steps: Steps<T>): T | Promise<T> {
  const first = steps.next()
  return first.done ? first.value : takeOthers(steps)
}

async function takeOthers<T>(steps: Steps<T>): Promise<T> {
  for (;;) {
    await ownTurn()
    const step = steps.next()
    if (step.done) return step.value
  }
}

/** Of this process, as the loop is. */
const waiting: (() => void)[] = []

/**
 * Settles in a turn of the loop in which nobody else's does; first come, first served. An immediate that is set while the loop
 * looks at its sockets still runs before its timers, so it sets a second one.
 */
export function ownTurn(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve)
    if (waiting.length === 1) setImmediate(setImmediate, letOneGo)
  })
}

/** An immediate that is set by another comes in the next turn. */
function letOneGo(): void {
  const goOn = waiting.shift()!
  if (waiting.length > 0) setImmediate(letOneGo)
  goOn()
}
