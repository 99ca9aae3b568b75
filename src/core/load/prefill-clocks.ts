/**
 * How much of its time a rank spends on prompts: since ever, and usually. While prompts are computed nobody's answer goes on, so
 * whoever measures answers takes that time off, and whoever places one looks for a rank that has little of it.
 */

/** What is this long ago counts for half of what is now. */
const memoryMs = 20_000

export class PrefillClocks {
  // By rank.
  readonly #pending: number[] = []
  readonly #busySinceMs: number[] = []
  readonly #busyMs: number[] = []
  /** Share of the time that prompts were computed, as of `#seenAtMs`. */
  readonly #share: number[] = []
  readonly #seenAtMs: number[] = []

  /** A prompt is sent to the rank. */
  begin(rank: number, nowMs: number): void {
    this.#makeRoom(rank, nowMs)
    if (this.#pending[rank] === 0) {
      this.#share[rank] = this.share(rank, nowMs)
      this.#seenAtMs[rank] = this.#busySinceMs[rank] = nowMs
    }
    this.#pending[rank]!++
  }

  /** A prompt is computed, or will not be. */
  end(rank: number, nowMs: number): void {
    if (!(this.#pending[rank]! > 0) || --this.#pending[rank]! > 0) return
    this.#busyMs[rank]! += Math.max(0, nowMs - this.#busySinceMs[rank]!)
    const left = this.#left(rank, nowMs)
    this.#share[rank] = this.#share[rank]! * left + (1 - left)
    this.#seenAtMs[rank] = nowMs
  }

  /** Time with prompts on the rank, since its first. */
  busyMs(rank: number, nowMs: number): number {
    if (!(rank < this.#pending.length)) return 0
    return this.#busyMs[rank]! + (this.#pending[rank]! > 0 ? Math.max(0, nowMs - this.#busySinceMs[rank]!) : 0)
  }

  /** Of its time, lately. */
  share(rank: number, nowMs: number): number {
    if (!(rank < this.#pending.length)) return 0
    const left = this.#left(rank, nowMs)
    return this.#share[rank]! * left + (this.#pending[rank]! > 0 ? 1 - left : 0)
  }

  /** Its number means another rank from now on. */
  forget(rank: number): void {
    if (rank < this.#pending.length) this.#pending[rank] = this.#busyMs[rank] = this.#share[rank] = 0
  }

  /** Not the exponential: read for every row of a decision, and only ever compared. */
  #left(rank: number, nowMs: number): number {
    return memoryMs / (memoryMs + Math.max(0, nowMs - this.#seenAtMs[rank]!))
  }

  #makeRoom(rank: number, nowMs: number): void {
    while (this.#pending.length <= rank) {
      this.#pending.push(0)
      this.#busySinceMs.push(nowMs)
      this.#busyMs.push(0)
      this.#share.push(0)
      this.#seenAtMs.push(nowMs)
    }
  }
}
