/** How many things a second, over the last ten whole seconds: enough to see life, and nothing to keep but eleven counts. */
const windowSeconds = 10
const slotCount = windowSeconds + 1

export class RateMeter {
  readonly #counts = new Float64Array(slotCount)
  #second = Number.NEGATIVE_INFINITY

  /** `nowSeconds` may stand still or jump; a jump back counts into the second that was reached. */
  add(nowSeconds: number, count: number): void {
    this.#advance(nowSeconds)
    this.#counts[slotOf(this.#second)]! += count
  }

  perSecond(nowSeconds: number): number {
    this.#advance(nowSeconds)
    if (this.#second === Number.NEGATIVE_INFINITY) return 0
    let sum = 0
    for (const count of this.#counts) sum += count
    return (sum - this.#counts[slotOf(this.#second)]!) / windowSeconds // the second under way is not over
  }

  #advance(nowSeconds: number): void {
    const second = Math.floor(nowSeconds)
    if (!(second > this.#second)) return
    const from = Math.max(this.#second + 1, second - windowSeconds)
    for (let passed = from; passed <= second; passed++) this.#counts[slotOf(passed)] = 0
    this.#second = second
  }
}

function slotOf(second: number): number {
  return ((second % slotCount) + slotCount) % slotCount
}
