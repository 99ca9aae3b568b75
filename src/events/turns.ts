/** Long work on a loop that others need too. */
import { setImmediate as nextTurn } from 'node:timers/promises'

/** How long the loop may be held before others have a turn; the last step may take longer. */
const turnMs = 4

export interface TurnOptions {
  /** Hears for how long the loop was held. */
  readonly onTurn?: (ms: number) => void
  /** Nobody wants the result any more. */
  readonly isOver?: () => boolean
}

/** Takes step after step, with a turn of the loop whenever `turnMs` are over. Undefined: it was over before its end. */
export async function inTurns<Result>(
  steps: Generator<undefined, Result, void>,
  { onTurn, isOver }: TurnOptions = {},
): Promise<Result | undefined> {
  for (;;) {
    await nextTurn()
    if (isOver?.()) return undefined
    const started = performance.now()
    let step = steps.next()
    while (!step.done && performance.now() - started < turnMs) step = steps.next()
    onTurn?.(performance.now() - started)
    if (step.done) return step.value
  }
}
