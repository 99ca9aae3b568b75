/** Everything at once, where the product takes steps. */
export function finish<Result>(steps: Generator<undefined, Result, void>): Result {
  for (;;) {
    const step = steps.next()
    if (step.done) return step.value
  }
}
